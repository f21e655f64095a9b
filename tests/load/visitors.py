"""Many visitors at once: is every run answered, and by its own text? `python -m tests.load.visitors` says how it went.

The visitors (`crowd.py`) call a page over the scripted engine on the loopback, each with prompts of its own, whose
answers only the run with that prompt can give. Nothing here needs a model.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdemo.ui.conversation import Conversation
from specdemo.ui.spared import spare_collections
from specdemo.ui.visitors import Rules
from tests.load.crowd import PATIENCE, Tally, answer_to
from tests.ui.served import served
from tests.ui.synthetic import Synthetic

ROOT = Path(__file__).parents[2]
GOAL = 0.1  # seconds in which the page comes to 95 of 100 who open it meanwhile


class Echo(Synthetic):
    """Writes what only this prompt is answered with. Two runs at once would write each other's."""

    def _encode(self, pair: Any, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
        self.text = answer_to(prompt)
        return super()._encode(pair, prompt, before, thinking)


def visit(visitors: int, runs: int) -> Tally:
    """So many runs by so many visitors at once."""
    many = [f"--visitors={visitors}", f"--runs={runs}", f"--server={os.getpid()}"]
    # Who leaves and asks again has two places until the first is free.
    with served(Echo(), Rules(waiting=2 * visitors)) as house:
        spare_collections()  # as app.py does
        crowd = [sys.executable, "-m", "tests.load.crowd", house.url, *many]
        tally = Tally(**json.loads(subprocess.run(crowd, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout))
        gone = time.monotonic()
        while len(house.desk.line) and time.monotonic() < gone + PATIENCE:  # of those who left
            time.sleep(0.01)
        if len(house.desk.line):
            tally.lost.append(f"{len(house.desk.line)} runs still hold a place after everybody has gone.")
    gc.unfreeze()  # other tests of this process want theirs collected
    return tally


def milliseconds(times: list[float]) -> str:
    """Half of them within, and nineteen of twenty."""
    half, most = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    return f"median {1000 * half:.0f} ms, 95 % within {1000 * most:.0f} ms ({len(times)} looks)"


def main() -> None:
    """Print how it went; exit code 1 if a run was lost or mixed with another, or the page came too late."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--visitors", type=int, default=100, help="at once (%(default)s)")
    parser.add_argument("--runs", type=int, default=500, help="of all together (%(default)s)")
    args = parser.parse_args()
    tally = visit(args.visitors, args.runs)
    print(f"{args.visitors} visitors, {args.runs} runs in {tally.seconds:.1f} s")
    print(f"answered {tally.answered}, left {tally.left}, lost {len(tally.lost)}, mixed {len(tally.mixed)}")
    print(f"an answer: median {statistics.median(tally.waits):.2f} s, longest {max(tally.waits):.2f} s")
    print("the page meanwhile:", milliseconds(tally.pages))
    print("then to what its header shows:", milliseconds(tally.firsts))
    print("the server's resident MB after each tenth:", *(one // 2**20 for one in tally.resident))
    for one in (*tally.lost[:5], *tally.mixed[:5]):
        print(one)
    late = statistics.quantiles(tally.pages, n=20)[-1] > GOAL
    raise SystemExit(bool(tally.lost or tally.mixed or late))


if __name__ == "__main__":
    main()
