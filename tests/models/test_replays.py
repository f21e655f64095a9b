"""A pair is recorded where its device takes graphs; where that fails it runs without them, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specdemo.bench.random_head import random_head
from specdemo.decoding.capture import Calls, Work
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.kv import LayerKV
from specdemo.decoding.params import SamplingParams
from specdemo.drafters.captured import CapturedHead, CapturedModel
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models import replays
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.lean import lean_runner
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.progress import silent
from specdemo.models.replays import Lanes, replayed
from specdemo.race import Request
from specdemo.race import lanes as both
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama

MODEL = tiny_llama()
HEAD = random_head(MODEL.config, MODEL.get_input_embeddings().weight.detach(), 256, 500)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that records."""
    monkeypatch.setattr(replays, "capture_for", lambda device: Calls())
    monkeypatch.setattr(replays, "ROWS", range(1, 4))
    monkeypatch.setattr(replays, "MAX_GAMMA", 2)


def out_of_memory(work: Work) -> Work:
    raise torch.OutOfMemoryError("CUDA out of memory.\nSee the manual.")


def lanes(drafter: object = None) -> Lanes:
    return lean_runner(MODEL), lean_runner(MODEL), drafter or NgramDrafter(CPU)


def test_a_cpu_records_nothing_and_says_nothing() -> None:
    given = lanes()
    assert replayed(True, given, silent) == (given, "")


@pytest.mark.usefixtures("graphs")
def test_runners_and_drafters_are_recorded_and_left_empty() -> None:
    told: list[float] = []
    for drafter, kind in (
        (ModelDrafter(lean_runner(noised(MODEL, 0.03))), CapturedModel),
        (CombinedDrafter(NgramDrafter(CPU), HEAD), CapturedHead),
    ):
        (target, twin, made), said = replayed(True, lanes(drafter), lambda fraction, message: told.append(fraction))
        assert isinstance(target, CapturedRunner) and isinstance(twin, CapturedRunner)
        assert isinstance(made.model if isinstance(made, CombinedDrafter) else made, kind)
        assert said == "on, forwards and draws are recorded and replayed"
        assert target.length == twin.length == 0 and target.aux_layers == drafter.aux_layers
    assert min(told) == 0 and max(told) > 0.5


@pytest.mark.usefixtures("graphs")
def test_another_drafter_leaves_the_recordings_of_the_pair_before_alone() -> None:
    (target, twin, _), _ = replayed(True, lanes(), silent)
    (same, _, _), _ = replayed(True, (target, twin, NgramDrafter(CPU)), silent)
    assert same is target
    padded = EqualShapes(target, (3,))
    (other, _, _), _ = replayed(True, (padded, twin, HEAD), silent)
    assert isinstance(other, EqualShapes) and other.runner.aux_layers == HEAD.aux_layers
    assert other.runner.runner.kv is not target.runner.kv


def test_who_wants_none_gets_none_and_reads_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "capture_for", lambda device: Calls())
    given = lanes()
    assert replayed(False, given, silent) == (given, "off, as asked, every kernel is launched by itself")


@pytest.mark.usefixtures("graphs")
def test_what_is_not_lean_is_not_recorded_and_named() -> None:
    general = GeneralRunner(MODEL), GeneralRunner(MODEL), ModelDrafter(GeneralRunner(MODEL))
    made, said = replayed(True, general, silent)
    assert made == general
    assert said == "on, but not for the target's and the drafter's forward: only the lean one is recorded"


def test_a_pair_whose_recording_fails_runs_without_and_says_why(
    save_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "capture_for", lambda device: out_of_memory)
    told: list[str] = []
    folder = save_model("target", MODEL)
    spec = PairSpec(str(folder), device="cpu", target_precision="fp32")
    pair = load_pair(spec, lambda fraction, message: told.append(message))
    assert pair.facts["graphs"].startswith("off, because recording failed (CUDA out of memory.): every kernel")
    assert any("CUDA graphs are off, because recording failed" in message for message in told)
    assert not isinstance(pair.target, CapturedRunner)
    assert pair.target.length == 0


class Recorder:
    """Counts what it records, and may fail from some time on."""

    def __init__(self) -> None:
        self.recorded, self.fails = 0, False

    def __call__(self, work: Work) -> Work:
        if self.fails:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.recorded += 1
        return Calls()(work)


