"""Which settings can be turned, what do they say, and what request do they make?

Every control carries one sentence on what it does to speed and to text. Numbers are checked here again, since what
arrives need not come from the sliders.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import gradio as gr

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import DraftLength, Rule
from specdemo.models.pair_options import (
    AUTO,
    DRAFT_PRECISIONS,
    EMBEDDED,
    MAX_GAMMA,
    NGRAM,
    TARGET_PRECISIONS,
    usual_drafters,
)
from specdemo.models.presets import PRESETS
from specdemo.race import MAX_STOP_STRINGS, Mode, Request
from specdemo.race_options import DRAFT_LENGTH, PAGE_NEW_TOKENS
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.parts import Part
from specdemo.ui.text import DEFAULT, Sentence, say

MODEL = "model"  # a drafter that is typed
PRESET = "preset"  # what sets other settings and is none itself
TOKEN = "hub_token"  # no setting either: it stands in no link, and no page begins with one


@dataclass(frozen=True, slots=True)
class Range:
    """Of a number: lowest, highest, the slider's step and what it begins with. A whole step means whole numbers."""

    low: float
    high: float
    step: float
    value: float

    @property
    def whole(self) -> bool:
        return isinstance(self.step, int)


NUMBERS = {
    "max_new_tokens": Range(8, 1024, 8, PAGE_NEW_TOKENS),
    "gamma": Range(0, MAX_GAMMA, 1, 5),
    "temperature": Range(0, 2, 0.05, 0),
    "top_p": Range(0.05, 1, 0.05, 1),
    "top_k": Range(0, 200, 1, 0),
    "min_p": Range(0, 0.5, 0.01, 0),
    "repetition_penalty": Range(1, 2, 0.05, 1),
    "seed": Range(0, 2**31 - 1, 1, 0),
}
MOST_CHARACTERS = {
    "target_model": 300,
    "draft_model": 300,
    "draft_temperature": 30,
    "stop_strings": 1000,
}  # of what is typed
MOST_BUTTONS = 6  # of one choice; what has more opens as a list
DRAFT_TEMPERATURE = Range(0, 2, 0.05, 0)
CHOICES = {  # over the embedded target
    "mode": tuple(Mode),
    "draft_length": (DRAFT_LENGTH, *(one for one in DraftLength if one is not DRAFT_LENGTH)),
    "rule": tuple(Rule),
    "drafter": (*usual_drafters(EMBEDDED), MODEL),
    "draft_precision": (AS_TARGET, *DRAFT_PRECISIONS),
    "target_precision": TARGET_PRECISIONS,
    "thinking": ("template", "on", "off"),
}


class Dial(gr.Slider):
    """A slider that lets any number through, so that a wrong one is refused by a sentence in the page."""

    is_template = True

    def preprocess(self, payload: float) -> float:
        return payload


class SettingRefused(ValueError):
    """A setting that no run can have; key and parameters of the sentence."""

    def __init__(self, key: str, params: dict[str, str]) -> None:
        super().__init__(key)
        self.key, self.params = key, params


