"""Only who has signed in may run, and what their token opens is for them alone. The hub is a stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gradio
import httpx
import pytest
from huggingface_hub import errors

import app
from specdemo.models import hub
from specdemo.models.hub_token import HubToken
from specdemo.models.pair_options import PairSpec
from specdemo.ui import login, orders
from specdemo.ui.controls import MODEL
from specdemo.ui.desk import Desk
from specdemo.ui.lab_worker import LabOrder
from specdemo.ui.login import Account, LoginRefused, account_behind, account_of, check_login
from specdemo.ui.orders import order
from specdemo.ui.own_engine import real_engine
from specdemo.ui.page import Page
from specdemo.ui.text import LANGUAGES, say
from specdemo.ui.visitors import Rules
from specdemo.ui.worker import Order, Refused
from tests.ui.served import Served, served

ANN, BEA = "hf_ann" + "a" * 28, "hf_bea" + "b" * 28
SIGNED = Rules(login=True)
GATED = "some/gated"


def visitor(name: str = "", token: str = "", scope: str = "openid profile gated-repos", lasts: float = 60) -> Any:
    """A request, as Gradio hands it to what runs: of somebody who has signed in, or not."""
    info = {"access_token": token, "scope": scope, "expires_at": int(time.time() + lasts)}
    session = {"oauth_info": info | {"userinfo": {"preferred_username": name}}} if name else {}
    request = SimpleNamespace(scope={"session": session})
    return SimpleNamespace(session_hash=name, client=SimpleNamespace(host="10.1.1.1"), headers={}, request=request)


def silent(*args: object, **rest: object) -> dict[str, Any]:
    raise OSError(f"No route to the hub with {ANN}")


def unknown(*args: object, **rest: object) -> dict[str, Any]:
    error = errors.HfHubHTTPError.__new__(errors.HfHubHTTPError, f"401 for {ANN}")
    error.response = SimpleNamespace(status_code=401)
    raise error


# --- A served page, over Gradio's own trial of the sign-in ----------------------------------------------------------


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    own = {"type": "user", "name": "ann", "fullname": "Ann", "avatarUrl": "picture"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradio.oauth, "get_token", lambda: ANN)
        patch.setattr(gradio.oauth, "whoami", lambda: own)
        with pytest.warns(UserWarning, match="login and logout buttons are mocked"), served(rules=SIGNED) as house:
            yield house


def end_of(house: Served, name: str = "compare", cookie: str = "", **asked: Any) -> tuple[str, Any]:
    """The last event of a call over plain HTTP, and what it says."""
    call = httpx.post(
        f"{house.url}gradio_api/call/v2/{name}", json={"prompt": "Tell me"} | asked, headers=with_(cookie)
    )
    assert call.status_code == 200, call.text
    answer = httpx.get(f"{house.url}gradio_api/call/{name}/{call.json()['event_id']}", timeout=20)
    event, data = answer.text.strip().rsplit("\n", 2)[-2:]
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def with_(cookie: str) -> dict[str, str]:
    return {"cookie": cookie} if cookie else {}  # httpx would send a secure one over HTTPS alone


@pytest.fixture(scope="module")
def cookie(house: Served) -> str:
    """Of a browser that has pressed the button."""
    first = httpx.get(f"{house.url}login/huggingface", params={"_target_url": "/?gamma=3"})
    second = httpx.get(httpx.URL(house.url).join(first.headers["location"]))
    assert "gamma" in second.headers["location"], "the settings in the address come back with the visitor"
    assert "httponly" in second.headers["set-cookie"] and "frame-ancestors" in second.headers["content-security-policy"]
    return second.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("name", ["compare", "stream"])
def test_a_caller_who_has_not_signed_in_is_refused_by_a_sentence(house: Served, name: str) -> None:
    before = len(house.script.steps)
    event, said = end_of(house, name)
    assert event == "error" and said["error"].startswith("This page is for callers who have signed in. Give a token")
    assert end_of(house, name, cookie="session=forged")[0] == "error"
    assert len(house.script.steps) == before and len(house.desk.line) == 0


def test_who_has_signed_in_may_run(house: Served, cookie: str) -> None:
    event, said = end_of(house, cookie=cookie)
    assert event == "complete" and said[0]["state"] == "done"
    out = httpx.get(f"{house.url}logout", headers=with_(cookie))
    assert "session=null" in out.headers["set-cookie"] or "session=;" in out.headers["set-cookie"]


def test_a_program_signs_in_with_its_token(house: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "whoami", lambda token: {"name": "bea"} if token == BEA else unknown())
    assert end_of(house, oauth_token=BEA)[0] == "complete"
    for wrong in (ANN, "two words", "x" * 300):
        event, said = end_of(house, oauth_token=wrong)
        assert event == "error" and said["error"].startswith("The model hub knows no such token.")
    monkeypatch.setattr(login, "whoami", silent)
    event, said = end_of(house, oauth_token=BEA)
    assert event == "error" and said["error"].startswith("The model hub cannot be asked whose token this is.")
    assert ANN not in json.dumps(said)


def test_pairs_and_health_are_for_everybody(house: Served) -> None:
    for name in ("pairs", "health"):
        answer = httpx.post(f"{house.url}gradio_api/call/v2/{name}", json={})
        assert answer.status_code == 200


def test_the_page_refuses_a_run_and_shows_the_button_in_every_language(house: Served) -> None:
    page = house.page
    values = tuple(block.value for block in page.controls.inputs)
    before = house.script.closed.is_set()
    refused = next(iter(page.race(visitor(), "Tell me", "", "", *values)))
    assert '"refused.login"' in refused[2] and house.script.closed.is_set() == before
    tasks = {"experiment": "tasks", "options": {}}
    assert page.lab._order(visitor(), tasks, "", values) == Refused("refused.login")
    assert isinstance(page.lab._order(visitor("bea"), tasks, "", values), LabOrder)
    for language in LANGUAGES:
        into, out = page.sign_in.show(visitor(), language)
        assert into["visible"] and not out["visible"] and into["value"] == say(language, "login")
        into, out = page.sign_in.show(visitor("bea"), language)
        assert out["visible"] and not into["visible"] and "bea" in out["value"]


# --- Accounts and their tokens --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(Desk(real_engine(), PairSpec()))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Of a page for those who have signed in, with a hub that knows one gated repository."""
    monkeypatch.setattr(orders, "is_gated", lambda name: name == GATED)
    return Desk(real_engine(), PairSpec(), Rules(public=True, models=(GATED, "some/open"), login=True))


