"""A visitor's own token of the model hub: used for that visitor's loads, and found nowhere else."""

from __future__ import annotations

import gc
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import errors

from specdemo.models import hub
from specdemo.models.errors import ModelUnavailable
from specdemo.models.hub_token import HubToken
from specdemo.models.pair_options import NGRAM, PairSpec
from specdemo.models.progress import silent
from specdemo.race import Request
from specdemo.ui.desk import Desk
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.links import write_link
from specdemo.ui.orders import order
from specdemo.ui.own_engine import real_engine
from specdemo.ui.page import Page
from specdemo.ui.visitors import OWN, PUBLIC
from specdemo.ui.worker import Ended, Order, Refused, Worker
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import tiny_llama
from tests.ui.synthetic import Synthetic

ANN, BEA = "hf_ann" + "a" * 28, "hf_bea" + "b" * 28
GATED = "some/gated"
VISITOR = SimpleNamespace(session_hash="ann", client=SimpleNamespace(host="10.1.1.1"), headers={})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of this program, with a hub behind it that gives its one model to whoever has accepted the terms: Ann and Bea."""
    weights = tmp_path / "weights"
    tiny_llama(64).save_pretrained(weights)
    word_tokenizer(64).save_pretrained(weights)
    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECDEMO_CACHE", str(cache))

    def snapshot(repository: str, *, token: str | None = None, cache_dir: Path | None = None, **rest: Any) -> str:
        if token not in (ANN, BEA):
            raise errors.GatedRepoError.__new__(errors.GatedRepoError, f"401 for {token}")
        return str(shutil.copytree(weights, cache_dir / "snapshot", dirs_exist_ok=True))

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    return cache


def spec(token: str = "") -> PairSpec:
    return replace(PairSpec(GATED, NGRAM, target_precision="fp32"), hub_token=HubToken(token) if token else None)


def folders(cache: Path) -> list[Path]:
    gc.collect()  # what failed hangs on its frames until then
    return list(cache.glob("visitor-*"))


def test_a_pair_that_a_token_opened_serves_nobody_who_has_another_or_none(cache: Path) -> None:
    desk = Desk(real_engine(), PairSpec())
    of_ann = desk.pair(spec(ANN), silent)
    assert desk.pair(spec(ANN), silent) is of_ann, "she runs again without another load"
    with pytest.raises(ModelUnavailable, match=r"some/gated is gated\. Accept its terms"):
        desk.pair(spec(), silent)
    with pytest.raises(ModelUnavailable, match=r"some/gated is gated\..*with the account of this token"):
        desk.pair(spec("hf_eve"), silent)
    assert len(folders(cache)) == 1 and folders(cache)[0].stat().st_mode & 0o077 == 0
    of_bea = desk.pair(spec(BEA), silent)
    assert of_bea is not of_ann and of_bea.loaded is not of_ann.loaded
    del of_ann
    assert len(folders(cache)) == 1, "what Ann's token opened went with her pair"
    desk.drop("")
    del of_bea
    assert folders(cache) == []


def test_no_word_of_it_is_logged_or_kept_with_a_run(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(real_engine(), PairSpec(target_precision="fp32"))
    page = Page(Desk(Synthetic().engine(), ("ngram", "same")))
    values = page.fresh | {"target_model": GATED, "drafter": NGRAM, "target_precision": "fp32", "max_new_tokens": 8}
    asked = order(desk, page.controls.choices, "a b c", values, VISITOR, token=f" {ANN} ")
    assert isinstance(asked, Order) and asked.spec.hub_token == HubToken(ANN)
    asked = replace(asked, request=Request(prompt_ids=(), max_new_tokens=8))
    events = list(until_the_end(Worker(desk, asked).start()))
    told = [repr(asked), repr(events), repr(desk.status), caplog.text]
    assert isinstance(events[-1], Ended | Refused) and not any(ANN in text or "hf_" in text for text in told)
    assert "some/gated" in told[2], "it was loaded"


def until_the_end(worker: Worker) -> Iterator[Any]:
    while True:
        for event in worker.drain(0.5):
            yield event
            if isinstance(event, Ended | Refused):
                return


@pytest.mark.parametrize("status", [None, 401, 403])
def test_what_the_hub_says_is_told_without_it(monkeypatch: pytest.MonkeyPatch, cache: Path, status: int | None) -> None:
    error = errors.HfHubHTTPError.__new__(errors.HfHubHTTPError, f"Illegal header value Bearer {ANN}")
    error.response = SimpleNamespace(status_code=status)

    def refuse(*args: object, **rest: object) -> None:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(ModelUnavailable) as refused:
        real_engine().load(spec(ANN), silent, None)
    assert ANN not in str(refused.value) and ANN not in refused.value.reason
    assert GATED in str(refused.value) and refused.value.__cause__ is None


def test_it_is_refused_by_a_sentence_that_does_not_repeat_it() -> None:
    page = Page(Desk(real_engine(), PairSpec()))
    for wrong in ("two words", "naïve", "a\nb", "x" * 201):
        refused = order(page.desk, page.controls.choices, "Tell me", page.fresh, VISITOR, token=wrong)
        assert refused == Refused("refused.token")
    taken = order(page.desk, page.controls.choices, "Tell me", page.fresh, VISITOR, token="")
    assert isinstance(taken, Order) and taken.spec.hub_token is None


def test_a_page_in_public_neither_shows_the_field_nor_takes_what_is_posted() -> None:
    page = Page(Desk(Synthetic().engine(), ("ngram", "same"), PUBLIC))
    assert page.controls.token.visible is False
    refused = order(page.desk, page.controls.choices, "Tell me", page.fresh, VISITOR, token=ANN)
    assert refused == Refused("refused.notoken")


def test_it_is_hidden_while_it_is_typed_and_stands_in_no_link() -> None:
    page = Page(Desk(Synthetic().engine(), ("ngram", "same"), OWN))
    assert page.controls.token.type == "password" and page.controls.token.visible is True
    assert page.controls.token not in page.controls.inputs and AS_TARGET in page.fresh.values()
    assert "token" not in write_link(page.fresh | {"gamma": 3}, page.fresh)
