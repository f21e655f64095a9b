"""A hundred who come in one instant are let in one after another; whoever opens the page does not stand behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from specdemo.ui import doors
from specdemo.ui.doors import Turnstile
from tests.ui.served import Served, run_apart, served


class Clock:
    """In place of asyncio in `doors`: a loop whose time stands still, and sleeps that are noted."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def get_running_loop(self) -> Clock:
        return self

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def test_one_after_another_and_who_finds_it_free_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(doors, "asyncio", clock)
    turnstile = Turnstile(0.5)

    async def come(many: int) -> None:
        for _ in range(many):
            await turnstile.enter()

    run_apart(come(4))
    assert clock.slept == [0.5, 1.0, 1.5]
    clock.now += 2.0
    run_apart(come(1))
    assert len(clock.slept) == 3


@pytest.fixture
def house() -> Iterator[Served]:
    with served() as one:
        yield one


def test_runs_alone_go_through_it(house: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[Turnstile] = []

    async def enter(turnstile: Turnstile) -> None:
        came.append(turnstile)
        await asyncio.sleep(0)

    monkeypatch.setattr(Turnstile, "enter", enter)
    (race,) = (n for n, fn in house.page.blocks.fns.items() if fn.name == "race")
    (watch,) = (n for n, fn in house.page.blocks.fns.items() if fn.name == "watch")

    async def visit() -> None:
        async with httpx.AsyncClient(base_url=f"{house.url}gradio_api/") as client:

            async def joins(number: int) -> None:
                asked = {"fn_index": number, "data": [None] * len(house.page.blocks.fns[number].inputs)}
                (await client.post("queue/join", json=asked | {"session_hash": "s"})).raise_for_status()

            (await client.get(house.url)).raise_for_status()
            await client.post("call/health", json={"data": []})
            await joins(watch)
            assert not came
            await joins(race)
            assert len(came) == 1
            for name in ("compare", "stream"):
                (await client.post(f"call/v2/{name}", json={"prompt": "One."})).raise_for_status()
            assert len(came) == 3
            assert (await client.post("call/v2/compare", json={"prompt": "One.", "nothing": 1})).status_code == 400
            assert len(came) == 3, "what is refused at the door waits for nobody"

    run_apart(visit())
