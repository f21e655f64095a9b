"""Which experiments are there? Each by its name, in the order in which a person would ask."""

from __future__ import annotations

from specdemo.lab.batch import BATCH
from specdemo.lab.experiment import Experiment
from specdemo.lab.length import LENGTH
from specdemo.lab.router import ROUTER
from specdemo.lab.sweep import SWEEP
from specdemo.lab.tasks import TASKS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (TASKS, SWEEP, LENGTH, ROUTER, BATCH)
}
