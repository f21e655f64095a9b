"""The command line: the race in a terminal, and the doors to the benchmark and to the making of drafts.

What cannot be done is said in a sentence on stderr, with exit code 2; Ctrl-C ends the lanes where they are, shows
what they wrote, and exits with 130.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from specdemo.config import ConfigRefused, add_config_option, configure, options_of
from specdemo.exit_codes import INTERRUPTED, REFUSED
from specdemo.models.pair_options import add_pair_options, pair_spec
from specdemo.race import Request, RequestRefused
from specdemo.race_options import add_race_options, race_request
from specdemo.request_log import add_log_options, entry_of, request_log

# torch and transformers take seconds to import: `--help` and a mistyped option do not wait for them.
if TYPE_CHECKING:
    from specdemo.models.pair import Pair
    from specdemo.recording import RaceRecord

ROOMS = {  # commands of other rooms: add_arguments(parser) and main(args) are imported when they are asked for
    "bench": ("specdemo.bench", "measure the engine against transformers' generate()"),
    "lab": ("specdemo.lab.command", "experiments: when it pays, and why"),
    "distill": ("specdemo.distill.main", "make a draft for a target"),
    "log": ("specdemo.log_view", "what the runs of a log come to, and what got worse since when"),
    "remote": ("specdemo.remote.command", "one prompt on two vLLM servers, one of which speculates"),
    "doctor": ("specdemo.doctor", "what this machine can do, and what each preset would need"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(prog="specdemo", description="Plain and speculative decoding, raced.")
    commands = parser.add_subparsers(required=True, metavar="command")
    run_parser = commands.add_parser("run", help="one prompt through both lanes, in the terminal")
    _add_run(run_parser)
    for name, (room, about) in ROOMS.items():
        command = commands.add_parser(name, help=about)
        if argv[:1] == [name]:
            door = importlib.import_module(room)
            door.add_arguments(command)
            command.set_defaults(act=door.main)
            room_parser = command
    try:
        if argv[:1] == ["run"]:
            configure(run_parser, argv[1:], others=_options_of_the_page)
        elif argv[:1] == ["lab"]:
            door.configure_from_file(
                room_parser, argv[1:], others=lambda: {*options_of(run_parser), *_options_of_the_page()}
            )
    except ConfigRefused as error:
        print(error, file=sys.stderr)
        return REFUSED
    args = parser.parse_args(argv)
    try:
        return args.act(args) or 0
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED


def _options_of_the_page() -> dict[str, argparse.Action]:
    from specdemo.app_options import app_parser  # which imports what serves a page

    return options_of(app_parser())


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="what to ask the model")
    parser.add_argument("--example", metavar="TASK", help="ask what an example of the page asks: code, summarise, ...")
    add_pair_options(parser.add_argument_group("the pair"))
    race = add_race_options(parser)
    race.add_argument("--json", type=Path, metavar="FILE", help="keep both lanes' traces")
    add_log_options(parser.add_argument_group("the log"))
    add_config_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """The race of one prompt, shown and perhaps kept."""
    from rich.console import Console

    from specdemo.environment import Watch
    from specdemo.loading_bar import LoadingBar
    from specdemo.models.errors import MemoryShort, ModelUnavailable, PairRefused
    from specdemo.models.pair import load_pair
    from specdemo.race import check, check_settings
    from specdemo.trace_files import Unwritable, keep, refuse_unwritable

    sys.stdout.reconfigure(errors="replace")  # a terminal that cannot spell a character still shows the rest
    console = Console(highlight=False, markup=False)
    spec = pair_spec(args)
    try:
        refuse_unwritable(args.json)
        kept_log = request_log(args)
        prompt = _prompt(args)
        request = race_request(args)
        check_settings(request)  # before the models load
        with LoadingBar() as progress:
            pair = load_pair(spec, progress)
        request = replace(request, prompt_ids=_prompt_ids(prompt, pair, args.thinking))
        check(pair, request)
    except (ModelUnavailable, PairRefused, RequestRefused, Unwritable) as error:
        print(error, file=sys.stderr)
        return REFUSED
    watch = Watch() if args.json else None  # a look at all processes, for figures that are kept
    try:
        record, interrupted = _race(console, pair, request, prompt)
    except MemoryShort as error:
        print(error, file=sys.stderr)
        return REFUSED
    if watch is not None:
        record.known.environment["busy meanwhile"] = f"{sum(one.share for one in watch.busy()):.1f} cores, by others"
    kept = args.json is None or keep(args.json, record.file())
    if kept_log is not None:
        outcome = "stopped" if interrupted else "done"
        notice = kept_log.write(entry_of(record, outcome, "run", args.tag, prompt=kept_log.prompts))
        if notice:
            print(notice, file=sys.stderr)
    try:
        _show(console, record)
    except OSError as error:  # a full disk behind the output, or nobody who reads it any more
        print(f"The result could not be shown: {error.strerror or error}.", file=sys.stderr)
        return REFUSED
    return INTERRUPTED if interrupted else 0 if kept else REFUSED


def _prompt_ids(prompt: str, pair: Pair, thinking: str | None) -> tuple[int, ...]:
    from specdemo.models.text import encode_chat

    try:
        messages = [{"role": "user", "content": prompt}]
        return tuple(encode_chat(pair.tokenizer, messages, None if thinking is None else thinking == "on"))
    except ValueError as error:
        raise RequestRefused(str(error)) from error


def _prompt(args: argparse.Namespace) -> str:
    """What is asked; refused before the models load where no tokenizer could be given it."""
    from specdemo.examples import load_examples

    if (args.prompt is None) == (args.example is None):
        raise RequestRefused("Give a prompt, or an example's task with --example.")
    prompts = {example["task"]: example["prompt"] for example in load_examples()}
    if args.example is not None and args.example not in prompts:
        raise RequestRefused(f"No example has the task {args.example!r}: take one of {', '.join(prompts)}.")
    prompt = args.prompt if args.example is None else prompts[args.example]
    if not prompt.strip():
        raise RequestRefused("The prompt is empty: write something for the model to answer.")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise RequestRefused("The prompt holds bytes that are no text: give it in UTF-8.") from None
    return prompt


def _race(console: object, pair: Pair, request: Request, prompt: str) -> tuple[RaceRecord, bool]:
    """Both lanes to their ends, or to Ctrl-C; what they wrote, and whether they were interrupted."""
    from specdemo.decoding.parting import find_parting
    from specdemo.models.text import Detokenizer, spelling
    from specdemo.race import Lane, race
    from specdemo.recording import Known, RaceRecord, Scribe
    from specdemo.terminal import RaceView

    record = RaceRecord(prompt, request, Known.of(pair))
    tokenizer = pair.tokenizer
    scribes = {lane: Scribe(lane, Detokenizer(tokenizer), lambda one: spelling(tokenizer, one)) for lane in Lane}
    interrupted = False
    with RaceView(console, record.lanes, request.stop_strings) as view:
        steps = race(pair, request)
        try:
            for lane_step in steps:
                record.add(scribes[lane_step.lane].spell(lane_step.step))
                view.update()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            steps.close()
    for lane, recording in record.lanes.items():
        recording.stop(scribes[lane].flush())
    if record.comparison.identical is False:
        ids = (record.metrics(lane).ids for lane in (Lane.BASELINE, Lane.SPECULATIVE))
        record.parting = find_parting(pair.target, request.prompt_ids, request.params, *ids)
    return record, interrupted


def _show(console: object, record: RaceRecord) -> None:
    from specdemo import terminal
    from specdemo.race import Lane

    lanes, comparison = record.lanes, record.comparison
    terminal.say(
        console,
        terminal.panes(console, lanes, record.request.stop_strings),
        terminal.legend(lanes[Lane.SPECULATIVE]),
        "",
    )
    sentences = [*terminal.sentences(comparison), *terminal.fallback(lanes[Lane.SPECULATIVE])]
    sentences += terminal.promised(record.known.pair)
    terminal.say(console, terminal.summary(lanes, comparison), "", *sentences)
