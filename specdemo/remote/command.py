"""`python -m specdemo remote`: one prompt on two servers, one of which speculates, shown and kept as `run` does.

The baseline runs to its end, then the speculative lane: two servers may well share a device.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from specdemo import terminal, trace_files
from specdemo.decoding.steps import Rule, Stop
from specdemo.exit_codes import INTERRUPTED, REFUSED
from specdemo.race import Lane, Mode, Request, RequestRefused, check_settings
from specdemo.recording import Known, RaceRecord
from specdemo.remote.endpoint import Endpoint, RemoteFault
from specdemo.remote.lane import Asked, Provenance, RemoteLane
from specdemo.remote.report import facts, notes, verdict
from specdemo.sampling_options import add_sampling_options, sampling_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("prompt", help="what to ask the model")
    servers = parser.add_argument_group("the servers, both of one model")
    servers.add_argument("--baseline-url", required=True, metavar="URL", help="the server without speculative decoding")
    servers.add_argument("--speculative-url", required=True, metavar="URL", help="the server with it")
    servers.add_argument("--model", metavar="NAME", help="as both servers call it (the only one that they serve)")
    servers.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the servers' key")
    servers.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long a server may be silent (%(default)s)"
    )
    add_sampling_options(parser)
    parser.add_argument("--max-new-tokens", type=int, default=128, help="(%(default)s)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end at this text; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep both lanes' traces")


def main(args: argparse.Namespace) -> int:
    """The race of one prompt, shown and perhaps kept; the exit code."""
    sys.stdout.reconfigure(errors="replace")  # a terminal that cannot spell a character still shows the rest
    console = Console(highlight=False, markup=False)
    endpoints: dict[Lane, Endpoint] = {}
    try:
        trace_files.refuse_unwritable(args.json)
        request = _request(args)
        check_settings(request)
        endpoints = _endpoints(args)
        asked = _asked(endpoints, args, request)
        lanes, interrupted = race(console, endpoints, asked, request)
        record = record_of(args.prompt, request, lanes)
    except (RemoteFault, RequestRefused, trace_files.Unwritable) as error:
        print(error, file=sys.stderr)
        return REFUSED
    finally:
        for endpoint in endpoints.values():
            endpoint.close()
    kept = args.json is None or trace_files.keep(args.json, record.file())
    show(console, record, lanes)
    faulty = any(lane.fault for lane in lanes.values())
    return INTERRUPTED if interrupted else REFUSED if faulty or not kept else 0


def race(
    console: Console, endpoints: dict[Lane, Endpoint], asked: Asked, request: Request
) -> tuple[dict[Lane, RemoteLane], bool]:
    """One lane after the other to its end, or to Ctrl-C; and whether it came to that."""
    lanes = {lane: RemoteLane(lane, endpoint, asked) for lane, endpoint in endpoints.items()}
    live = RaceRecord("", request)
    with terminal.RaceView(console, live.lanes, request.stop_strings) as view:
        for lane in lanes.values():
            steps = lane.run()
            try:
                for wrote in steps:
                    live.add(wrote)
                    view.update()
            except KeyboardInterrupt:
                return lanes, True
            finally:
                steps.close()
    return lanes, False


def record_of(prompt: str, request: Request, lanes: dict[Lane, RemoteLane]) -> RaceRecord:
    """What both lanes left, by the server's clock where both servers tell it."""
    server_times = all(lane.times for lane in lanes.values())
    settled = {lane: one.settle(server_times) for lane, one in lanes.items()}
    speculative = lanes[Lane.SPECULATIVE]
    environment = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "openai": version("openai"),
    }
    longest = max((wrote.step.gamma for wrote in settled[Lane.SPECULATIVE]), default=0)
    request = replace(request, prompt_ids=speculative.prompt_ids, gamma=longest)
    record = RaceRecord(prompt, request, Known(pair=facts(lanes, server_times), environment=environment))
    for steps in settled.values():
        for wrote in steps:
            record.add(wrote)
    return record


