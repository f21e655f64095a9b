"""python -m specdemo distill: the commands by which a draft is made, their options and what they print."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from specdemo.distill.corpus import CorpusMismatch, read_rows
from specdemo.models.errors import ModelUnavailable

CORPUS = Path("distill/corpus")
WORK = Path("distill/work")
CHECKPOINT, HIDDEN = "checkpoint.pt", "hidden"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `distill`, by command."""
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("synthesise", help="let the target answer prompts; resumes where it stopped")
    make.add_argument("--corpus", type=Path, default=CORPUS, help="folder of the shards (default: %(default)s)")
    make.add_argument("--tokens", type=int, default=4_000_000, help="answer tokens wanted in all (%(default)s)")
    make.add_argument("--prompts", type=Path, help='own prompts, JSONL: {"prompt": "..."} or {"messages": [...]}')
    make.add_argument("--rows", type=int, default=64, help="rows in the batch (%(default)s)")
    make.add_argument("--longest-prompt", type=int, default=768, metavar="TOKENS", help="(%(default)s)")
    make.add_argument("--longest-answer", type=int, default=256, metavar="TOKENS", help="(%(default)s)")
    make.add_argument("--seed", type=int, default=0)
    make.add_argument(
        "--keep-hidden", action="store_true", help="keep the target's hidden states for training (3 MB a 1,000 tokens)"
    )
    _add_layers(make)
    make.add_argument("--part", default="0/1", help="K/N: this process makes part K (from 0) of N of the same corpus")
    _add_common(make)
    make.add_argument("--dtype", choices=("float32", "bfloat16"), help="by default float32 on a CPU, else bfloat16")
    train = commands.add_parser("train", help="train a head on a corpus; resumes from its last checkpoint")
    _add_common(train)
    train.add_argument("--corpus", type=Path, default=CORPUS, help="folder of the shards (default: %(default)s)")
    _add_layers(train)
    train.add_argument(
        "--from-head", type=Path, metavar="FOLDER", help="begin with an exported head, where there is no checkpoint"
    )
    train.add_argument(
        "--mlp",
        type=int,
        metavar="UNITS",
        help="of the head's MLP (default: as the head that it goes on from, else the target's); more widen that head",
    )
    train.add_argument("--vocabulary", type=int, default=6144, help="tokens that the head can draft (%(default)s)")
    train.add_argument("--longest", type=int, default=768, metavar="TOKENS", help="a row is cut here (%(default)s)")
    train.add_argument("--steps", type=int, default=2000, help="optimiser steps in all (%(default)s)")
    train.add_argument("--batch", type=int, default=1200, metavar="TOKENS", help="padding included (%(default)s)")
    train.add_argument("--unrolled", type=int, default=3, help="drafted tokens that are trained for (%(default)s)")
    train.add_argument("--learning-rate", type=float, default=3e-3, help="(%(default)s)")
    about = "what to train for: the target's distribution, or, of a head that has it, to be accepted (%(default)s)"
    train.add_argument("--objective", choices=("cross-entropy", "acceptance"), default="cross-entropy", help=about)
    train.add_argument("--train-output", action="store_true", help="the output matrix, too, not the target's own rows")
    train.add_argument("--every", type=int, default=100, help="steps between checkpoints (%(default)s)")
    export = commands.add_parser("export", help="write the trained head as a folder that other engines read, too")
    _add_common(export)
    export.add_argument("folder", type=Path, help="where the head goes")
    export.add_argument("--licence", default="apache-2.0", help="for the model card (%(default)s)")
    count = commands.add_parser("count", help="what a corpus holds, by kind")
    count.add_argument("--corpus", type=Path, default=CORPUS, help="folder of the shards (default: %(default)s)")


def _add_layers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", help="target layers read, as speculators counts them (2, the middle, last but 3)")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", help="a model's folder or hub id; the embedded target by default")
    parser.add_argument("--work", type=Path, default=WORK, help="hidden states and checkpoints (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads to compute with on a CPU")