def token_of(desk: Desk, page: Page, who: Any, **changed: Any) -> HubToken | None:
    ordered = order(desk, page.controls.choices, "Tell me", page.fresh | changed, who)
    assert isinstance(ordered, Order) and ANN not in repr(ordered) and BEA not in repr(ordered)
    return ordered.spec.hub_token


def test_a_visitors_own_token_opens_what_is_gated_and_nothing_else(desk: Desk, page: Page) -> None:
    ann, bea = visitor("ann", ANN), visitor("bea", BEA)
    assert token_of(desk, page, ann, target_model=GATED) == HubToken(ANN)
    assert token_of(desk, page, bea, target_model=GATED) == HubToken(BEA)
    assert token_of(desk, page, ann, drafter=MODEL, draft_model=f"ngram+{GATED}") == HubToken(ANN)
    assert token_of(desk, page, ann) is None and token_of(desk, page, ann, target_model="some/open") is None


def test_a_token_that_may_not_read_for_its_owner_is_not_used(desk: Desk, page: Page) -> None:
    trial = visitor("ann", "mock-oauth-token-for-local-dev", scope="openid profile")
    assert token_of(desk, page, trial, target_model=GATED) is None


def test_a_sign_in_that_has_run_out_is_none(desk: Desk, page: Page) -> None:
    for who in (visitor("ann", ANN, lasts=-1), visitor(), SimpleNamespace(session_hash="", headers={})):
        assert account_of(who) is None
        assert order(desk, page.controls.choices, "Tell me", page.fresh, who) == Refused("refused.login")


def test_no_token_is_shown_with_an_account() -> None:
    assert ANN not in repr(account_of(visitor("ann", ANN))) and account_of(visitor("ann", ANN)).token == ANN


def test_where_nobody_needs_to_sign_in_there_is_no_button_and_no_token_is_asked_about(page: Page) -> None:
    assert page.sign_in is None and not page.blocks.expects_oauth


def test_the_hub_is_asked_whether_a_model_is_gated_without_any_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    asked: list[Any] = []

    def model_info(api: Any, repository: str, *, revision: str | None, token: Any, **rest: Any) -> Any:
        asked.append((repository, revision, token))
        return SimpleNamespace(gated="manual" if repository == GATED else False)

    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    assert hub.is_gated(f"{GATED}@main") and not hub.is_gated("some/open") and not hub.is_gated(str(tmp_path))
    assert asked == [(GATED, "main", False), ("some/open", None, False)]
    monkeypatch.setattr(hub.HfApi, "model_info", silent)
    assert not hub.is_gated(GATED)


# --- What must be so at the start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "answer", "host", "sentence"),
    [
        (ANN, {"type": "user"}, "0.0.0.0", "leave --host out, or ask for a password with --auth-env"),
        (None, {"type": "user"}, "127.0.0.1", "log in with `hf auth login` or set HF_TOKEN, or leave --login out"),
        (ANN, {"type": "org"}, "127.0.0.1", "this machine's token is an organisation's"),
        (ANN, None, "127.0.0.1", r"\(No route to the hub with \[token\]\)\. Connect to the network"),
    ],
)
def test_outside_a_space_it_is_a_trial_with_this_machines_account(
    monkeypatch: pytest.MonkeyPatch, token: str | None, answer: Any, host: str, sentence: str
) -> None:
    monkeypatch.setattr(login, "get_token", lambda: token)
    monkeypatch.setattr(login, "whoami", silent if answer is None else lambda token: answer)
    with pytest.raises(LoginRefused, match=sentence):
        check_login(host, lambda: None)
    monkeypatch.setattr(login, "get_token", lambda: ANN)
    monkeypatch.setattr(login, "whoami", lambda token: {"type": "user"})
    check_login("127.0.0.1", lambda: None)


def test_a_space_signs_in_where_its_front_matter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "find_spec", lambda name: object())
    with pytest.raises(LoginRefused, match="write `hf_oauth: true` into the front matter"):
        check_login("0.0.0.0", lambda: "a/space")
    for name in login.SPACE_GIVES:
        monkeypatch.setenv(name, "given")
    check_login("0.0.0.0", lambda: "a/space")
    monkeypatch.setattr(login, "find_spec", lambda name: None)
    with pytest.raises(LoginRefused, match=r'pip install "gradio\[oauth\]"'):
        check_login("0.0.0.0", lambda: "a/space")


def test_without_an_account_the_program_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "get_token", lambda: None)
    monkeypatch.setattr(app, "leave_on_sigterm", lambda: None)
    monkeypatch.setattr("sys.argv", ["app.py", "--login", "huggingface"])
    with pytest.raises(SystemExit, match="hf auth login"):
        app.main()


def test_whose_token_it_is_says_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "whoami", lambda token: {"name": "bea"})
    assert account_behind(BEA) == Account("bea", BEA)
