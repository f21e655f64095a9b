"""`python -m specdemo remote`: one prompt on two servers, one of which speculates, shown and kept as `run` does.

Where one server alone is named, the other lane runs on this machine. The baseline runs to its end, then the speculative
lane, unless both are asked to race: two servers may well share a device.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from specdemo import terminal, trace_files
from specdemo.exit_codes import INTERRUPTED, REFUSED
from specdemo.models.errors import MemoryShort, ModelUnavailable, PairRefused
from specdemo.models.pair_options import NGRAM, PairSpec, add_pair_options, pair_spec
from specdemo.option_names import dashed
from specdemo.race import Lane, Mode, Request, RequestRefused, check_settings
from specdemo.race_options import add_race_options, race_request
from specdemo.recording import RaceRecord
from specdemo.remote import racing
from specdemo.remote.facts import Provenance
from specdemo.remote.faults import RemoteFault
from specdemo.remote.mixed import MixedPair
from specdemo.remote.options import Servers, add_server_options, refuse_theirs, servers
from specdemo.remote.racing import AnyLane, RemotePair
from specdemo.remote.report import notes, verdict
from specdemo.request_log import RequestLog, add_log_options, entry_of, request_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("prompt", help="what to ask the model")
    add_server_options(parser.add_argument_group("the servers; where one alone is named, the other lane runs here"))
    add_pair_options(parser.add_argument_group("the lane here, if there is one"))
    add_race_options(parser).add_argument("--json", type=Path, metavar="FILE", help="keep both lanes' traces")
    parser.set_defaults(mode=dashed(Mode.ONE_AFTER_ANOTHER), usual=parser.get_default)
    add_log_options(parser.add_argument_group("the log"))


def main(args: argparse.Namespace) -> int:
    """The race of one prompt, shown and perhaps kept; the exit code."""
    sys.stdout.reconfigure(errors="replace")  # a terminal that cannot spell a character still shows the rest
    console = Console(highlight=False, markup=False)
    pair: RemotePair | MixedPair | None = None
    try:
        trace_files.refuse_unwritable(args.json)
        log, asked = request_log(args), _servers(args)
        request = _request(args)
        pair = racing.connect(asked) if asked.here is None else _mixed(asked, pair_spec(args))
        thinking = None if args.thinking is None else args.thinking == "on"
        request = replace(request, prompt_ids=pair.encode(racing.said(args.prompt), thinking) or ())
        request = pair.check(request)
        lanes = pair.lanes(request, args.prompt)
        interrupted = race(console, lanes, request)
        record = RaceRecord(args.prompt, request)
        record.settle(racing.settle(request, lanes))
    except (
        RemoteFault,
        RequestRefused,
        ModelUnavailable,
        PairRefused,
        MemoryShort,
        trace_files.Unwritable,
    ) as error:
        print(error, file=sys.stderr)
        return REFUSED
    finally:
        if pair is not None:
            pair.close()
    for recording in record.lanes.values():
        recording.stop()
    faulty = any(lane.fault for lane in racing.served(lanes).values())
    kept = args.json is None or trace_files.keep(args.json, record.file())
    if log is not None:
        _write_down(log, record, "stopped" if interrupted else "failed" if faulty else "done", args.tag)
    show(console, record, lanes)
    return INTERRUPTED if interrupted else REFUSED if faulty or not kept else 0


def race(console: Console, lanes: dict[Lane, AnyLane], request: Request) -> bool:
    """Both lanes to their ends, or to Ctrl-C; whether it came to that."""
    live = RaceRecord("", request)
    steps = racing.race(lanes, request.mode)
    with terminal.RaceView(console, live.lanes, request.stop_strings) as view:
        try:
            for wrote in steps:
                if wrote is not None:
                    live.add(wrote)
                    view.update()
        except KeyboardInterrupt:
            return True
        finally:
            steps.close()
    return False


def show(console: Console, record: RaceRecord, lanes: dict[Lane, AnyLane]) -> None:
    """The panes, the figures, the verdicts, and what has to be known of them."""
    speculative = racing.served(lanes).get(Lane.SPECULATIVE)
    terminal.say(console, terminal.panes(console, record.lanes, record.request.stop_strings))
    if speculative is None or speculative.provenance is not Provenance.UNKNOWN:
        terminal.say(console, terminal.legend(record.lanes[Lane.SPECULATIVE]), "")
    alike = record.known.here is None
    terminal.say(console, terminal.summary(record.lanes, record.comparison, alike=alike), "")
    faults = [f"{lane.value.capitalize()}: {one.fault}" for lane, one in racing.served(lanes).items() if one.fault]
    terminal.say(console, *verdict(record), *faults, *notes(record))


def _servers(args: argparse.Namespace) -> Servers:
    asked = servers(args)
    if asked is None:
        raise RequestRefused(
            "No server is named: give --baseline-url and --speculative-url, or one of them for a race of a lane on "
            "this machine against it."
        )
    refuse_theirs(args, asked, args.usual)
    return asked


def _mixed(asked: Servers, spec: PairSpec) -> MixedPair:
    """The server, and the pair of which one lane runs here; a baseline needs no drafter."""
    racing.look(asked)
    from specdemo.loading_bar import LoadingBar
    from specdemo.models.pair import load_pair

    with LoadingBar() as progress:
        local = load_pair(replace(spec, drafter=NGRAM) if asked.here is Lane.BASELINE else spec, progress)
    return racing.mix(asked, local)


def _request(args: argparse.Namespace) -> Request:
    """What the options ask for, the prompt's ids still missing."""
    if not args.prompt.strip():
        raise RequestRefused("The prompt is empty: write something for the model to answer.")
    request = race_request(args)
    check_settings(request)  # before anything is asked or loaded
    return request


def _write_down(log: RequestLog, record: RaceRecord, outcome: str, tag: str) -> None:
    notice = log.write(entry_of(record, outcome, "remote", tag, prompt=log.prompts))
    if notice:
        print(notice, file=sys.stderr)
