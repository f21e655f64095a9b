"""A head learns what its target does, resumes where it stopped, and drafts as it was trained."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.distill import main
from specdemo.distill.batch import BatchDecoder
from specdemo.distill.corpus import CorpusWriter, Header, Row
from specdemo.distill.export import Card, export_head
from specdemo.distill.head_model import HeadShape, TrainableHead, mlp_units, new_head, widened
from specdemo.distill.hidden import Example, HiddenStore, Listener, examples, fill
from specdemo.distill.train import (
    LOSSES,
    Recipe,
    Trainer,
    cross_entropy,
    draft_vocabulary,
    negative_log_acceptance,
    read_checkpoint,
)
from specdemo.models.head_files import find_head, load_head
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.runners import make_runner
from specdemo.race import Request, lanes
from tests.distill.test_batch import answer_all, jobs
from tests.drafters import speculators_heads as made
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import tiny_llama

LAYERS = (1, 2, 3)
QUICK = Recipe(steps=30, tokens=400, warmup=5, learning_rate=3e-3)


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    """A tiny target whose vocabulary leaves something to prune."""
    return tiny_llama(vocab_size=64, layers=4)


@pytest.fixture(scope="module")
def corpus(target: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers that the target really gives, sampled at a temperature where it has habits."""
    folder = tmp_path_factory.mktemp("corpus")
    writer = CorpusWriter(folder, Header("tiny", "-", 64, 0))
    runner = make_runner(target)
    random = np.random.default_rng(0)
    for seed in range(60):
        prompt = random.integers(0, 64, 6).tolist()
        ending = Ending(Limits(24, 400), len(prompt))
        steps = autoregressive(runner, prompt, SamplingParams(temperature=0.7, seed=seed), ending)
        writer.append(Row(seed, "noise", 0.7, prompt, [t.id for s in steps for t in s.tokens]))
    return folder


