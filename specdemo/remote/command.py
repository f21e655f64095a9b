"""`python -m specdemo remote`: one prompt on two servers, one of which speculates, shown and kept as `run` does.

The baseline runs to its end, then the speculative lane: two servers may well share a device.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from specdemo import terminal, trace_files
from specdemo.exit_codes import INTERRUPTED, REFUSED
from specdemo.race import Lane, Mode, Request, RequestRefused
from specdemo.recording import RaceRecord
from specdemo.remote import racing
from specdemo.remote.facts import Provenance
from specdemo.remote.faults import RemoteFault
from specdemo.remote.lane import RemoteLane
from specdemo.remote.options import add_server_options, servers
from specdemo.remote.racing import RemotePair
from specdemo.remote.report import notes, verdict
from specdemo.sampling_options import add_sampling_options, sampling_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("prompt", help="what to ask the model")
    add_server_options(parser.add_argument_group("the servers, both of one model"), required=True)
    add_sampling_options(parser)
    parser.add_argument("--max-new-tokens", type=int, default=128, help="(%(default)s)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end at this text; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep both lanes' traces")


def main(args: argparse.Namespace) -> int:
    """The race of one prompt, shown and perhaps kept; the exit code."""
    sys.stdout.reconfigure(errors="replace")  # a terminal that cannot spell a character still shows the rest
    console = Console(highlight=False, markup=False)
    pair: RemotePair | None = None
    try:
        trace_files.refuse_unwritable(args.json)
        request = racing.check(_request(args))
        pair = racing.connect(servers(args))
        request = replace(request, prompt_ids=pair.encode(racing.said(args.prompt)) or ())
        lanes = pair.lanes(request, args.prompt)
        interrupted = race(console, lanes, request)
        record = RaceRecord(args.prompt, request)
        record.settle(racing.settle(request, lanes))
    except (RemoteFault, RequestRefused, trace_files.Unwritable) as error:
        print(error, file=sys.stderr)
        return REFUSED
    finally:
        if pair is not None:
            pair.close()
    kept = args.json is None or trace_files.keep(args.json, record.file())
    show(console, record, lanes)
    faulty = any(lane.fault for lane in lanes.values())
    return INTERRUPTED if interrupted else REFUSED if faulty or not kept else 0


def race(console: Console, lanes: dict[Lane, RemoteLane], request: Request) -> bool:
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


def show(console: Console, record: RaceRecord, lanes: dict[Lane, RemoteLane]) -> None:
    """The panes, the figures, the verdicts, and what has to be known of them."""
    speculative = record.lanes[Lane.SPECULATIVE]
    terminal.say(console, terminal.panes(console, record.lanes, record.request.stop_strings))
    if lanes[Lane.SPECULATIVE].provenance is not Provenance.UNKNOWN:
        terminal.say(console, terminal.legend(speculative), "")
    terminal.say(console, terminal.summary(record.lanes, record.comparison), "")
    terminal.say(console, *verdict(record, lanes), *notes(record, lanes))


def _request(args: argparse.Namespace) -> Request:
    """What the options ask for, the prompt's ids still missing."""
    if not args.prompt.strip():
        raise RequestRefused("The prompt is empty: write something for the model to answer.")
    return Request(
        prompt_ids=(),
        params=sampling_params(args),
        max_new_tokens=args.max_new_tokens,
        stop_strings=tuple(args.stop),
        mode=Mode.ONE_AFTER_ANOTHER,
    )
