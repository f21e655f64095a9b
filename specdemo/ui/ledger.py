"""What is written down of a visitor's run, and counted? What the host has switched on; nothing by itself.

A run that cannot be written down is told to the host and goes on as it was.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from specdemo.race import Request
from specdemo.recording import Known, RaceRecord
from specdemo.request_log import RequestLog, add_log_options, entry_of, request_log
from specdemo.ui.scrape import Counts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ledger:
    """log, counts: None where they are off. tag: of the page's runs, and of calls that give none."""

    log: RequestLog | None = None
    counts: Counts | None = None
    tag: str = ""

    @classmethod
    def asked(cls, args: argparse.Namespace, runs: Callable[[], int]) -> Ledger:
        """What the options ask for; raises trace_files.Unwritable. runs: how many have the device or wait for it."""
        return cls(request_log(args), Counts(runs) if args.metrics else None, args.tag)

    def open(self, prompt: str, request: Request, known: Known) -> RaceRecord | None:
        """A record for a run that has begun, to take its steps; None where nothing is written down."""
        return RaceRecord(prompt, request, known) if self.log or self.counts else None

    def close(self, record: RaceRecord, outcome: str, source: str, tag: str) -> None:
        """The run is over: done, stopped or failed. Raises nothing."""
        if outcome == "stopped":
            for lane in record.lanes.values():
                lane.stop()
        if self.counts is not None:
            with _had_anyway("counted"):
                self.counts.add(record, failed=outcome == "failed")
        if self.log is not None:
            with _had_anyway("written down"):
                entry = entry_of(record, outcome, source, tag or self.tag, prompt=self.log.prompts)
                notice = self.log.write(entry)
                if notice:
                    log.warning(notice)


@contextmanager
def _had_anyway(what: str) -> Iterator[None]:
    """Whatever goes wrong within, the run itself was had."""
    try:
        yield
    except Exception:
        log.exception("A run could not be %s.", what)


def add_ledger_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The options that `Ledger.asked` reads."""
    add_log_options(parser)
    parser.add_argument(
        "--metrics", action="store_true", help="counts for Prometheus at /metrics, for everybody who can reach the page"
    )