def command(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    main.add_arguments(parser)
    return main.main(parser.parse_args(arguments))


def filled(folder: Path, corpus: Path, target: LlamaForCausalLM) -> HiddenStore:
    store = HiddenStore(folder / "hidden", Listener(target, LAYERS), "train")
    for _ in fill(store, corpus, target):
        pass
    return store


def trainer(target: LlamaForCausalLM, corpus: Path, folder: Path, recipe: Recipe = QUICK) -> Trainer:
    rows = examples(filled(folder, corpus, target), corpus, longest=64)
    ids = draft_vocabulary(rows, 64, 40, always=[2])
    torch.manual_seed(0)
    return Trainer(new_head(target, ids, len(LAYERS)), target, ids, LAYERS, rows, recipe, folder / "checkpoint.pt")


def test_the_unrolled_steps_equal_the_packages_own_forward():
    config = LlamaConfig(head_dim=8, hidden_size=made.WIDTH, num_attention_heads=4, max_position_embeddings=64)
    shape = HeadShape(made.WIDTH, 24, 4, 2, 8, len(made.AUX), made.DRAFT_VOCAB, 1e-6)
    head = TrainableHead(shape, LlamaRotaryEmbedding(config))
    tensors = load_file(made.HEADS / "llama" / "model.safetensors")
    head.load_state_dict({name: tensors[name] for name in head.state_dict()})
    stored = load_file(made.HEADS / "expected" / "llama.safetensors")
    embeddings = tensors["embed_tokens.weight"][stored["ids"]][None]
    rows = torch.arange(len(stored["hidden"]))[None]
    for step, feature in enumerate(head.unroll(stored["hidden"][None], embeddings, rows, made.STEPS)):
        torch.testing.assert_close(head.logits(feature)[0], stored["logits"][step], rtol=1e-4, atol=1e-4)


def test_the_acceptance_objective_is_the_log_of_the_overlap():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.5, 0.3, 0.2]])
    q = torch.tensor([[0.2, 0.2, 0.6], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
    loss = negative_log_acceptance(p, q.log())
    torch.testing.assert_close(loss, -torch.tensor([0.2 + 0.2 + 0.2, 0.2, 1.0]).log())
    assert loss[1] == pytest.approx(cross_entropy(p, q.log())[1].item())  # of a target that is certain they are one


def test_of_a_draft_that_cannot_match_its_target_the_objective_of_acceptance_makes_more_be_accepted():
    """One q for two contexts, one of them twice as frequent: each objective's best q by search."""
    p = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.4]])
    x = torch.linspace(0.001, 0.999, 999)
    logits = torch.stack([x, 1 - x], dim=-1).log()[:, None].expand(-1, 3, -1)

    def accepted_at_best(loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        best = int(loss(p.expand(999, -1, -1), logits).mean(-1).argmin())
        return torch.minimum(p, logits[best].exp()).sum(-1).mean().item()

    assert accepted_at_best(cross_entropy) == pytest.approx((0.867 * 2 + 0.733) / 3, abs=0.002)
    assert accepted_at_best(negative_log_acceptance) == pytest.approx((1 + 1 + 0.6) / 3, abs=0.002)


@pytest.mark.parametrize("objective", LOSSES)
def test_training_lowers_the_loss_and_raises_agreement(
    target: LlamaForCausalLM, corpus: Path, tmp_path: Path, objective: str
):
    run = trainer(target, corpus, tmp_path, replace(QUICK, objective=objective))
    before = run.evaluate()
    losses = [progress.loss for progress in run.run()]
    after = run.evaluate()
    assert losses[-1] < losses[0] - 0.05
    assert after["overlap"][0] > before["overlap"][0]
    assert after["overlap"][2] > before["overlap"][2]
    assert all(0 <= x <= 1 for x in after["agreement"] + after["overlap"])


def test_a_checkpoint_knows_what_its_head_was_trained_for(target: LlamaForCausalLM, corpus: Path, tmp_path: Path):
    matched = trainer(target, corpus, tmp_path, replace(QUICK, steps=4))
    for _ in matched.run():
        pass
    matched.save()
    accepted = trainer(target, corpus, tmp_path, replace(QUICK, steps=6, objective="acceptance"))
    assert accepted.mean_loss is None, "of another objective"
    for _ in accepted.run():
        pass
    accepted.save()
    state = read_checkpoint(accepted.checkpoint)
    assert state["steps_for"] == {"cross-entropy": 4, "acceptance": 2} and not state["from_head"]


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(target: LlamaForCausalLM, corpus: Path, tmp_path: Path):
    whole = trainer(target, corpus, tmp_path / "whole")
    for _ in whole.run():
        pass
    first = trainer(target, corpus, tmp_path / "cut")
    for progress in first.run():
        if progress.step == 12:
            break
    first.save()
    second = trainer(target, corpus, tmp_path / "cut")
    assert second.step == 12
    for _ in second.run():
        pass
    for name, weight in whole.head.state_dict().items():
        torch.testing.assert_close(second.head.state_dict()[name], weight)


def test_the_hidden_states_resume_and_equal_the_targets_own(target: LlamaForCausalLM, corpus: Path, tmp_path: Path):
    for _ in fill(HiddenStore(tmp_path / "hidden", Listener(target, LAYERS), "train"), corpus, target):
        break  # cut after the first batch
    with (tmp_path / "hidden" / "train.f16").open("ab") as file:
        file.write(b"torn")
    rows = examples(filled(tmp_path, corpus, target), corpus, longest=64)
    assert len(rows) == 60
    check_states(target, rows[-1])


def test_synthesis_hears_the_states_that_training_reads(target: LlamaForCausalLM, tmp_path: Path):
    """Rows of several lengths, more than fit at once: each keeps its own states while they change places."""
    listener = Listener(target, LAYERS)
    decoder = BatchDecoder(target, rows=3, columns=80, stop_ids=(), listener=listener)
    answers = answer_all(decoder, jobs(64, 8, longest=9))
    assert len(answers) == 8
    for answer in answers.values():
        ids = np.array([*answer.job.ids, *answer.ids])
        check_states(target, Example(ids, len(answer.job.ids), "", 0, False, answer.hidden.numpy()))


def check_states(target: LlamaForCausalLM, example: Example) -> None:
    ids = torch.from_numpy(example.ids.astype(np.int64))[None]
    with torch.inference_mode():
        out = target.model(ids[:, :-1], output_hidden_states=True)
    ours = torch.from_numpy(np.array(example.hidden)).float()
    theirs = torch.cat([*(out.hidden_states[i][0] for i in LAYERS), out.last_hidden_state[0]], dim=-1)
    torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-3)


