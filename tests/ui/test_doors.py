"""A hundred who come in one instant are let in one after another; whoever opens the page does not stand behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event

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
    turnstile = Turnstile(0.5, longest=1.75)

    async def come(many: int) -> None:
        for _ in range(many):
            await turnstile.enter()

    run_apart(come(6))
    assert clock.slept == [0.5, 1.0, 1.5, 1.75, 1.75], "who comes with a flood does not wait for all of it"
    clock.now += 2.25
    run_apart(come(1))
    assert len(clock.slept) == 5


@pytest.fixture
def house() -> Iterator[Served]:
    with served() as one:
        yield one


def test_runs_alone_go_through_it(house: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[Turnstile] = []

    async def enter(turnstile: Turnstile) -> bool:
        came.append(turnstile)
        return False

    monkeypatch.setattr(Turnstile, "enter", enter)
    (race,) = (n for n, fn in house.page.blocks.fns.items() if fn.name == "race")
    (lab,) = (n for n, fn in house.page.blocks.fns.items() if fn.name == "run")
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
            await joins(lab)
            assert len(came) == 2
            for name in ("compare", "stream"):
                (await client.post(f"call/v2/{name}", json={"prompt": "One."})).raise_for_status()
            assert len(came) == 4
            assert (await client.post("call/v2/compare", json={"prompt": "One.", "nothing": 1})).status_code == 400
            assert len(came) == 4, "what is refused at the door waits for nobody"

    run_apart(visit())


def test_who_has_left_while_waiting_to_be_let_in_begins_no_run(house: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, goes_on = Event(), Event()

    async def enter(turnstile: Turnstile) -> bool:
        waits.set()
        await asyncio.to_thread(goes_on.wait)
        return True

    monkeypatch.setattr(Turnstile, "enter", enter)
    queue = house.page.blocks._queue

    async def visit() -> None:
        async with httpx.AsyncClient(base_url=f"{house.url}gradio_api/") as client:
            for leaves in (True, False):
                waits.clear(), goes_on.clear()
                call = asyncio.create_task(client.post("call/v2/compare", json={"prompt": "One."}))
                await asyncio.to_thread(waits.wait)
                if leaves:
                    call.cancel()
                    await asyncio.wait([call])
                    await client.get("call/health/none")  # what was sent later is read later
                goes_on.set()
                if not leaves:
                    (await call).raise_for_status()
                    assert len(queue.event_ids_to_events) == 1, "the one who stayed"

    run_apart(visit())
