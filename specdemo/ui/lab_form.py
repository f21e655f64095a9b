"""Which options does the Lab ask for, what do they begin with, and which options come of what was typed?

The fields are those of the experiment's options, as on the command line. What arrives need not come from the form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from specdemo.lab.experiment import Experiment, LabRefused, Row
from specdemo.lab.options import DRAFTER, Named, Number, OneOf, OptionRefused, Several, options_of, typed
from specdemo.lab.prompt_files import PromptSet, read_prompts, read_set
from specdemo.lab.prompts import TASKS
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.tasks import TaskOptions
from specdemo.option_names import named
from specdemo.ui.lab_prompts import told
from specdemo.ui.orders import readable
from specdemo.ui.text import Sentence
from specdemo.ui.text.below import recognise
from specdemo.ui.visitors import Rules, Turned

MOST_ROWS = 5000  # of a run: all of them are kept in memory, and summed anew for every table
MOST_VALUES = 32  # of one option
MOST_DRAFTERS = 6  # every two of them are tried as a route
MOST_CHARACTERS = 300
LONG = {"ask": 4000}  # options that are texts of their own, with the characters that they may have
MOST_SHOWN = 1e9  # a bound beyond it tells a person nothing

# Smaller than the command's own values: a person waits for the result, and may ask for more then.
BEGIN_WITH: dict[str, dict[str, Any]] = {
    "tasks": {"per_kind": 1, "max_new_tokens": 48},
    "sweep": {"gammas": (1, 3, 5), "temperatures": (0.0, 0.7, 1.0), "max_new_tokens": 32},
    "length": {"per_kind": 1, "checkpoints": (16, 32, 64, 100, 160)},
    "router": {"per_kind": 1, "max_new_tokens": 32},
    "batch": {"batches": (1, 2, 4, 8), "max_new_tokens": 32},
    "diagnose": {"max_new_tokens": 48},
    "quality": {"per_kind": 1, "max_new_tokens": 48},
}
# In public, the highest value of options whose bounds are those of a whole machine.
PUBLIC_MOST = {"batches": 8, "requests": 32, "repeats": 5}
# Lists of which every experiment that has them measures each value with each of the others.
CROSSED = ("gammas", "temperatures", "draft_temperatures", "top_ps", "rules", "drafters")


class FormRefused(ValueError):
    """No experiment can be had of this; the sentence is a key and parameters of ui.text."""

    def __init__(self, key: str, **params: Any) -> None:
        super().__init__(key)
        self.sentence: Sentence = (key, params)


@dataclass(frozen=True, slots=True)
class Asked:
    """An experiment with its options and all the cells that they ask for."""

    experiment: Experiment
    options: Any
    cells: list[Row]

    @property
    def sets(self) -> list[PromptSet]:
        """The prompts of a visitor's own that the options hold."""
        values = [getattr(self.options, one.name) for one in fields(self.options)]
        return [value for value in values if isinstance(value, PromptSet)]