def test_an_exported_head_drafts_as_it_was_trained(target: LlamaForCausalLM, corpus: Path, tmp_path: Path):
    run = trainer(target, corpus, tmp_path)
    for _ in run.run():
        pass
    card = Card("tiny", "apache-2.0", "60 rows", "30 steps", ["agreement 0.5"])
    folder = tmp_path / "head"
    size = export_head(folder, run.head.state_dict(), run.draft_ids, target, LAYERS, card)
    assert size == (folder / "model.safetensors").stat().st_size
    drafter = load_head(find_head(str(folder)), target.config, target.get_input_embeddings().weight.detach(), 64)
    steps = list(
        speculative(make_runner(target), drafter, [3, 1, 4, 1, 5], SamplingParams(temperature=0.7, seed=1),
                    Rule.REJECTION, 3, Ending(Limits(200, 400), 5))
    )  # fmt: skip
    judged = sum(s.judged for s in steps)
    accepted = sum(s.accepted for s in steps) / judged
    promised = run.evaluate()["overlap"]
    assert accepted == pytest.approx(float(np.mean(promised)), abs=0.2)
    assert {d.id for s in steps for d in s.drafted} <= set(run.draft_ids.tolist())


def test_a_checkpoint_of_another_vocabulary_is_refused(target: LlamaForCausalLM, corpus: Path, tmp_path: Path):
    run = trainer(target, corpus, tmp_path)
    run.save()
    with pytest.raises(ValueError, match="reads layers"):
        Trainer(run.head, target, run.draft_ids, (1, 2), run._train, QUICK, tmp_path / "checkpoint.pt")
    other = draft_vocabulary(examples(filled(tmp_path, corpus, target), corpus, 64), 64, 30, [2])
    with pytest.raises(ValueError, match="another draft vocabulary"):
        Trainer(new_head(target, other, 3), target, other, LAYERS, run._train, QUICK, tmp_path / "checkpoint.pt")


def test_the_commands_train_export_and_go_on(target: LlamaForCausalLM, corpus: Path, tmp_path: Path, capsys):
    """From a corpus to a folder that a lane drafts with, by the commands alone."""
    target.save_pretrained(tmp_path / "target")
    word_tokenizer(64).save_pretrained(tmp_path / "target")
    work = ["--target", str(tmp_path / "target"), "--work", str(tmp_path / "work")]
    options = ["--corpus", str(corpus), "--layers", "1,2", "--vocabulary", "40", "--batch", "400", "--every", "4"]
    assert command(["train", *work, *options, "--steps", "4"]) == 0
    assert command(["train", *work, *options, "--steps", "8"]) == 0
    assert command(["train", *work, *options, "--vocabulary", "30", "--steps", "9"]) == 1
    assert "a draft vocabulary of 40 tokens, not 30" in capsys.readouterr().err
    assert command(["export", *work, str(tmp_path / "head")]) == 0
    assert "agreement" in (tmp_path / "head" / "README.md").read_text()
    assert "MB" in capsys.readouterr().out
    head = load_head(
        find_head(str(tmp_path / "head")), target.config, target.get_input_embeddings().weight.detach(), 64
    )
    assert head.aux_layers == (0, 1)


@pytest.mark.embedded
def test_the_embedded_pair_is_distilled_from_scratch_on_a_small_budget(tmp_path: Path):
    """Synthesis, training and export as the README has them, on hundreds of tokens: the loss really falls."""
    work = ["--corpus", str(tmp_path / "corpus"), "--work", str(tmp_path / "work")]
    short = ["--rows", "8", "--longest-prompt", "96", "--longest-answer", "32", "--tokens", "400"]
    assert command(["synthesise", *work, *short, "--keep-hidden"]) == 0
    options = ["--vocabulary", "512", "--batch", "300", "--unrolled", "1"]
    losses = []
    for steps in ("2", "12"):
        assert command(["train", *work, *options, "--steps", steps, "--every", "12"]) == 0
        losses.append(read_checkpoint(tmp_path / "work" / main.CHECKPOINT)["loss"])
    assert losses[1] < losses[0] - 0.5
    head = tmp_path / "head"
    assert command(["export", *work[2:], str(head)]) == 0
    pair = load_pair(PairSpec(drafter=str(head), device="cpu", target_precision="fp32"))
    request = Request(prompt_ids=(1, 2, 3), max_new_tokens=12)
    baseline, drafted = ([t.id for step in lane for t in step.tokens] for lane in lanes(pair, request).values())
    assert baseline == drafted