def main(args: argparse.Namespace) -> int:
    """Run a command; 0 when it did what it was asked."""
    try:
        commands = {"synthesise": synthesise, "train": train, "export": export, "count": count}
        return commands[args.command](args)
    except (CorpusMismatch, ModelUnavailable, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return 130


def synthesise(args: argparse.Namespace) -> int:
    """Make a corpus, or go on with one."""
    from tqdm import tqdm

    from specdemo.distill.hidden import HiddenStore, Listener, layers_to_read
    from specdemo.distill.plan import OwnPrompts, PatternPlan
    from specdemo.distill.synthesise import Settings, Synthesis
    from specdemo.distill.target import load_target, pack_products

    part, parts = (int(number) for number in args.part.split("/"))
    settings = Settings(
        args.corpus,
        args.tokens,
        args.seed,
        rows=args.rows,
        longest_prompt=args.longest_prompt,
        longest_answer=args.longest_answer,
        part=part,
        parts=parts,
    )
    plan = OwnPrompts(args.prompts) if args.prompts else PatternPlan(args.seed)
    model, tokenizer, name = load_target(args.target, args.dtype, args.threads)
    pack_products(model)
    store = None
    if args.keep_hidden:
        listener = Listener(model, layers_to_read(model, args.layers))
        store = HiddenStore(args.work / HIDDEN, listener, f"part-{part}-of-{parts}")
    work = Synthesis(model, tokenizer, name, plan, settings, store)
    quiet = 0.5 if sys.stderr.isatty() else 30
    with tqdm(total=args.tokens // parts, initial=work.tokens, unit="tok", unit_scale=True, mininterval=quiet) as bar:
        for tokens in work.run():
            bar.update(tokens - bar.n)
    print(f"{work.tokens:,} answer tokens of this part in {args.corpus}; {work.dropped:,} prompts or rows dropped.")
    return 0


def train(args: argparse.Namespace) -> int:
    """Compute the hidden states that are missing, then train, with a checkpoint and its figures every so often."""
    from tqdm import tqdm

    from specdemo.distill.export import read_head
    from specdemo.distill.head_model import mlp_units, new_head, widened
    from specdemo.distill.hidden import HiddenStore, Listener, examples, fill, layers_to_read
    from specdemo.distill.target import load_target
    from specdemo.distill.train import Recipe, Trainer, drafted_ids, read_checkpoint

    model, tokenizer, _ = load_target(args.target, threads=args.threads)
    layers = layers_to_read(model, args.layers)
    store = HiddenStore(args.work / HIDDEN, Listener(model, layers), "train")
    for done, total in fill(store, args.corpus, model):
        print(f"hidden states of {done:,} of {total:,} tokens", file=sys.stderr)
    rows = examples(store, args.corpus, args.longest)
    checkpoint = args.work / CHECKPOINT
    state, weights = read_checkpoint(checkpoint) if checkpoint.exists() else None, None
    if args.from_head and not state:
        weights, ids = read_head(args.from_head, layers)
    else:
        ids = drafted_ids(checkpoint, state, rows, model, tokenizer, args.vocabulary)
    before = state["head"] if state else weights
    units = args.mlp if args.mlp is not None else before and mlp_units(before)
    head = new_head(model, ids, len(layers), units)
    if weights:
        head.load_state_dict(widened(weights, head))
    recipe = Recipe(
        args.steps,
        args.batch,
        args.unrolled,
        learning_rate=args.learning_rate,
        train_output=args.train_output,
        objective=args.objective,
    )
    run = Trainer(head, model, ids, layers, rows, recipe, checkpoint, from_head=weights is not None)
    with tqdm(total=recipe.steps, initial=run.step, unit="step") as bar:
        for progress in run.run():
            bar.update(progress.step - bar.n)
            bar.set_postfix_str(f"loss {progress.loss:.3f}")
            if progress.step % args.every == 0 or progress.step == recipe.steps:
                run.save()
                bar.write("\n".join(run.figures()))
    return 0


def export(args: argparse.Namespace) -> int:
    """Write the head of the last checkpoint."""
    from specdemo.distill.export import Card, export_head
    from specdemo.distill.target import load_target
    from specdemo.distill.train import read_checkpoint

    state = read_checkpoint(args.work / CHECKPOINT)
    model, _, name = load_target(args.target, threads=args.threads)
    recipe = state["recipe"]
    steps = " and ".join(f"{n:,} steps for {objective}" for objective, n in state["steps_for"].items())
    trained = f"{steps}, of {recipe['tokens']:,} tokens, {recipe['unrolled']} unrolled"
    trained += ", from an earlier head" if state["from_head"] else ""
    card = Card(name, args.licence, state["data"], trained, state["figures"])
    size = export_head(args.folder, state["head"], state["draft_ids"], model, state["layers"], card)
    print(f"{args.folder}: {size / 1e6:.1f} MB")
    return 0


def count(args: argparse.Namespace) -> int:
    """Print rows and tokens by kind and by temperature."""
    kinds: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    warmth: Counter[float] = Counter()
    held = 0
    for row in read_rows(args.corpus):
        rows[row.kind] += 1
        kinds[row.kind] += len(row.answer)
        warmth[row.temperature] += len(row.answer)
        held += row.held_out
    for kind, tokens in kinds.most_common():
        print(f"{kind:12} {rows[kind]:7,} rows {tokens:10,} answer tokens")
    print(f"{'all':12} {rows.total():7,} rows {kinds.total():10,} answer tokens, {held:,} rows held out")
    print("by temperature: " + ", ".join(f"{t:g}: {n:,}" for t, n in sorted(warmth.items())))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m specdemo.distill.main", description=__doc__)
    add_arguments(parser)
    sys.exit(main(parser.parse_args()))
