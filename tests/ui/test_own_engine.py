"""What the page says of a loaded pair: whether its forwards are recorded, what drafting costs, what its caches take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specdemo.decoding.given_up import GivenUp, asking
from specdemo.models.pair_options import PairSpec
from specdemo.models.precision import Precision
from specdemo.models.progress import silent
from specdemo.race import Request
from specdemo.ui import own_engine
from specdemo.ui.own_engine import real_engine
from specdemo.ui.text import LANGUAGES, tell
from tests.models.tiny_tokenizers import word_tokenizer
from tests.toy_pair import ToyPair

FACTS = {"target": "tiny", "drafter": "small", "target precision": "bf16", "device": "cuda:0", "threads": "2"}
FACTS |= {"caches": "46.1 MB", "caches, each token": "45.2 kB"}


def said(language: str = "en", bits: bool = True, **facts: str) -> list[str]:
    pair = SimpleNamespace(facts=FACTS | facts, spec=PairSpec("t", "d"), choice=SimpleNamespace(measured={}))
    pair.bits_promised, pair.padding, pair.draft_cost, pair.target_precision = bits, 1.0, 0.25, Precision.BF16
    return [one if isinstance(one, str) else tell(language, one) for one in real_engine().facts(pair)]


@pytest.mark.parametrize(
    "graphs",
    [
        "on, forwards and draws are recorded and replayed",
        "on, but not for the target's and the drafter's forward: only the lean one is recorded",
        "off, as asked, every kernel is launched by itself",
        "off, because recording failed (CUDA out of memory): every kernel is launched by itself, and slower",
    ],
)
def test_whether_forwards_are_replayed_is_said_in_every_language(graphs: str) -> None:
    assert f"CUDA graphs are {graphs}." in said(graphs=graphs)
    for language in set(LANGUAGES) - {"en"}:
        told = next(one for one in said(language, graphs=graphs) if one.startswith("CUDA graph"))
        assert "forward" not in told and "kernel" not in told
    assert not any("CUDA" in one for one in said())


def test_what_loads_is_imported_and_passed_over_by_the_collector_before_there_is_a_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(own_engine, "spare_collections", lambda: happened.append("spared"))
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda spec, progress: happened.append(spec.target))
    own_engine._loader.cache_clear()
    try:
        for target in ("a", "b"):
            real_engine().load(PairSpec(target), silent, None)
    finally:
        own_engine._loader.cache_clear()
    assert happened == ["spared", "a", "b"]


def test_what_drafting_costs_and_how_caches_grow_is_said() -> None:
    assert "a drafted token costs 0.25 of a step" in said()
    assert "caches at 1,024 tokens and γ 5: 46.1 MB; each token more, of text or of γ: 45.2 kB" in said()


def test_a_promise_that_the_probe_withdraws_is_withdrawn_on_the_page() -> None:
    assert "bit-identical" in said() and "equal up to rounding" not in said()
    assert "equal up to rounding" in said(bits=False) and "bit-identical" not in said(bits=False)


def test_that_a_pair_fits_narrowly_is_said_in_every_language() -> None:
    assert "fits narrowly: 7.9 GB of 8.0 GB free memory" in said(narrow="7.9 GB of 8.0 GB")
    for language in set(LANGUAGES) - {"en"}:
        (told,) = set(said(language, narrow="7.9 GB of 8.0 GB")) - set(said(language))
        assert "7.9 GB" in told and "8.0 GB" in told and " of " not in told
    assert not any("narrowly" in one for one in said())


def test_a_race_is_told_that_nobody_waits_for_it() -> None:
    pair = ToyPair(tokenizer=word_tokenizer(5))
    with asking(lambda: True), pytest.raises(GivenUp):
        list(real_engine().race(pair, Request((1, 2, 3))))
    assert not pair.target.length and not pair.target_twin.length
