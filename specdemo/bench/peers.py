"""How does this engine stand beside others on the same pair, in one run? `bench --peers`: FlashSpec and transformers.

FlashSpec (`flashspec` on PyPI) runs in an environment and a process of its own, idle while it is not its turn, and its
clock is its own. All write greedily, the same number of tokens from the same weights in the same precision, and their
texts are compared.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from specdemo.bench.contest import Contest
from specdemo.bench.figures import figures_of
from specdemo.bench.measure import busy_of, warm_up
from specdemo.bench.results import Goal, Result
from specdemo.bench.rows import OURS, generated, solo, texts_agree
from specdemo.bench.sides import Prompt, Sample, Side
from specdemo.decoding.linear import row_dtype
from specdemo.models.pair import Pair
from specdemo.models.pair_options import COMBINED
from specdemo.models.precision import DTYPES
from specdemo.race import Lane

FLASHSPEC = "FlashSpec"
PYTHON = Path(".venv-peers/bin/python")  # of the environment that the next line makes
HOW = "python3 -m venv .venv-peers && .venv-peers/bin/pip install -r requirements-peers.txt"
SIDE = Path(__file__).with_name("flashspec_side.py")


class PeerFailed(RuntimeError):
    """The other program could not be run; the message says why."""


@dataclass
class FlashSpec:
    """A process of FlashSpec over a contest's pair, started when it is first asked. python: of its environment."""

    python: Path
    versions: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    def __enter__(self) -> FlashSpec:
        if not self.python.is_file():
            raise PeerFailed(
                f"FlashSpec wants an environment of its own, and there is no Python {self.python}. Make one with "
                f"`{HOW}`, or name the Python of another with --flashspec."
            )
        self._log = tempfile.TemporaryFile("w+")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):  # it has ended, with a question that it did not read
                self._process.stdin.close()  # the end of the questions is its own end
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def write(self, contest: Contest, way: str, prompt: Prompt) -> Sample:
        """An answer drafted this way, as it timed itself."""
        if self._process is None:
            self._start(contest)
        told = self._ask({"way": way, "ids": prompt.ids, "new_tokens": contest.settings.new_tokens})
        self.versions[f"{FLASHSPEC}, {way}"] = told["strategy"] + (", compiled" if told["compiled"] else ", eager")
        times = told["seconds"], told["whole_seconds"], told["passes"]
        return Sample(tuple(told["ids"]), told["first"], *times)

    def _start(self, contest: Contest) -> None:
        loaded = contest.ngram.loaded
        order = {
            "target": str(loaded.source.folder.resolve()),
            "draft": str(contest.draft_folder.resolve()),
            "load_dtype": _name(DTYPES[contest.ngram.target_precision]),
            "run_dtype": _name(row_dtype(loaded.model.get_output_embeddings().weight)),
            "device": str(contest.ngram.target.device),
            "threads": torch.get_num_threads(),
            "gamma": contest.settings.gamma,
        }
        # -P: the modules beside the script are none of its business
        command = [str(self.python.absolute()), "-P", str(SIDE)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.versions |= self._ask(order)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except OSError:  # it has ended
            answer = ""
        if answer:
            return json.loads(answer)
        self._log.seek(0)
        *_, last = self._log.read().strip().splitlines() or ["it said nothing"]
        raise PeerFailed(f"FlashSpec failed in {self.python}: {last[:300]}")


def lookup(peer: FlashSpec, contest: Contest) -> list[Result]:
    """Row k: lookup, where the answer copies the prompt."""
    gamma = contest.settings.gamma
    return _beside(
        contest,
        "k",
        f"our n-gram lane, γ {gamma}, copying",
        contest.prompts("copying"),
        contest.ngram,
        {
            f"generate(prompt_lookup_num_tokens={gamma})": generated(contest, prompt_lookup_num_tokens=gamma),
            f"{FLASHSPEC}'s lookup, γ {gamma}": partial(peer.write, contest, "lookup"),
        },
    )


def model(peer: FlashSpec, contest: Contest) -> list[Result]:
    """Row l: the same draft model and γ."""
    gamma = contest.settings.gamma
    return _beside(
        contest,
        "l",
        f"our lane with a model draft, γ {gamma}",
        contest.prompts("other")[:1],
        contest.model,
        {
            "generate(assistant_model=the same)": generated(contest, assistant_model=contest.assistant),
            f"{FLASHSPEC} with the same, γ {gamma}": partial(peer.write, contest, "model"),
        },
    )


def both(peer: FlashSpec, contest: Contest) -> list[Result]:
    """Row n: lookup where there is a match, else the model, over FlashSpec's default, which does that, too."""
    gamma = contest.settings.gamma
    pair = contest.with_drafter(f"{COMBINED}{contest.draft_folder}")
    prompts = [*contest.prompts("copying")[:1], *contest.prompts("other")[:1]]
    default = {f"{FLASHSPEC} as it comes": partial(peer.write, contest, "default")}
    return _beside(contest, "n", f"our lookup, else the model draft, γ {gamma}", prompts, pair, default)


PEER_ROWS: dict[str, Callable[[FlashSpec, Contest], list[Result]]] = {"k": lookup, "l": model, "n": both}


def _beside(
    contest: Contest,
    row: str,
    what: str,
    prompts: Sequence[Prompt],
    pair: Pair,
    others: dict[str, Callable[[Prompt], Sample]],
) -> list[Result]:
    """Our speculative lane over each of the others, all in turns; one result each."""
    ours = solo(contest, OURS, pair, Lane.SPECULATIVE)
    sides = [ours, *(Side.of(name, run) for name, run in others.items())]
    wrote = warm_up(sides, prompts)
    repeats = contest.measure(sides, prompts)
    results = []
    for name in others:
        notes, faults = texts_agree(contest, wrote, prompts, name)
        results.append(
            Result(
                row=row,
                what=f"{what}, over {name}",
                values=tuple(repeat.speed(OURS) / repeat.speed(name) for repeat in repeats),
                goal=Goal(at_least=1.0),
                figures={side: figures_of(repeats, side) for side in (OURS, name)},
                notes=notes,
                faults=faults,
                busy=busy_of(repeats),
            )
        )
    return results


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
