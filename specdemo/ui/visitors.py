"""What may a visitor ask of this page, and how much of it? In public what the starter allows; on one's own, anything.

Imports nothing heavy: the options are read before the page is built.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from specdemo.models.pair_options import split_drafter

Turned = tuple[str, dict[str, Any]]
"""Why not: key and parameters of a sentence in ui.text."""

MINUTE = 60.0
ADDRESSES_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Rules:
    """The defaults are those of a person's own page; None: no bound.

    public: visitors choose among what Settings offer and `models`. waiting: runs that may wait for the device.
    waiting_each: of them, of one address. runs_a_minute: of one address. seconds: of a run, once it has the device.
    new_tokens, prompt_tokens: of a run. lab_rows: of an experiment of the Lab; with 0 there is none. login: only who
    has signed in at the model hub may run.
    """

    public: bool = False
    models: tuple[str, ...] = ()
    waiting: int = 64
    waiting_each: int | None = None
    runs_a_minute: int | None = None
    seconds: float | None = None
    new_tokens: int | None = None
    prompt_tokens: int | None = None
    lab_rows: int | None = None
    login: bool = False

    def refuse_model(self, drafter: str) -> Turned | None:
        """Why a drafter that a visitor has typed may not be had; nothing is looked up or opened for the answer."""
        _, name = split_drafter(drafter)
        if not self.public or drafter in self.models or name in self.models:
            return None
        return ("refused.model", {"models": ", ".join(self.models) or "–"})

    def refuse_length(self, new_tokens: int) -> Turned | None:
        """Why so many new tokens may not be asked for."""
        if self.new_tokens is None or new_tokens <= self.new_tokens:
            return None
        return ("refused.tokens", {"n": f"{new_tokens:,}", "most": f"{self.new_tokens:,}"})

    def refuse_prompt(self, tokens: int) -> Turned | None:
        """Why a prompt of so many tokens is not read."""
        if self.prompt_tokens is None or tokens <= self.prompt_tokens:
            return None
        return ("refused.prompt", {"n": f"{tokens:,}", "most": f"{self.prompt_tokens:,}"})

    def refuse_rows(self, rows: int) -> Turned | None:
        """Why an experiment of so many rows is not run."""
        if self.lab_rows is None or rows <= self.lab_rows:
            return None
        return ("lab.refused.rows", {"n": f"{rows:,}", "most": f"{self.lab_rows:,}"})


OWN = Rules()
PUBLIC = Rules(
    public=True,
    waiting=32,
    waiting_each=3,
    runs_a_minute=20,
    seconds=120.0,
    new_tokens=512,
    prompt_tokens=2048,
    lab_rows=120,
)


class Pace:
    """Counts the runs that each address has begun within a minute, for a bounded number of addresses."""

    def __init__(self, runs_a_minute: int | None) -> None:
        self._most = runs_a_minute
        self._begun: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def refuse(self, address: str) -> Turned | None:
        """Count one more run of this address, or say why it comes too soon."""
        if self._most is None:
            return None
        now = time.monotonic()
        with self._lock:
            begun = self._begun.setdefault(address, deque())
            self._begun.move_to_end(address)
            while len(self._begun) > ADDRESSES_KEPT:
                self._begun.popitem(last=False)
            while begun and now - begun[0] >= MINUTE:
                begun.popleft()
            if len(begun) < self._most:
                begun.append(now)
                return None
        return ("refused.often", {"most": str(self._most), "seconds": str(max(1, round(MINUTE - (now - begun[0]))))})


def address_of(visitor: Any) -> str:
    """Where a request comes from. On a Space every connection is the proxy's, which names the visitor in a header."""
    headers = getattr(visitor, "headers", None) or {}
    if os.environ.get("SPACE_ID") and headers.get("x-forwarded-for"):
        return headers["x-forwarded-for"].split(",")[0].strip()[:64]
    client = getattr(visitor, "client", None)
    return getattr(client, "host", None) or ""


def add_rule_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The options that `rules` reads."""
    parser.add_argument(
        "--public",
        action="store_true",
        help="visitors choose among the offered models only, and within bounds (by itself on a Space)",
    )
    parser.add_argument(
        "--allow-model", action="append", default=[], metavar="NAME", help="in public: a drafter that may be typed"
    )
    for name, value, about in (
        ("waiting", PUBLIC.waiting, "runs that may wait for the device"),
        ("waiting-each", PUBLIC.waiting_each, "of them, of one visitor"),
        ("runs-a-minute", PUBLIC.runs_a_minute, "of one visitor"),
        ("seconds-a-run", PUBLIC.seconds, "on the device"),
        ("new-tokens", PUBLIC.new_tokens, "of a run"),
        ("prompt-tokens", PUBLIC.prompt_tokens, "of a run"),
    ):
        parser.add_argument(f"--{name}", type=_count, metavar="N", help=f"{about} (in public {value:g})")
    about = "only visitors who have signed in there may run (by itself on a Space with hf_oauth: true)"
    parser.add_argument("--login", choices=("huggingface",), help=about)
    about = f"of an experiment of the Lab; 0 closes it (in public {PUBLIC.lab_rows})"
    parser.add_argument("--lab-rows", type=_count_or_none, metavar="N", help=about)


def rules(args: argparse.Namespace) -> Rules:
    """What the options ask for."""
    public = args.public or bool(os.environ.get("SPACE_ID"))
    base = PUBLIC if public else OWN
    models = tuple(args.allow_model)
    if args.drafter is not None:  # the starter's own choice may be taken again
        models = (args.drafter, *models)

    def asked(value: int | None, default: Any) -> Any:
        return default if value is None else value

    return Rules(
        public=public,
        models=models,
        waiting=asked(args.waiting, base.waiting),
        waiting_each=asked(args.waiting_each, base.waiting_each),
        runs_a_minute=asked(args.runs_a_minute, base.runs_a_minute),
        seconds=asked(args.seconds_a_run, base.seconds),
        new_tokens=asked(args.new_tokens, base.new_tokens),
        prompt_tokens=asked(args.prompt_tokens, base.prompt_tokens),
        lab_rows=asked(args.lab_rows, base.lab_rows),
        login=args.login is not None or bool(os.environ.get("SPACE_ID") and os.environ.get("OAUTH_CLIENT_ID")),
    )


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else _count(text)
