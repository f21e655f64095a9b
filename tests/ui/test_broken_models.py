"""A model that gives what is not a number, over the page's own thread and over the API: who asked is told which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from specdemo.drafters.model import ModelDrafter
from specdemo.race import Lane, Request, race
from specdemo.recording import Wrote, spelled
from specdemo.ui.desk import Desk
from specdemo.ui.engine import Engine
from specdemo.ui.worker import Ended, Order, Refused, Worker
from tests.threads import one_thread  # noqa: F401
from tests.toy_pair import CHAIN, Broken, ToyPair
from tests.ui.served import served
from tests.ui.synthetic import Synthetic

SPEC = ("ngram", "same")


def broken(who: str) -> ToyPair:
    """A pair of which the draft or the target is broken."""
    if who == "draft":
        return ToyPair(drafter=ModelDrafter(Broken(CHAIN)))
    return ToyPair(target=Broken(CHAIN), target_twin=Broken(CHAIN))


class Speller:
    """Each id as its figure."""

    def add(self, token_id: int) -> str:
        return str(token_id)

    def flush(self) -> str:
        return ""


def engine(pairs: list[ToyPair]) -> Engine:
    """The scripted one, but that it really races: each run the next of these pairs, over tokens they know."""

    def run(pair: Any, request: Request) -> Iterator[Wrote]:
        request = replace(request, prompt_ids=(1, 2, 3), max_new_tokens=20, stop_strings=())
        return spelled(race(pairs.pop(0), request), Speller, str)

    return replace(Synthetic().engine(), race=run)


@pytest.mark.parametrize("who", ["draft", "target"])
def test_a_broken_model_is_told_and_the_lane_that_can_goes_on(who: str) -> None:
    worker = Worker(Desk(engine([broken(who)]), SPEC), Order("Tell me", SPEC, Request(()))).start()
    seen = []
    while not (seen and isinstance(seen[-1], Ended | Refused)):
        seen += worker.drain(1.0)
    assert isinstance(seen[-1], Refused) and seen[-1].key == "failed"
    assert seen[-1].params["message"].startswith(f"The {who} model's output is not a number, so this lane stops here")
    baseline = [one for one in seen if isinstance(one, Wrote) and one.lane is Lane.BASELINE]
    assert (len(baseline) == 20) == (who == "draft")


def test_the_api_gives_the_sentence_and_then_works() -> None:
    with served(engine=engine([broken("draft"), broken("target"), ToyPair()])) as house:
        client = Client(house.url, verbose=False)
        for who in ("draft", "target"):
            with pytest.raises(AppError, match=f"The {who} model's output is not a number.*Try fp32 or bf16"):
                client.predict("Tell me", api_name="/compare")
        answer = client.predict("Tell me", api_name="/compare")
        assert answer["state"] == "done" and answer["baseline"]["tokens"] == 20
        assert httpx.get(house.url).status_code == 200