class Form:
    """The forms of all experiments. rules: for visitors. drafters: the usual ones of the page's target.

    experiments: those that can be run here; the others are closed.
    """

    def __init__(
        self, rules: Rules, drafters: Collection[str], experiments: Mapping[str, Experiment] = EXPERIMENTS
    ) -> None:
        self._rules = rules
        self._experiments = experiments
        self._drafters = tuple(drafters)

    def described(self) -> list[dict[str, Any]]:
        """Every experiment with its fields, for the page's script."""
        kinds = list(dict.fromkeys(prompt.kind for prompt in read_prompts(TASKS)))
        return [
            {
                "name": name,
                "fields": [self._field(name, one, kinds) for one in fields(known.options) if self._offers(one)],
                "closed": None if name in self._experiments else ("lab.closed.remote", {}),
            }
            for name, known in (EXPERIMENTS | self._experiments).items()
        ]

    def read(self, name: Any, asked: Any, mine: Callable[[str], PromptSet | None] = lambda key: None) -> Asked:
        """What was typed, by field; empty is as the command has it. Raises FormRefused.

        mine: the prompts that the visitor has brought, by key. Nothing that was typed is opened.
        """
        experiment = self._experiments.get(name) if isinstance(name, str) else None
        if experiment is None or not isinstance(asked, Mapping):
            raise FormRefused("lab.refused.unknown")
        values = {}
        for one in fields(experiment.options):
            text = readable(asked.get(one.name)).strip()
            if text and one.metadata["read"] is read_set:
                values[one.name] = mine(text)
                if values[one.name] is None:
                    raise _refused(one.name, ("lab.refused.prompts.gone", {}))
            elif text:
                values[one.name] = text
        return self.ask(experiment, values)

    def ask(self, experiment: Experiment, values: Mapping[str, str | PromptSet]) -> Asked:
        """The same, of values that are typed and of prompts that were read. Raises FormRefused."""
        for name, text in values.items():
            most = LONG.get(name, MOST_CHARACTERS)
            if isinstance(text, str) and len(text) > most:
                raise _refused(name, ("lab.refused.long", {"most": str(most)}))
        try:
            options = options_of(experiment.options, values)
            for one in fields(experiment.options):
                self._refuse(one, getattr(options, one.name))
            self._refuse_rows(_bound(options))  # before they are all made
            cells = experiment.cells(options)
        except OptionRefused as error:
            raise _refused(error.name, recognise(error.why)) from error
        except LabRefused as error:
            raise FormRefused("refused", message=recognise(str(error))) from error
        self._refuse_rows(len(cells))
        return Asked(experiment, options, cells)

    @staticmethod
    def written(options: Any) -> dict[str, Any]:
        """Options as the form's fields have them."""
        values = {one.name: getattr(options, one.name) for one in fields(options)}
        return {name: told(value) if isinstance(value, PromptSet) else _typed(value) for name, value in values.items()}

    def _offers(self, one: Any) -> bool:
        """In public nobody names models of the machine that the page runs on."""
        read = one.metadata["read"]
        return not (self._rules.public and isinstance(read, Named))

    def _field(self, experiment: str, one: Any, kinds: Collection[str]) -> dict[str, Any]:
        read = one.metadata["read"]
        usual = self._drafters if read == Several(DRAFTER) else one.default
        value = BEGIN_WITH[experiment].get(one.name, usual)
        field: dict[str, Any] = {
            "name": one.name,
            "value": _typed(value),
            "usual": _typed(usual),  # what an empty field comes to
        }
        match read:
            case Number(kind, low, high):
                high = self._most(one.name) or high
                bounds = {"low": low, "high": high} if max(abs(low), abs(high)) < MOST_SHOWN else {}
                return field | {"as": "number", "whole": kind is int} | bounds
            case OneOf(kind):
                return field | {"as": "choice", "choices": list(named(kind))}
            case Several(OneOf(kind)):
                return field | {"as": "checks", "choices": list(named(kind))}
        if read is read_set:
            return field | {"as": "prompts"}
        if one.name in LONG:
            return field | {"as": "long", "most": LONG[one.name]}
        return field | ({"as": "checks", "choices": list(kinds)} if one.name == "kinds" else {"as": "text"})

    def _refuse(self, one: Any, value: Any) -> None:
        """Raises FormRefused for a value that this page's visitors may not have."""
        read, values = one.metadata["read"], value if isinstance(value, tuple) else (value,)
        most = MOST_DRAFTERS if read == Several(DRAFTER) else MOST_VALUES
        if len(values) > most:
            raise _refused(one.name, ("lab.refused.many", {"most": str(most)}))
        if not self._offers(one) and value:
            raise _refused(one.name, ("lab.refused.host", {}))
        if read == Several(DRAFTER):
            for drafter in values:
                turned = None if drafter in self._drafters else self._rules.refuse_model(drafter)
                if turned is not None:
                    raise FormRefused(turned[0], **turned[1])
        highest = self._most(one.name)
        if highest is not None and any(number is not None and number > highest for number in values):
            raise _refused(one.name, ("lab.refused.most", {"most": f"{highest:,}"}))

    def _most(self, name: str) -> int | None:
        if name in ("max_new_tokens", "checkpoints"):
            return self._rules.new_tokens
        return PUBLIC_MOST.get(name) if self._rules.public else None

    def _refuse_rows(self, rows: int) -> None:
        turned: Turned | None = self._rules.refuse_rows(rows)
        if turned is None and rows > MOST_ROWS:
            turned = ("lab.refused.rows", {"n": f"{rows:,}", "most": f"{MOST_ROWS:,}"})
        if turned is not None:
            raise FormRefused(turned[0], **turned[1])


def _typed(value: Any) -> str:
    return "" if value is None else typed(value)


def _refused(name: str, why: Any) -> FormRefused:
    return FormRefused("lab.refused.option", name=f"@lab.o.{name}", why=why)


def _bound(options: Any) -> int:
    """How many rows one prompt has, known without making any."""
    if isinstance(options, TaskOptions):
        return options.repeats * len(options.settings())
    lists = [getattr(options, name) for name in CROSSED if hasattr(options, name)]
    return getattr(options, "repeats", 1) * math.prod(map(len, lists))
