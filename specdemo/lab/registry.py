"""Which experiments are there? Each by its name, in the order in which a person would ask."""

from __future__ import annotations

from specdemo.lab.experiment import Experiment
from specdemo.lab.tasks import TASKS

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (TASKS,)}