def show(console: Console, record: RaceRecord, lanes: dict[Lane, RemoteLane]) -> None:
    """The panes, the figures, the verdicts, and what has to be known of them."""
    speculative = record.lanes[Lane.SPECULATIVE]
    terminal.say(console, terminal.panes(console, record.lanes, record.request.stop_strings))
    if lanes[Lane.SPECULATIVE].provenance is not Provenance.UNKNOWN:
        terminal.say(console, terminal.legend(speculative), "")
    terminal.say(console, terminal.summary(record.lanes, record.comparison), "")
    terminal.say(console, *verdict(record, lanes), *notes(record, lanes))


def _request(args: argparse.Namespace) -> Request:
    """What the options ask for. Servers judge drafts by rejection; how they draft is theirs to set."""
    if not args.prompt.strip():
        raise RequestRefused("The prompt is empty: write something for the model to answer.")
    if not args.timeout > 0:
        raise RequestRefused("The timeout must be more than 0 seconds.")
    return Request(
        prompt_ids=(),
        params=sampling_params(args),
        rule=Rule.REJECTION,
        gamma=0,
        max_new_tokens=args.max_new_tokens,
        stop_strings=tuple(args.stop),
        mode=Mode.ONE_AFTER_ANOTHER,
    )


def _endpoints(args: argparse.Namespace) -> dict[Lane, Endpoint]:
    key = None
    if args.api_key_env is not None:
        key = os.environ.get(args.api_key_env, "")
        if not key or not key.isascii() or not key.isprintable():
            raise RemoteFault(f"The environment variable {args.api_key_env} holds no key: set it, and run again.")
    urls = {Lane.BASELINE: args.baseline_url, Lane.SPECULATIVE: args.speculative_url}
    return {lane: Endpoint(url, key, args.timeout) for lane, url in urls.items()}


def _asked(endpoints: dict[Lane, Endpoint], args: argparse.Namespace, request: Request) -> Asked:
    """The same request for both servers, once both are there, serve the model, and read the prompt alike."""
    model = _model(endpoints, args.model)
    baseline, other = (endpoint.encode(model, args.prompt) for endpoint in endpoints.values())
    if (baseline[0] and baseline[0].tokens) != (other[0] and other[0].tokens):
        raise RemoteFault(
            "The two servers make different tokens of the prompt: start both with the same model and chat template."
        )
    tokenized, has_template = baseline
    if not has_template:
        endpoints[Lane.BASELINE].dropped.append("the chat template")
    max_tokens, limit = request.max_new_tokens, Stop.BUDGET
    if tokenized and tokenized.max_model_len:
        room = min(one[0].max_model_len or tokenized.max_model_len for one in (baseline, other)) - len(tokenized.tokens)
        if room < 1:
            raise RemoteFault(
                f"The prompt takes {len(tokenized.tokens):,} tokens, and the servers hold {tokenized.max_model_len:,}, "
                "the answer included: shorten it, or start them with a larger --max-model-len."
            )
        if room < max_tokens:
            max_tokens, limit = room, Stop.CONTEXT
    return Asked(model, tuple(tokenized.tokens) if tokenized else args.prompt, max_tokens, _settings(request), limit)


def _model(endpoints: dict[Lane, Endpoint], name: str | None) -> str:
    """The model's name on both servers."""
    found = []
    for endpoint in endpoints.values():
        served = [model.id for model in endpoint.models()]
        if name is not None and name not in served:
            raise RemoteFault(f"The server at {endpoint.name} does not serve {name}: it has {', '.join(served[:8])}.")
        if name is None and len(served) > 1:
            raise RemoteFault(f"The server at {endpoint.name} serves {', '.join(served[:8])}: choose one with --model.")
        found.append(name or served[0])
    if found[0] != found[1]:
        raise RemoteFault(
            f"The servers serve {found[0]} and {found[1]}: start both with the same model, or give it one name with "
            "--served-model-name."
        )
    return found[0]


def _settings(request: Request) -> dict[str, object]:
    """Sampling by the names on the wire; what is off is not sent, so that a server without it is no hindrance."""
    params = request.params
    settings: dict[str, object] = {"temperature": params.temperature, "seed": params.seed}
    for name, off in (("top_k", 0), ("top_p", 1), ("min_p", 0), ("repetition_penalty", 1)):
        if getattr(params, name) != off:
            settings[name] = getattr(params, name)
    if request.stop_strings:
        settings["stop"] = list(request.stop_strings)
    return settings