def recorded_pair(monkeypatch: pytest.MonkeyPatch, recorder: Recorder, drafter: object) -> SimpleNamespace:
    """As much of a Pair as lanes ask for, recorded for 64 tokens."""
    monkeypatch.setattr(replays, "capture_for", lambda device: recorder)
    monkeypatch.setattr(replays, "ROOM", 64)
    monkeypatch.setattr("specdemo.decoding.capture.SHORTEST_SPAN", 64)
    told: list[str] = []
    (target, twin, made), said = replayed(True, lanes(drafter), lambda fraction, message: told.append(message))
    loading = len(told)
    return SimpleNamespace(
        target=target,
        target_twin=twin,
        drafter=made,
        facts={"graphs": said},
        context=target.max_length,
        eos_ids=frozenset(),
        levels=None,
        calibration=None,
        told_since=lambda: told[loading:],
    )


def texts(pair: SimpleNamespace, request: Request) -> list[list[int]]:
    return [[token.id for step in lane for token in step.tokens] for lane in both(pair, request).values()]


DRAFTS = {
    "model": lambda: ModelDrafter(lean_runner(noised(MODEL, 0.03))),
    "head": lambda: CombinedDrafter(NgramDrafter(CPU), HEAD),
}
LONG = Request(prompt_ids=(1, 2, 3), params=SamplingParams(temperature=0.8, seed=3), gamma=2, max_new_tokens=430)


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("name", DRAFTS)
def test_what_a_run_needs_is_recorded_before_its_clocks_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More room than was recorded for, and a way of drawing that is new; who loaded the pair hears nothing of it."""
    recorder = Recorder()
    pair = recorded_pair(monkeypatch, recorder, DRAFTS[name]())
    before = recorder.recorded
    running = both(pair, LONG)
    ready = recorder.recorded
    assert ready > before
    wrote = [[token.id for step in lane for token in step.tokens] for lane in running.values()]
    assert recorder.recorded == ready and wrote[0] == wrote[1] and len(wrote[0]) == 430
    assert pair.told_since() == []
    texts(pair, LONG)
    assert recorder.recorded == ready, "the second time there is nothing to record"


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("name", DRAFTS)
def test_a_recording_that_fails_before_a_run_leaves_it_eager_and_is_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    right = texts(recorded_pair(monkeypatch, recorder, DRAFTS[name]()), LONG)
    pair = recorded_pair(monkeypatch, recorder, DRAFTS[name]())
    recorder.fails = True
    assert texts(pair, LONG) == right
    assert pair.facts["graphs"].startswith("off, because recording failed (CUDA out of memory.): every kernel")
    assert texts(pair, LONG) == right, "and the next run works"


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("reuse", [False, True])
def test_memory_that_is_short_while_caches_move_leaves_them_whole(
    name: str, reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs out in a layer in the middle; the run goes on eagerly, over caches that begin anew."""
    pair = recorded_pair(monkeypatch, Recorder(), DRAFTS[name]())
    first = replace(LONG, max_new_tokens=10)
    prompt = (*first.prompt_ids, *texts(pair, first)[0], 9)
    again = replace(LONG, prompt_ids=prompt, reuse=reuse)
    right = texts(recorded_pair(monkeypatch, Recorder(), DRAFTS[name]()), replace(again, reuse=False))
    reserve, calls = LayerKV.reserve, []

    def short(self: LayerKV, *args: object) -> None:
        calls.append(self)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        reserve(self, *args)

    monkeypatch.setattr(LayerKV, "reserve", short)
    assert texts(pair, again) == right
    assert len(calls) > 2 and pair.facts["graphs"].startswith("off, because recording failed")


@pytest.mark.usefixtures("graphs")
def test_another_drafter_records_again_where_recording_had_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    pair = recorded_pair(monkeypatch, recorder, NgramDrafter(CPU))
    recorder.fails = True
    right = texts(pair, LONG)
    beside = SimpleNamespace(**vars(pair) | {"facts": {"graphs": "on"}})
    assert texts(beside, LONG) == right and beside.facts["graphs"].startswith("off, because")
    recorder.fails = False
    (target, _, _), said = replayed(True, (pair.target, pair.target_twin, NgramDrafter(CPU)), silent)
    assert said.startswith("on,") and not target.stopped and target is not pair.target


@pytest.mark.usefixtures("graphs")
def test_padded_forwards_are_recorded_before_the_clocks_start_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The surplus rows take places: a text that just fits the room without them needs more with them."""
    recorder = Recorder()
    pair = recorded_pair(monkeypatch, recorder, NgramDrafter(CPU))
    pair.target, pair.target_twin = EqualShapes(pair.target, (3,)), EqualShapes(pair.target_twin, (3,))
    for tokens in range(372, 384):
        running = both(pair, replace(LONG, max_new_tokens=tokens))
        ready = recorder.recorded
        for lane in running.values():
            next(lane)
        assert recorder.recorded == ready