def test_training_goes_on_from_an_exported_head(target: LlamaForCausalLM, corpus: Path, tmp_path: Path, capsys):
    """What is kept where the checkpoint is not: its weights and its vocabulary, rounded to bf16."""
    target.save_pretrained(tmp_path / "target")
    word_tokenizer(64).save_pretrained(tmp_path / "target")
    options = ["--target", str(tmp_path / "target"), "--corpus", str(corpus), "--layers", "1,2", "--batch", "400"]
    first, second = (["--work", str(tmp_path / name)] for name in ("first", "second"))
    assert command(["train", *options, *first, "--vocabulary", "40", "--steps", "20"]) == 0
    head = str(tmp_path / "head")
    assert command(["export", *options[:2], *first, head]) == 0
    assert command(["train", *options, *second, "--from-head", head, "--steps", "1", "--learning-rate", "0"]) == 0
    kept, again = (read_checkpoint(tmp_path / name / main.CHECKPOINT) for name in ("first", "second"))
    assert torch.equal(kept["draft_ids"], again["draft_ids"])
    for name, weight in kept["head"].items():
        torch.testing.assert_close(again["head"][name], weight.bfloat16().float())
    assert command(["train", *options[:4], *second, "--layers", "1,3", "--from-head", head]) == 1
    third = ["--work", str(tmp_path / "third")]
    assert command(["train", *options[:4], *third, "--layers", "1,3", "--from-head", head]) == 1
    assert "reads layers [1, 2]" in capsys.readouterr().err
    assert command(["train", *options, *third, "--from-head", str(tmp_path)]) == 1
    assert "no head that training could go on from" in capsys.readouterr().err


def test_a_wider_mlp_begins_by_saying_what_the_narrower_one_says(target: LlamaForCausalLM):
    narrow, wide = (new_head(target, torch.arange(40), 3, units) for units in (24, 56))
    wide.load_state_dict(widened(narrow.state_dict(), wide))
    hidden, embeddings = torch.randn(2, 9, 3 * narrow.shape.width), torch.randn(2, 11, narrow.shape.width)
    rows = torch.arange(9).expand(2, -1)
    for one, other in zip(*(head.unroll(hidden, embeddings, rows, 2) for head in (narrow, wide)), strict=True):
        torch.testing.assert_close(one, other)


def test_the_commands_widen_a_head_and_go_on_with_its_width(
    target: LlamaForCausalLM, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target.save_pretrained(tmp_path / "target")
    word_tokenizer(64).save_pretrained(tmp_path / "target")
    options = ["--target", str(tmp_path / "target"), "--corpus", str(corpus), "--layers", "1,2", "--vocabulary", "40"]
    narrow, wide = (["--work", str(tmp_path / name)] for name in ("narrow", "wide"))
    assert command(["train", *options, *narrow, "--steps", "20"]) == 0
    head = str(tmp_path / "head")
    assert command(["export", *options[:2], *narrow, head]) == 0
    units = mlp_units(load_file(tmp_path / "head" / "model.safetensors"))
    fewer = ["--from-head", head, "--mlp", str(units - 1)]
    assert command(["train", *options, *wide, *fewer]) == 1
    assert f"has {units} units in its MLP: ask for as many or more" in capsys.readouterr().err
    assert command(["train", *options, *wide, "--mlp", "0"]) == 1
    assert "at least one unit" in capsys.readouterr().err
    more = ["--from-head", head, "--mlp", str(units + 8)]
    assert command(["train", *options, *wide, *more, "--steps", "1", "--learning-rate", "0"]) == 0
    said = [read_checkpoint(tmp_path / name / main.CHECKPOINT) for name in ("narrow", "wide")]
    assert [mlp_units(state["head"]) for state in said] == [units, units + 8]
    assert command(["train", *options, *narrow, "--mlp", str(units + 8)]) == 1
    assert f"was trained with {units} units in its MLP" in capsys.readouterr().err
    assert command(["train", *options, *wide, "--steps", "4"]) == 0, "as many as its checkpoint has, unasked"
    learnt = read_checkpoint(tmp_path / "wide" / main.CHECKPOINT)["head"]["layers.0.mlp.down_proj.weight"]
    assert (learnt[:, units:] != 0).any()
    assert command(["export", *options[:2], *wide, head]) == 0
    load_head(find_head(head), target.config, target.get_input_embeddings().weight.detach(), 64)


def test_what_cannot_be_trained_or_exported_is_a_sentence(corpus: Path, tmp_path: Path, capsys):
    assert command(["export", "--work", str(tmp_path), str(tmp_path / "head")]) == 1
    assert "run `distill train` first" in capsys.readouterr().err
