"""Which experiments are there? Each by its name, in the order in which a person would ask."""

from __future__ import annotations

from specdemo.lab.batch import BATCH
from specdemo.lab.diagnose import DIAGNOSE
from specdemo.lab.experiment import Experiment
from specdemo.lab.length import LENGTH
from specdemo.lab.quality import QUALITY
from specdemo.lab.router import ROUTER
from specdemo.lab.sweep import SWEEP
from specdemo.lab.tasks import TASKS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (TASKS, SWEEP, LENGTH, ROUTER, BATCH, DIAGNOSE, QUALITY)
}
