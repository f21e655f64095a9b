"""The Lab without a browser: what may be asked for, how a run goes, ends and goes on, and what a file may hold."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from specdemo.lab.experiment import LabRefused
from specdemo.lab.options import plain
from specdemo.lab.registry import EXPERIMENTS
from specdemo.ui.desk import Desk
from specdemo.ui.lab import Lab
from specdemo.ui.lab_brought import LARGEST, brought
from specdemo.ui.lab_drawn import drawn
from specdemo.ui.lab_form import MOST_ROWS, Asked, Form, FormRefused
from specdemo.ui.lab_show import LabShow
from specdemo.ui.lab_worker import LabOrder, LabWorker
from specdemo.ui.page import Page
from specdemo.ui.replay import ClosedDesk
from specdemo.ui.text import LANGUAGES, STRINGS, tell
from specdemo.ui.visitors import OWN, PUBLIC
from specdemo.ui.worker import Ended, Refused
from tests.lab.worlds import World, first
from tests.threads import one_thread  # noqa: F401
from tests.ui.lab_world import Held, world_engine
from tests.ui.synthetic import endless_load

SPEC = ("ngram", "same")
SHORT = {"kinds": "chat", "per_kind": "2", "gammas": "2", "max_new_tokens": "8"}
OWN_FORM, PUBLIC_FORM = Form(OWN, ("ngram", "embedded")), Form(PUBLIC, ("ngram", "embedded"))


def begin_with(form: Form, name: str) -> dict[str, str]:
    (described,) = (one for one in form.described() if one["name"] == name)
    return {field["name"]: field["value"] for field in described["fields"]}


def refusal(form: Form, name: str = "tasks", **asked: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(FormRefused) as refused:
        form.read(name, asked)
    for language in LANGUAGES:
        assert tell(language, refused.value.sentence)
    return refused.value.sentence


def a_desk(world: World, **rules: Any) -> Desk:
    return Desk(world_engine(world), SPEC, replace(OWN, **rules))


def run(desk: Desk, asked: Asked, earlier: Any = None) -> tuple[LabWorker, LabShow]:
    worker, show = LabWorker(desk, LabOrder(asked, SPEC, earlier)).start(), LabShow()
    while not show.over:
        show.take(worker.drain(0.5))
    return worker, show


def state(show: LabShow) -> dict[str, Any]:
    return json.loads(show.value)["run"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_a_form_begins_with_may_be_run_in_public_and_has_its_words(name: str) -> None:
    values = begin_with(PUBLIC_FORM, name)
    asked = PUBLIC_FORM.read(name, values)
    assert 0 < len(asked.cells) <= PUBLIC.lab_rows
    for keys in STRINGS.values():
        assert keys[f"lab.e.{name}"] and keys[f"lab.q.{name}"]
        assert all(keys[f"lab.o.{field}"] for field in begin_with(OWN_FORM, name))
    assert STRINGS["en"][f"lab.q.{name}"] == EXPERIMENTS[name].about


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"gammas": "99"}, "take a whole number from 0 to 16"),
        ({"gammas": ","}, "give at least one value"),
        ({"temperature": "nan"}, "take a number from 0 to 5"),
        ({"policies": "fixed,<b>"}, "take one of fixed"),
        ({"kinds": "nonsense"}, "There is no kind"),
        ({"kinds": "x" * 400}, "longer than 300 characters"),
        ({"prompts": "/etc/passwd"}, "no longer kept here"),
        ({"repeats": "10000", "gammas": "1,2,3,4,5"}, f"at most {MOST_ROWS}"),
    ],
)
def test_values_out_of_bounds_are_sentences(asked: dict[str, str], part: str) -> None:
    assert part.replace(",", "") in tell("en", refusal(OWN_FORM, **asked)).replace(",", "")


def test_what_is_no_form_is_refused() -> None:
    assert refusal(OWN_FORM, "nothing")[0] == "lab.refused.unknown"
    for asked in (None, [], "x"):
        with pytest.raises(FormRefused):
            OWN_FORM.read("tasks", asked)
    assert OWN_FORM.read("tasks", {"gammas": 7, "per_kind": None}).options.gammas == (4, 6), "no text is nothing typed"


def test_in_public_nobody_names_files_or_models_or_asks_for_hours() -> None:
    assert "embedding" in begin_with(OWN_FORM, "quality") and "embedding" not in begin_with(PUBLIC_FORM, "quality")
    assert refusal(PUBLIC_FORM, prompts="/etc/passwd")[1]["why"][0] == "lab.refused.prompts.gone"
    assert refusal(PUBLIC_FORM, "quality", embedding="/tmp/model")[1]["why"][0] == "lab.refused.host"
    assert refusal(PUBLIC_FORM, "router", drafters="ngram,/tmp/model")[0] == "refused.model"
    assert refusal(PUBLIC_FORM, max_new_tokens="4000")[1]["why"] == ("lab.refused.most", {"most": "512"})
    assert refusal(PUBLIC_FORM, gammas="1,2,3,4,5,6,7,8", repeats="5")[0] == "lab.refused.rows"
    assert refusal(PUBLIC_FORM, "batch", batches="256")[1]["why"] == ("lab.refused.most", {"most": "8"})


def test_a_run_measures_every_row_and_gives_the_device_back() -> None:
    world = Held()
    desk = a_desk(world)
    asked = OWN_FORM.read("tasks", SHORT)
    worker, show = run(desk, asked)
    shown = state(show)
    assert shown["state"] == "done" and not shown["running"] and len(desk.line) == 0
    assert (shown["result"]["done"], shown["result"]["cells"]) == (2, 2) and worker.result.done
    (chart,) = shown["result"]["charts"]
    table = shown["result"]["table"]
    assert chart["places"] == ["chat"] and chart["series"] == ["γ 2"] and chart["even"] == 1
    told = table["lines"][0][table["head"].index("speedup")]
    assert told.startswith(f"{chart['marks'][0][0][0]:.2f} (") and shown["result"]["findings"]
    assert not desk.stayed("ann") and desk.stayed("ann"), "no visitor's words are taken for those in the caches"


@pytest.mark.parametrize(
    ("name", "charts", "maps"), [("sweep", 0, 2), ("length", 1, 0), ("router", 1, 0), ("quality", 1, 0)]
)
def test_every_experiment_is_drawn_however_few_rows_there_are(name: str, charts: int, maps: int) -> None:
    world = World(drafters={"ngram": first(1), "embedded": first(3)})
    small = {
        "kinds": "chat,code",
        "max_new_tokens": "8",
        "checkpoints": "8,16",
        "gammas": "1,2",
        "temperatures": "0,1",
    }
    asked = OWN_FORM.read(name, begin_with(OWN_FORM, name) | small)
    worker, show = run(a_desk(world), asked)
    assert state(show)["state"] == "done" and world.steps
    whole = state(show)["result"]
    assert (len(whole["charts"]), len(whole["maps"])) == (charts, maps)
    for chart in whole["charts"]:
        assert all(len(marks) == len(chart["places"]) for marks in chart["marks"])
        assert len(chart["marks"]) == len(chart["series"]) and any(map(any, chart["marks"]))
    for n in (0, 1, len(worker.result.rows) // 2):
        part = drawn(asked.experiment, worker.result.model_copy(update={"rows": worker.result.rows[:n]}))
        assert part["done"] == n and json.dumps(part)


def test_it_is_cancelled_within_a_step_keeps_its_rows_and_goes_on_with_the_others() -> None:
    whole = World()
    run(a_desk(whole), OWN_FORM.read("tasks", SHORT))
    world = Held(hold_at=whole.steps - 3)
    desk, asked = a_desk(world), OWN_FORM.read("tasks", SHORT)
    worker, show = LabWorker(desk, LabOrder(asked, SPEC)).start(), LabShow()
    assert world.held.wait(30)
    worker.stop.set()
    world.go.set()
    while not show.over:
        show.take(worker.drain(0.5))
    assert state(show)["state"] == "stopped" and world.steps == whole.steps - 2 and len(desk.line) == 0
    assert state(show)["result"]["done"] == len(worker.result.rows) == 1 and worker.result.findings
    first = dict(worker.result.rows[0])
    again, show = run(desk, asked, worker.result)
    assert state(show)["state"] == "done" and again.result.rows[0] == first and again.result.done


def test_who_leaves_while_a_prompt_is_read_ends_it_within_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.decoding.runner.PREFILL_CHUNK", 1)
    world = Held(hold_at=2)
    desk = a_desk(world)
    worker, show = LabWorker(desk, LabOrder(OWN_FORM.read("tasks", SHORT), SPEC)).start(), LabShow()
    assert world.held.wait(30)
    worker.stop.set()
    world.go.set()
    while not show.over:
        show.take(worker.drain(0.5))
    assert state(show)["state"] == "stopped" and world.steps == 3 and len(desk.line) == 0


def test_who_leaves_while_a_pair_loads_frees_the_device() -> None:
    loading = threading.Event()
    desk = Desk(replace(world_engine(), load=endless_load(loading)), SPEC, OWN)
    worker, show = LabWorker(desk, LabOrder(OWN_FORM.read("tasks", SHORT), SPEC)).start(), LabShow()
    assert loading.wait(30)
    worker.stop.set()
    while not show.over:
        show.take(worker.drain(0.5))
    assert state(show)["state"] == "stopped" and len(desk.line) == 0


def test_rows_of_another_pair_are_not_gone_on_with() -> None:
    asked = OWN_FORM.read("tasks", SHORT)
    worker, _ = run(a_desk(World()), asked)
    other = World(facts={"target": "certain", "drafter": "another"})
    _, show = run(a_desk(other), asked, worker.result)
    assert state(show)["say"] == ["lab.other.pair", {"names": "drafter"}] and other.steps == 0


def test_a_run_has_no_longer_than_the_page_allows() -> None:
    worker, show = run(a_desk(World(), seconds=0.0), OWN_FORM.read("tasks", SHORT))
    assert state(show)["say"][0] == "lab.seconds" and not worker.result.done


def test_what_the_pair_cannot_run_is_a_sentence() -> None:
    desk = a_desk(World(context=40))
    worker, show = run(desk, OWN_FORM.read("tasks", SHORT))
    assert state(show)["state"] == "refused" and state(show)["say"][0] == "refused"
    assert state(show)["result"]["done"] == 0 and len(desk.line) == 0 and worker.result is not None


# --- A result that is brought -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    """A whole result, as its file has it."""
    worker, _ = run(a_desk(World()), OWN_FORM.read("tasks", SHORT))
    return json.loads(worker.result.model_dump_json())


def test_a_result_comes_back_whole_or_in_part(kept: dict[str, Any]) -> None:
    one = brought(json.dumps(kept), OWN_FORM)
    assert one.result.done and one.drawn["done"] == 2 and plain(one.asked.options) == kept["options"]
    part = brought(json.dumps(kept | {"rows": kept["rows"][:1]}), OWN_FORM)
    _, show = run(a_desk(World()), part.asked, part.result)
    assert state(show)["state"] == "done" and state(show)["result"]["done"] == 2
    assert brought(json.dumps(kept | {"rows": []}), OWN_FORM).drawn["table"]["lines"] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda file: "{",
        lambda file: "[]",
        lambda file: file | {"experiment": "rm -rf"},
        lambda file: file | {"version": 9},
        lambda file: file | {"options": {}},
        lambda file: file | {"options": file["options"] | {"gammas": [99]}},
        lambda file: file | {"options": file["options"] | {"gammas": {"a": 1}}},
        lambda file: file | {"options": file["options"] | {"prompts": "/etc/passwd"}},
        lambda file: file | {"options": file["options"] | {"more": 1}},
        lambda file: file | {"cells": 3},
        lambda file: file | {"rows": file["rows"] * 2},
        lambda file: file | {"rows": [file["rows"][0] | {"kind": "other"}]},
        lambda file: file | {"rows": [{}]},
        lambda file: file | {"rows": [file["rows"][0] | {"tokens": "many"}]},
        lambda file: file | {"rows": [file["rows"][0] | {"tokens": 1e300}]},
        lambda file: file | {"rows": [file["rows"][0] | {"text": "x" * 30_000}]},
        lambda file: file | {"rows": [{k: v for k, v in file["rows"][0].items() if k != "tokens"}]},
        lambda file: json.dumps(file)[:-1] + ', "rows": [NaN]}',
        lambda file: " " * (LARGEST + 1),
    ],
)
def test_a_hostile_file_is_a_sentence(kept: dict[str, Any], change: Any) -> None:
    made = change(kept)
    with pytest.raises((LabRefused, FormRefused)) as refused:
        brought(made if isinstance(made, str) else json.dumps(made), OWN_FORM)
    assert 10 < len(str(getattr(refused.value, "sentence", refused.value))) < 400


# --- On the page ------------------------------------------------------------------------------------------------------


def test_without_a_model_or_where_it_is_closed_the_lab_says_so() -> None:
    visitor = SimpleNamespace(session_hash="ann", headers={}, client=None)
    for desk, key in ((ClosedDesk(), "lab.replay"), (a_desk(World(), lab_rows=0), "lab.closed")):
        lab = Page(desk).lab
        assert lab.closed == (key, {})
        assert lab._order(visitor, {"experiment": "tasks", "options": {}}, "", ()) == Refused(key)


def test_files_and_plans_are_answered(kept: dict[str, Any]) -> None:
    lab: Lab = Page(a_desk(World())).lab
    visitor = SimpleNamespace(session_hash="ann", headers={}, client=None)

    def event(**data: Any) -> Any:
        return SimpleNamespace(_data=data)

    assert json.loads(lab.fetch(visitor, event(kind="json")))["refused"][0] == "lab.gone"
    assert json.loads(lab.plan(visitor, event(experiment="tasks", options=SHORT)))["plan"] == {"rows": 2}
    wrong = json.loads(lab.plan(visitor, event(experiment="tasks", options={"gammas": "x"})))["plan"]["wrong"]
    assert wrong[1]["name"] == "@lab.o.gammas"
    answer = json.loads(lab.bring(visitor, event(text=json.dumps(kept))))
    assert answer["run"]["result"]["done"] == 2
    files = {kind: json.loads(lab.fetch(visitor, event(kind=kind)))["file"] for kind in ("json", "csv", "md")}
    assert (
        files["json"]["name"] == "specdemo-lab-tasks.json" and json.loads(files["json"]["text"])["rows"] == kept["rows"]
    )
    assert files["csv"]["text"].startswith("kind,prompt") and files["md"]["text"].startswith("# tasks")
    assert json.loads(lab.bring(visitor, event(text="<b>")))["refused"][0] == "lab.refused.file"


def test_ended_is_the_last_event() -> None:
    worker = LabWorker(a_desk(World()), LabOrder(OWN_FORM.read("tasks", SHORT), SPEC)).start()
    worker.thread.join(30)
    seen = worker.drain(1.0)
    assert seen[-1] == Ended(False)


def test_a_visitor_who_leaves_frees_the_device_and_keeps_what_was_measured() -> None:
    world = Held(hold_at=30)
    page = Page(a_desk(world))
    visitor = SimpleNamespace(session_hash="ann", headers={}, client=None)
    values = tuple(block.value for block in page.controls.inputs)
    going = page.lab.run(visitor, SimpleNamespace(_data={"experiment": "tasks", "options": SHORT}), "", *values)
    next(going)
    next(going)
    assert world.held.wait(30)
    (worker,) = page._workers.values()
    going.close()
    assert worker.stop.is_set() and not page._workers and not page._going
    world.go.set()
    worker.thread.join(30)
    assert not worker.thread.is_alive() and len(page.desk.line) == 0 and world.steps == 31