class Controls:
    """The settings, built inside whatever block is open. drafter and the precisions: what they begin with.

    target: what all drafters draft for. remote: a lane runs on a server. theirs: settings that are then no visitor's.
    servers: what a lane's server may be, by setting. tokens: whether a visitor may give one of the model hub. values:
    what other settings begin with. choices: what each choice may be, over that target.
    """

    def __init__(
        self,
        drafter: str = NGRAM,
        precision: str = AS_TARGET,
        target_precision: str = AUTO,
        target: str = EMBEDDED,
        *,
        tokens: bool = True,
        remote: bool = False,
        theirs: Collection[str] = (),
        servers: Mapping[str, Collection[str]] = MappingProxyType({}),
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._begin = values
        self.theirs = frozenset(theirs)
        self._servers = servers
        self._infos = {"mode": "remote.mode.info"} if remote else {}
        self.choices = CHOICES | {"drafter": (*usual_drafters(target), MODEL)} | dict(servers)
        modelled = drafter not in self.choices["drafter"]
        self._made: dict[str, gr.blocks.Block] = {}
        with self._group("length", open=True):
            self._dial("max_new_tokens")
            self._dial("gamma")
            self._choice("draft_length")
            self._choice("mode", Mode.ONE_AFTER_ANOTHER if remote else None)
            self._typed("stop_strings", lines=2, max_lines=4)
        with self._group("drafter", open=True):
            for name in servers:
                self._choice(name)
            self._made[PRESET] = gr.Dropdown(
                choices=_presets(DEFAULT),
                value="",
                label=say(DEFAULT, PRESET),
                info=say(DEFAULT, f"{PRESET}.info"),
                elem_id="sd-set-preset",
                visible=not remote,
            )
            self._typed("target_model", max_lines=1)
            self._choice("drafter", MODEL if modelled else drafter)
            self._typed("draft_model", drafter if modelled else "", visible=modelled, max_lines=1)
            self._choice("draft_precision", precision, visible=modelled)
            self._typed(
                TOKEN,
                type="password",
                max_lines=1,
                visible=tokens,
                html_attributes=gr.InputHTMLAttributes(autocomplete="new-password"),
            )
            Part("cost", elem_classes=["sd-part"])
            self._choice("target_precision", target_precision)
            self._choice("thinking")
        with self._group("sampling", open=False):
            self._dial("temperature")
            self._typed("draft_temperature", max_lines=1)  # text: Gradio shows and sends an empty number as 0
            for name in ("top_p", "top_k", "min_p", "repetition_penalty"):
                self._dial(name)
            self._made["seed"] = gr.Number(
                value=self._begin.get("seed", 0),
                precision=0,
                label=say(DEFAULT, "seed"),
                info=say(DEFAULT, "seed.info"),
            )
            self._choice("rule")
        self._made[PRESET].input(
            _of_preset,
            self._made[PRESET],
            [self._made[name] for name in ("target_model", "drafter", "draft_model")],
            api_visibility="private",
            show_progress="hidden",
            queue=False,
        )
        drafter = self._made["drafter"]
        drafter.change(
            lambda chosen: [gr.update(visible=chosen == MODEL)] * 2,
            drafter,
            [self._made["draft_model"], self._made["draft_precision"]],
            api_visibility="private",
            show_progress="hidden",
            queue=False,
        )

    @property
    def inputs(self) -> list[gr.blocks.Block]:
        """What an event takes, in the order that `read` expects."""
        return [block for name, block in self._made.items() if _is_setting(name)]

    @property
    def token(self) -> gr.blocks.Block:
        """Where a visitor may give a token of the model hub."""
        return self._made[TOKEN]

    @property
    def labelled(self) -> list[gr.blocks.Block]:
        """What `relabel` gives updates for, in its order."""
        return list(self._made.values())

    def relabel(self, language: str) -> list[dict[str, Any]]:
        """Every label and sentence in another language; the values stay."""
        return [self._words(name, language) for name in self._made]

    def read(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Values by name."""
        names = [name for name in self._made if _is_setting(name)]
        return dict(zip(names, values, strict=True))

    def _words(self, name: str, language: str) -> dict[str, Any]:
        words: dict[str, Any] = {"label": say(language, name)}
        if not name.startswith("group."):
            words["info"] = self._info(name, language)
        if name == PRESET:
            words["choices"] = _presets(language)
        elif name in self.choices:
            words["choices"] = self._offered(name, language)
        return gr.update(**words)

    def _info(self, name: str, language: str) -> str:
        return say(language, self._infos.get(name, f"{name}.info"))

    def _group(self, name: str, *, open: bool) -> gr.Accordion:
        group = gr.Accordion(say(DEFAULT, f"group.{name}"), open=open, elem_classes=["sd-group"])
        self._made[f"group.{name}"] = group
        return group

    def _dial(self, name: str) -> None:
        numbers = NUMBERS[name]
        self._made[name] = Dial(
            minimum=numbers.low,
            maximum=numbers.high,
            step=numbers.step,
            value=self._begin.get(name, numbers.value),
            label=say(DEFAULT, name),
            info=self._info(name, DEFAULT),
            elem_id=f"sd-set-{name}",
            buttons=[],
            visible=name not in self.theirs,
        )

    def _typed(self, name: str, value: str = "", *, visible: bool = True, **props: Any) -> None:
        words = {"label": say(DEFAULT, name), "info": self._info(name, DEFAULT)}
        shown = visible and name not in self.theirs
        value = self._begin.get(name, value)
        self._made[name] = gr.Textbox(value, elem_id=f"sd-set-{name}", visible=shown, **words, **props)

    def _choice(self, name: str, value: str | None = None, *, visible: bool = True) -> None:
        kind = gr.Radio if len(self.choices[name]) <= MOST_BUTTONS and name not in self._servers else gr.Dropdown
        self._made[name] = kind(
            choices=self._offered(name, DEFAULT),
            value=value or self._begin.get(name) or self.choices[name][0],
            label=say(DEFAULT, name),
            info=self._info(name, DEFAULT),
            elem_id=f"sd-set-{name}",
            visible=visible and name not in self.theirs,
        )

    def _offered(self, name: str, language: str) -> list[tuple[str, str]]:
        if name in self._servers:
            return [(url, url) for url in self.choices[name]]
        return [(say(language, f"{name}.{value}"), str(value)) for value in self.choices[name]]


def _is_setting(name: str) -> bool:
    return name not in (PRESET, TOKEN) and not name.startswith("group.")


def _presets(language: str) -> list[tuple[str, str]]:
    """Each preset: memory of the card it is for, its target's licence, and whether terms must be accepted first."""
    gated = {True: f", {say(language, 'preset.gated')}", False: ""}
    named = [
        (f"{p.name} ({p.memory} GB, {p.target.licence}{gated[p.target.gated]})", name) for name, p in PRESETS.items()
    ]
    return [(say(language, "preset.none"), ""), *named]


def _of_preset(name: str) -> list[Any]:
    """What a preset sets: target, drafter and draft model."""
    if name not in PRESETS:
        return ["", gr.skip(), gr.skip()]
    preset = PRESETS[name]
    return [preset.target.repository, MODEL, preset.draft.repository]


def request(values: dict[str, Any], choices: Mapping[str, Collection[str]] = CHOICES) -> Request:
    """What the settings ask for, the prompt's ids still missing. Raises SettingRefused.

    choices: those of the page's own Controls.
    """
    for name, known in choices.items():
        if values[name] not in known:
            raise SettingRefused("refused.choice", {"name": f"@{name}"})
    for name, most in MOST_CHARACTERS.items():
        n = len(str(values[name] or ""))
        if n > most:
            raise SettingRefused("refused.toolong", {"name": f"@{name}", "n": f"{n:,}", "most": f"{most:,}"})
    numbers = {name: _number(name, values[name], limits) for name, limits in NUMBERS.items()}
    params = SamplingParams(
        temperature=numbers["temperature"],
        top_k=numbers["top_k"],
        top_p=numbers["top_p"],
        min_p=numbers["min_p"],
        repetition_penalty=numbers["repetition_penalty"],
        seed=numbers["seed"],
        draft_temperature=_optional("draft_temperature", values["draft_temperature"], DRAFT_TEMPERATURE),
    )
    return Request(
        prompt_ids=(),
        params=params,
        rule=Rule(values["rule"]),
        gamma=numbers["gamma"],
        max_new_tokens=numbers["max_new_tokens"],
        stop_strings=_stop_strings(values["stop_strings"]),
        mode=Mode(values["mode"]),
        draft_length=DraftLength(values["draft_length"]),
    )


def summary(values: dict[str, Any], theirs: Collection[str] = ()) -> list[Sentence]:
    """The settings in one line, without those that are the servers' own."""
    temperature = values["temperature"]
    sampling = ("summary.sampled", {"temperature": f"{temperature:g}"}) if temperature else ("summary.greedy", {})
    rest = {"gamma": str(values["gamma"]), "max_new_tokens": str(values["max_new_tokens"])}
    length = values["draft_length"]
    drafted = "summary.gamma" if length == DraftLength.FIXED else "summary.most"
    policy = [] if length in (DraftLength.FIXED, DRAFT_LENGTH) else [(f"draft_length.{length}", {})]
    mode = [] if values["mode"] == Mode.RACED else [(f"mode.{values['mode']}", {})]
    if "gamma" in theirs:
        return [sampling, ("remote.summary", rest), *mode]
    return [sampling, (drafted, rest), *policy, ("summary.tokens", rest), *mode]


def stop_strings(typed: Any) -> tuple[str, ...]:
    """One a line; a line break inside one is written \\n."""
    return tuple(line.replace("\\n", "\n") for line in str(typed or "").splitlines() if line)


def _stop_strings(typed: Any) -> tuple[str, ...]:
    strings = stop_strings(typed)
    if len(strings) > MAX_STOP_STRINGS:
        raise SettingRefused("refused.stops", {"n": str(len(strings)), "most": str(MAX_STOP_STRINGS)})
    return strings


def _optional(name: str, value: Any, limits: Range) -> float | None:
    """A number typed as text; None where nothing is typed."""
    if value is None or value == "":
        return None
    try:
        value = float(value)
    except (TypeError, ValueError):
        value = math.nan
    return _number(name, value, limits)


def _number(name: str, value: Any, limits: Range) -> Any:
    span = {"name": f"@{name}", "low": f"{limits.low:.10g}", "high": f"{limits.high:.10g}"}  # a seed's end has ten
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # nan
        raise SettingRefused("refused.notnumber", span)
    if not limits.low <= value <= limits.high:
        shown = f"{value:g}" if abs(value) < 1e300 else "∞"  # an int may be wider than any float
        raise SettingRefused("refused.number", span | {"value": shown})
    if not limits.whole:
        return float(value)
    if value != int(value):
        raise SettingRefused("refused.notwhole", span | {"value": f"{value:g}"})
    return int(value)
