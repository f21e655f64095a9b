"""What is kept of every run that began? One line of JSON in a file that the host names, and of the prompt its kind.

The prompt itself only where the host asks for it; tokens, texts and visitors' addresses never. A file that has grown
long enough is set aside as FILE.1, what was FILE.1 as FILE.2 and so on; several processes may share a file. What cannot
be written is a sentence for the host and never the loss of a run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from glob import escape
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from specdemo.metrics import LaneMetrics, cost_model
from specdemo.prompt_kind import kind_of
from specdemo.race import Lane

if TYPE_CHECKING:
    from specdemo.recording import RaceRecord

LARGEST = 8 * 1024 * 1024  # bytes of a file
KEPT = 4  # files that were set aside
TAG_CHARACTERS = 64
LOCK_SECONDS = 2.0
SERVED = ("clock", *(f"{lane} {what}" for lane in Lane for what in ("server", "settings", "provenance", "token ids")))

Entry = dict[str, Any]


class RequestLog:
    """Appends entries to a file. prompts: with what was asked. largest, kept: see the module."""

    def __init__(self, path: Path, *, prompts: bool = False, largest: int = LARGEST, kept: int = KEPT) -> None:
        self.path, self.prompts = path, prompts
        self._handler = _Handler(path, maxBytes=largest, backupCount=kept, encoding="utf-8", delay=True)
        self._lock = FileLock(f"{path}.lock", timeout=LOCK_SECONDS)

    def write(self, entry: Entry) -> str | None:
        """Append a line; a sentence where that cannot be done."""
        line = makeLogRecord({"msg": json.dumps(entry, ensure_ascii=False)})
        try:
            with self._lock:
                try:
                    self._handler.handle(line)
                finally:
                    self._handler.close()  # another process may set the file aside before the next line
        except Timeout:
            return f"The run could not be logged to {self.path}: another process holds {self.path}.lock."
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            return f"The run could not be logged to {self.path}: {why}. Make room, or name another file with --log."
        return None


class _Handler(RotatingFileHandler):
    """Says what went wrong to who called, not to stderr; one record is one line. Opened anew for each."""

    def handleError(self, record: LogRecord) -> None:  # called while the exception is handled
        raise

    def close(self) -> None:
        """As the standard one, but what could not be flushed is lost: it was told already."""
        try:
            super().close()
        except OSError:
            self.stream = None


def entry_of(record: RaceRecord, outcome: str, source: str, tag: str = "", *, prompt: bool = False) -> Entry:
    """A run as the log keeps it. prompt: with its text.

    outcome: done, stopped or failed. source: page, api, run or remote.
    """
    baseline, drafted = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    known, request, comparison = record.known, record.request, record.comparison
    # No server tells its drafting apart.
    model = None if known.remote else cost_model(baseline, drafted, padding=known.padding)
    alike = known.here is None  # a ratio of unlike lanes would be averaged with others
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "source": source,
        "kind": kind_of(record.prompt),
        "tag": plain(tag),
        "outcome": outcome,
        "target": known.pair.get("target", ""),
        "drafter": known.pair.get("drafter", ""),
        "target precision": known.pair.get("target precision", ""),
        "device": known.pair.get("device", ""),
        "policy": request.draft_length.value,
        "gamma": request.gamma,
        "rule": request.rule.value,
        "mode": request.mode.value,
        "sampling": asdict(request.params),
        "prompt tokens": len(request.prompt_ids),
        "max new tokens": request.max_new_tokens,
        "acceptance": drafted.draft_acceptance_rate,
        "alpha": drafted.alpha,
        "acceptance per position": list(drafted.acceptance_per_position),
        "drafted": drafted.drafted,
        "accepted": drafted.accepted,
        "E": drafted.tokens_per_target_pass,
        "c": None if model is None else model.c,
        "draft seconds": None if known.served(Lane.SPECULATIVE) else drafted.draft_seconds,
        "verify seconds": drafted.verify_seconds,
        "other seconds": drafted.other_seconds,
        "speedup": comparison.speedup if alike else None,
        "end-to-end speedup": comparison.end_to_end_speedup if alike else None,
        "texts": comparison.sameness and comparison.sameness.value,
        "lanes": {lane.value: _lane(record.metrics(lane)) for lane in Lane},
    }
    entry |= {name: known.pair[name] for name in SERVED if name in known.pair}
    return entry | {"prompt": record.prompt} if prompt else entry


def _lane(metrics: LaneMetrics) -> Entry:
    return {
        "tokens": metrics.told_tokens,
        "tokens/s": metrics.tokens_per_second,
        "end-to-end tokens/s": metrics.end_to_end_tokens_per_second,
        "time to first token": metrics.time_to_first_token,
        "seconds": metrics.seconds,
        "stop": metrics.stop and metrics.stop.value,
    }


def plain(tag: object) -> str:
    """A tag as one short line: whoever calls the API gives it, and a host's terminal shows it."""
    text = tag if isinstance(tag, str) else ""
    return "".join(one if one.isprintable() else " " for one in text.strip())[:TAG_CHARACTERS]


def files_of(path: Path) -> list[Path]:
    """The file and those that were set aside, the oldest first."""
    beside = path.parent.glob(f"{escape(path.name)}.*")
    aside = {int(one.name.rpartition(".")[2]): one for one in beside if _number(one)}
    return [*(aside[n] for n in sorted(aside, reverse=True)), *([path] if path.is_file() else [])]


def _number(path: Path) -> bool:
    suffix = path.name.rpartition(".")[2]
    return suffix.isascii() and suffix.isdigit() and len(suffix) < 6


def lines_of(path: Path) -> Iterator[str]:
    """Every line of the log, the oldest first; raises OSError."""
    for one in files_of(path):
        with one.open(encoding="utf-8", errors="replace") as file:
            yield from file


def add_log_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The options that `request_log` reads, and the tag."""
    parser.add_argument("--log", type=Path, metavar="FILE", help="append a line for each run; `specdemo log` reads it")
    parser.add_argument("--log-prompts", action="store_true", help="with what was asked, which may be personal")
    parser.add_argument("--tag", default="", metavar="TEXT", help="what these runs are counted under in the log")


def request_log(args: argparse.Namespace) -> RequestLog | None:
    """What the options ask for; raises trace_files.Unwritable."""
    from specdemo.trace_files import refuse_unwritable

    refuse_unwritable(args.log)
    return RequestLog(args.log, prompts=args.log_prompts) if args.log else None
