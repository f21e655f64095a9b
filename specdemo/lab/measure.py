"""How does a result fill? Cell by cell into the rows it has: a run may be ended at any step, and goes on later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specdemo.lab.experiment import Experiment, Row, missing
from specdemo.lab.options import plain
from specdemo.lab.result import Result

if TYPE_CHECKING:
    from specdemo.models.pair import Pair


def empty(
    experiment: Experiment, options: Any, cells: int, pair: Mapping[str, str], machine: Mapping[str, str]
) -> Result:
    """A result without rows. cells: how many it will have. pair, machine: facts to print."""
    return Result(
        experiment=experiment.name, options=plain(options), pair=dict(pair), environment=dict(machine), cells=cells
    )


def fill(
    experiment: Experiment, options: Any, pair: Pair, cells: Sequence[Row], result: Result
) -> Iterator[Row | None]:
    """Measure the cells that the result lacks: each row once it is kept, and None after every step of a lane.

    What runs leave for the next ones (Pair.levels) begins anew here, and again where a stopped result is gone on with.
    However it ends, the result then has the findings of its rows and says what else used the processor.
    """
    watch = None
    if not experiment.served:  # what servers leave and share is their own
        from specdemo.environment import Watch  # imports torch

        pair.levels.reset()
        watch = Watch()
    todo = missing(cells, result.rows)
    running = experiment.run(pair, options, todo)
    try:
        for row in running:
            if row is not None:
                result.rows.append(row)
            yield row
    finally:
        running.close()
        if todo and watch is not None:
            busy = sum(one.share for one in watch.busy())
            result.environment["busy meanwhile"] = f"{busy:.1f} cores, by others"
        result.findings = experiment.findings(result.rows)
