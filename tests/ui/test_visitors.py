"""In public a visitor chooses among what the starter allows, within bounds; on a person's own machine all is free."""

from __future__ import annotations

import argparse
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from specdemo.models.pair_options import add_pair_options
from specdemo.race import Request
from specdemo.ui import visitors
from specdemo.ui.controls import MODEL
from specdemo.ui.desk import Desk
from specdemo.ui.orders import order
from specdemo.ui.page import Page
from specdemo.ui.text import LANGUAGES, tell
from specdemo.ui.visitors import OWN, PUBLIC, Pace, Rules, add_rule_options, address_of, rules
from specdemo.ui.worker import Ended, Order, Refused, Worker, Wrote
from tests.ui.synthetic import Synthetic

chosen: list[str] = []  # drafters that the engine was asked for
VISITOR = SimpleNamespace(session_hash="somebody", client=SimpleNamespace(host="10.1.1.1"), headers={})


def asked(rules: Rules, prompt: str = "Tell me", **changed: Any) -> Order | Refused:
    chosen.clear()
    engine = replace(Synthetic().engine(), choose=lambda spec, *asked: chosen.append(asked[0]) or asked)
    page = Page(Desk(engine, ("ngram", "same"), rules))
    return order(page.desk, page.controls.choices, prompt, page.fresh | changed, VISITOR)


NAMES = ["/etc/passwd", "../..", "some/model", "ngram+/etc", "~/models", "file:///etc", "C:\\"]


@pytest.mark.parametrize("name", NAMES)
def test_in_public_no_folder_and_no_hub_id_that_a_visitor_types_reaches_the_engine(name: str) -> None:
    refused = asked(PUBLIC, drafter=MODEL, draft_model=name)
    assert isinstance(refused, Refused) and refused.key == "refused.model" and chosen == []
    another = asked(PUBLIC, target_model=name)
    assert isinstance(another, Refused) and another.key == "refused.model" and chosen == []
    for language in LANGUAGES:
        assert "–" in tell(language, (refused.key, refused.params))


def test_in_public_what_the_starter_allows_is_had_and_on_ones_own_everything() -> None:
    allowing = Rules(public=True, models=("good-draft",))
    for name in ("good-draft", "ngram+good-draft"):
        taken = asked(allowing, drafter=MODEL, draft_model=name)
        assert isinstance(taken, Order) and taken.spec[0] == name
    assert isinstance(asked(allowing, drafter="ngram"), Order)
    assert isinstance(asked(OWN, drafter=MODEL, draft_model="/home/me/model"), Order)


def test_tokens_runs_and_prompts_have_bounds_in_public() -> None:
    assert asked(PUBLIC, max_new_tokens=1024) == Refused("refused.tokens", {"n": "1,024", "most": "512"})
    assert isinstance(asked(OWN, max_new_tokens=1024), Order)
    script = Synthetic()
    worker = Worker(Desk(script.engine(), ("ngram", "same"), Rules(prompt_tokens=3)), ordered("a b c d e")).start()
    assert last(worker) == Refused("refused.prompt", {"n": "5", "most": "3"})


def ordered(prompt: str = "Tell me") -> Order:
    return Order(prompt, ("ngram", "same"), Request(prompt_ids=()))


def last(worker: Worker) -> Any:
    """The last event of a run."""
    worker.thread.join(20)
    return worker.drain(0)[-1] if not worker.running else [*worker.drain(0), *worker.drain(0)][-1]


def test_a_run_ends_when_its_time_on_the_device_is_up() -> None:
    script = Synthetic()
    worker = Worker(Desk(script.engine(), ("ngram", "same"), Rules(seconds=1e-9)), ordered()).start()
    worker.thread.join(20)
    began, rest = worker.drain(0), worker.drain(0)
    assert began and [type(event) for event in rest] == [Wrote, Ended]
    assert rest[-1] == Ended(stopped=True, why=("budget.seconds", {"seconds": "1e-09"}))
    assert script.closed.is_set()


def test_an_address_has_so_many_runs_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(visitors.time, "monotonic", lambda: now[0])
    pace = Pace(2)
    assert pace.refuse("a") is None and pace.refuse("a") is None and pace.refuse("b") is None
    now[0] += 20
    assert pace.refuse("a") == ("refused.often", {"most": "2", "seconds": "40"})
    now[0] += 41
    assert pace.refuse("a") is None
    for i in range(5000):
        pace.refuse(str(i))
    assert len(pace._begun) == visitors.ADDRESSES_KEPT


def test_an_address_is_the_connections_and_behind_a_spaces_proxy_the_one_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = SimpleNamespace(client=VISITOR.client, headers={"x-forwarded-for": "1.2.3.4, 10.0.0.1"})
    assert address_of(named) == "10.1.1.1", "anybody can send a header"
    monkeypatch.setenv("SPACE_ID", "a/space")
    assert address_of(named) == "1.2.3.4" and address_of(VISITOR) == "10.1.1.1"


def options(*argv: str) -> Rules:
    parser = argparse.ArgumentParser()
    add_pair_options(parser)
    add_rule_options(parser)
    return rules(parser.parse_args(argv))


def test_a_space_is_public_by_itself_and_a_machine_when_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert options() == OWN and options("--public") == PUBLIC
    some = options("--public", "--allow-model", "a/b", "--drafter", "c/d", "--seconds-a-run", "9", "--waiting", "3")
    assert some.models == ("c/d", "a/b") and some.seconds == 9 and some.waiting == 3
    assert options("--login", "huggingface").login and not options("--public").login
    monkeypatch.setenv("SPACE_ID", "a/space")
    assert options() == PUBLIC
    monkeypatch.setenv("OAUTH_CLIENT_ID", "given with hf_oauth: true")
    assert options() == replace(PUBLIC, login=True)
    with pytest.raises(SystemExit):
        options("--waiting", "0")
