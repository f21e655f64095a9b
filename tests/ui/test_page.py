"""The page itself: private events, constant templates, nothing kept, and a generator that lets go of the model."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from specdemo.models.presets import PRESETS
from specdemo.ui.controls import CHOICES, NUMBERS, SettingRefused, _of_preset, request
from specdemo.ui.conversation import Conversation
from specdemo.ui.desk import Desk
from specdemo.ui.page import Page, launch_options
from specdemo.ui.parts import Part, encode
from tests.ui.synthetic import Synthetic

SECONDS = 10
VISITOR = SimpleNamespace(session_hash="somebody")


@pytest.fixture
def script() -> Synthetic:
    return Synthetic()


@pytest.fixture
def page(script: Synthetic) -> Page:
    return Page(Desk(script.engine(), ("ngram", "same")))


def values(page: Page, **changed: object) -> list[object]:
    """The settings as the page first shows them, some of them changed."""
    read = page.controls.read(tuple(block.value for block in page.controls.inputs))
    return list((read | changed).values())


def test_a_preset_sets_target_and_draft_and_is_no_setting_itself(page: Page) -> None:
    names = page.controls.read(tuple(block.value for block in page.controls.inputs))
    assert "preset" not in names and names["target_model"] == ""
    assert _of_preset("qwen3-8b") == ["Qwen/Qwen3-8B", "model", "Qwen/Qwen3-0.6B"]
    assert _of_preset("")[0] == "" and _of_preset("nonsense")[0] == ""
    offered = dict(
        page.controls.relabel("zh-CN")[page.controls.labelled.index(page.controls._made["preset"])]["choices"]
    )
    assert offered["llama-3.1-8b (24 GB, llama3.1, 需授权)"] == "llama-3.1-8b" and len(offered) == 1 + len(PRESETS)


def test_nothing_is_shared_kept_or_reported(page: Page) -> None:
    options = launch_options()
    assert options["share"] is False and options["run_history"] is False
    assert page.blocks.analytics_enabled is False
    assert page.blocks._queue.max_size is not None


def test_templates_are_constant_and_hold_nothing_to_fill_in(page: Page) -> None:
    parts = [block for block in page.blocks.blocks.values() if isinstance(block, Part)]
    assert len(parts) >= 7
    for part in parts:
        assert not any(mark in part.html_template for mark in ("${", "`", "{{", "%")) and part.css_template == ""


def test_the_first_value_comes_before_any_work(page: Page, script: Synthetic) -> None:
    stream = page.race(VISITOR, "Tell me", "", "", *values(page))
    assert len(next(stream)) == 5
    assert script.steps == [] and page._workers == {}
    stream.close()


def test_closing_the_generator_stops_the_model(page: Page, script: Synthetic) -> None:
    script.hold_at = 20
    stream = page.race(VISITOR, "Tell me", "", "", *values(page))
    next(stream)
    while not script.held.is_set():
        next(stream)
    stream.close()
    script.go.set()
    assert script.closed.wait(SECONDS) and len(script.steps) <= 21
    assert page._workers == {}


def test_the_next_run_works_after_one_was_closed(page: Page, script: Synthetic) -> None:
    test_closing_the_generator_stops_the_model(page, script)
    script.hold_at = None
    *_, last, closing = page.race(VISITOR, "Tell me", "", "", *values(page))
    assert '"state":"done"' in last[2] and last[0].count("\n") > 20
    assert closing[2:] == last[2:] and not isinstance(closing[0], str), "the panes are not sent twice"


def test_of_a_run_and_a_replay_begun_in_the_same_instant_only_the_first_goes_on(page: Page, script: Synthetic) -> None:
    recorded = SimpleNamespace(_data={"run": page.runs.recorded[0].number, "speed": 1.0})
    run, replay = page.race(VISITOR, "Tell me", "", "", *values(page)), page.replay(VISITOR, recorded)
    assert isinstance(next(run)[2], str)
    assert not any(isinstance(value, str) for outputs in replay for value in outputs)
    *_, last = run
    assert '"state":"done"' in last[2] and page._workers == {}
    assert isinstance(next(page.replay(VISITOR, recorded))[2], str), "the page is free again"


def test_a_run_that_fails_on_the_way_is_no_turn_of_the_chat(page: Page, script: Synthetic) -> None:
    begun = Conversation(on=True).line()
    script.fails_at = 20
    *_, last = page.race(VISITOR, "Tell me", begun, "", *values(page))
    assert '"state":"refused"' in last[2] and last[4] == begun
    script.fails_at = None
    *_, last = page.race(VISITOR, "Tell me", begun, "", *values(page))
    assert json.loads(last[4])["turns"][0]["asked"] == "Tell me"


def test_the_head_is_offered_for_the_target_that_it_fits_only(script: Synthetic) -> None:
    other = Page(Desk(script.engine(), ("ngram", "same")), target="a/nother")
    offered = next(block for block in other.controls.inputs if block.elem_id == "sd-set-drafter")
    assert [value for _, value in offered.choices] == ["ngram", "model"]
    script.agreement = 0.0
    *_, last = other.race(VISITOR, "Tell me", "", "", *values(other))
    assert '"try.head"' not in last[2]
    with pytest.raises(SettingRefused):
        request(other.controls.read(tuple(values(other, drafter="embedded"))), other.controls.choices)
    link = SimpleNamespace(query_params={"drafter": "embedded"})
    assert "refused.link" in other.restore(link)[1]


def test_halt_waits_for_nobody_who_does_not_run(page: Page) -> None:
    page.halt(VISITOR)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("wrong", [None, "many", float("nan"), float("inf"), 1e30, -1e30, True])
def test_absurd_numbers_are_refused_by_name(page: Page, name: str, wrong: object) -> None:
    with pytest.raises(SettingRefused) as refused:
        request(page.controls.read(tuple(values(page, **{name: wrong}))))
    assert refused.value.params["name"] == f"@{name}"


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_is_not_offered_is_refused_by_name(page: Page, name: str) -> None:
    for absurd in (None, "none of these", 3):
        with pytest.raises(SettingRefused) as refused:
            request(page.controls.read(tuple(values(page, **{name: absurd}))))
        assert refused.value.key == "refused.choice" and refused.value.params["name"] == f"@{name}"


def test_a_number_wider_than_any_float_is_refused(page: Page) -> None:
    with pytest.raises(SettingRefused) as refused:
        request(page.controls.read(tuple(values(page, seed=10**400))))
    assert refused.value.key == "refused.number"


def test_an_empty_draft_temperature_takes_the_other(page: Page) -> None:
    assert request(page.controls.read(tuple(values(page)))).params.draft_temperature is None


def test_no_part_is_sent_markup_or_gradios_translation_marks():
    line = encode({"text": "<img src=x onerror=alert(1)> __i18n__{x} ${y}"})
    assert "<" not in line
    assert "__i18n__{" not in line
    assert json.loads(line) == {"text": "<img src=x onerror=alert(1)> __i18n__{x} ${y}"}
