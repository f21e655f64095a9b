"""Races on a GPU that is lent run by run: over a process that is really forked, and over the real `spaces` package."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

import app
from specdemo.models.errors import PairRefused
from specdemo.models.hub_token import HubToken
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.race import Lane, LaneStep, Request, RequestRefused, race
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.ui import zero_engine as zero
from specdemo.ui.desk import Desk
from specdemo.ui.engine import Engine
from specdemo.ui.runs import Run
from specdemo.ui.show import Show
from specdemo.ui.text import LANGUAGES, tell
from specdemo.ui.text.below import recognise
from specdemo.ui.visitors import PUBLIC
from specdemo.ui.worker import Began, Ended, Event, Order, Refused, Worker
from tests.models.tiny_tokenizers import word_tokenizer
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama
from tests.ui.forked import Forked
from tests.ui.synthetic import Synthetic

ROOT = Path(__file__).parents[2]
PROMPT = "Say something"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    """A tiny target and a draft that agrees with it sometimes."""
    target = tiny_llama(256)
    folders = []
    for name, model in (("target", target), ("draft", noised(target, 0.03))):
        folders.append(tmp_path_factory.mktemp("models") / name)
        model.save_pretrained(folders[-1])
        word_tokenizer(256).save_pretrained(folders[-1])
    return zero.zero_spec(PairSpec(str(folders[0]), str(folders[1]), target_precision="fp32", device="cpu"))


@pytest.fixture(scope="module")
def lent(spec: PairSpec) -> tuple[Forked, Engine]:
    """What lends, and the engine over it."""
    gpu = Forked()
    return gpu, zero.zero_engine(gpu, spec)


def events(engine: Engine, spec: PairSpec, **request: Any) -> list[Event]:
    """Everything that a run tells."""
    asked = Request((), **{"max_new_tokens": 24, **request})
    worker = Worker(Desk(engine, spec), Order(PROMPT, spec, asked)).start()
    seen: list[Event] = []
    while not (seen and isinstance(seen[-1], Ended | Refused)):
        seen += worker.drain(0.5)
    return seen


def ids(steps: list[Any]) -> dict[Lane, list[int]]:
    return {lane: [t.id for one in steps if one.lane is lane for t in one.step.tokens] for lane in Lane}


def test_a_run_in_another_process_writes_what_a_pair_of_ones_own_writes(
    lent: tuple[Forked, Engine], spec: PairSpec
) -> None:
    gpu, engine = lent
    seen = events(engine, spec)
    wrote = [event for event in seen if isinstance(event, Wrote)]
    assert seen[-1] == Ended(stopped=False) and gpu.ended == "done"
    first, began = [event for event in seen if isinstance(event, Began)]
    assert first.known == Known() and began.known.pair["target"] == "target", "measured there, told before a step"
    own = load_pair(spec)
    assert ids(wrote) == ids(list(race(own, began.request)))
    assert began.known.bits == own.bits_promised
    assert all(event.step.seconds > 0 for event in wrote) and any(event.step.accepted for event in wrote)
    show = Show(Run(RaceRecord(PROMPT, began.request)))
    show.take(seen)
    assert show.record.comparison.speedup and show.record.known is began.known


def test_a_run_asks_for_few_seconds_and_the_next_one_for_what_was_measured(spec: PairSpec) -> None:
    gpu = Forked()
    engine = zero.zero_engine(gpu, spec)
    pair = engine.load(spec, lambda *_: None, None)
    assumed = [pair.seconds(Request((), max_new_tokens=n)) for n in (1, 2000)]
    assert zero.START < assumed[0] < assumed[1] < zero.MOST
    events(engine, spec)
    assert len(pair.paces) == 1 and gpu.asked == [zero.START + 1 + zero.GRACE + 1]
    pair.paces[0] = 1.0
    assert pair.seconds(Request((), max_new_tokens=10)) == zero.START + zero.MARGIN * (10 + zero.WARM_UP)
    assert pair.seconds(Request((), max_new_tokens=100)) == zero.MOST
    ngram = engine.load(replace(spec, drafter="ngram"), lambda *_: None, None)
    assert ngram.paces is pair.paces and ngram.weights.loaded is pair.weights.loaded


def test_stop_closes_the_generator_in_the_other_process(lent: tuple[Forked, Engine], spec: PairSpec) -> None:
    gpu, engine = lent
    pair = engine.load(spec, lambda *_: None, None)
    steps = engine.race(pair, Request((5, 6, 7), max_new_tokens=400))
    while not isinstance(next(steps), Wrote):
        pass
    steps.close()
    assert gpu.ended == "closed" and not gpu.process.is_alive()
    assert isinstance(events(engine, spec)[-1], Ended), "and the next run works"


def test_where_the_texts_part_is_found_there(
    lent: tuple[Forked, Engine], spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parted(pair: Any, request: Request) -> Iterator[LaneStep]:
        for one in race(pair, request):
            token = one.step.tokens[0]
            other = replace(token, id=(token.id + 1) % 256) if one.lane is Lane.SPECULATIVE else token
            yield replace(one, step=replace(one.step, tokens=(other, *one.step.tokens[1:])))

    monkeypatch.setattr(zero, "race", parted)
    last = events(lent[1], spec)[-1]
    assert isinstance(last, Ended) and last.parting.index == 0
    assert events(lent[1], spec, params=replace(Request(()).params, temperature=1.0))[-1].parting is not None


def failing(error: Exception) -> Any:
    def race_then_fail(pair: Any, request: Request) -> Iterator[LaneStep]:
        yield from (one for one, _ in zip(race(pair, request), range(3), strict=False))
        if request.max_new_tokens > zero.WARM_UP:
            raise error

    return race_then_fail


def test_what_fails_there_is_told_here(
    lent: tuple[Forked, Engine], spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, engine = lent
    monkeypatch.setattr(zero, "race", failing(ArithmeticError("The GPU has fallen off the bus.")))
    assert events(engine, spec)[-1] == Refused("failed", {"message": "The GPU has fallen off the bus."})
    assert gpu.ended == "raised", "that process is not lent again"
    monkeypatch.setattr(zero, "race", failing(RequestRefused("The prompt is too long: shorten it.")))
    assert events(engine, spec)[-1] == Refused("refused", {"message": "The prompt is too long: shorten it."})
    assert gpu.ended in ("done", "closed"), "and this one may be"


def test_a_run_ends_itself_before_its_process_is_ended(
    lent: tuple[Forked, Engine], spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zero, "MOST", 0)
    seen = events(lent[1], spec)
    assert sum(isinstance(event, Wrote) for event in seen) == 1
    assert "the run did not end within them" in translated(seen[-1])


def test_a_process_that_is_killed_is_a_sentence(lent: tuple[Forked, Engine], spec: PairSpec) -> None:
    gpu, engine = lent
    pair = engine.load(spec, lambda *_: None, None)
    steps = engine.race(pair, Request((5, 6, 7), max_new_tokens=400))
    next(steps)
    os.kill(gpu.process.pid, signal.SIGKILL)
    with pytest.raises(RequestRefused, match="took the GPU back before the run had ended"):
        list(steps)


def translated(refused: Event) -> str:
    """Its English; the other languages say something else."""
    told = recognise(refused.params["message"])
    assert isinstance(told, tuple), told
    said = {language: tell(language, told) for language in LANGUAGES}
    assert len(set(said.values())) == len(said)
    return said["en"]


@pytest.mark.parametrize(
    ("title", "message", "ours"),
    [
        ("ZeroGPU quota exceeded", "You have 3s left. Try again in 1:00:00. ", "quota is used up. Sign in to hug"),
        ("ZeroGPU pending credits exceeded", "You have too many credits", "quota is used up"),
        ("ZeroGPU illegal duration", "The requested GPU duration (60s) is larger", "for as long as this run asks"),
        ("ZeroGPU queue timeout", "No GPU was available after 60s.", "No GPU of ZeroGPU was free"),
        ("ZeroGPU client error", "No GPU was available", "No GPU of ZeroGPU was free"),
        ("ZeroGPU client error", "Expired ZeroGPU proxy token", r"(Expired ZeroGPU proxy token): reload the page"),
        ("ZeroGPU worker error", "GPU task aborted", "took the GPU back"),
    ],
)
def test_what_zero_gpu_refuses_is_a_sentence_in_each_language(
    title: str, message: str, ours: str, spec: PairSpec, lent: tuple[Forked, Engine]
) -> None:
    gpu, engine = lent
    gpu.refuses = gr.Error(message, title=title)
    try:
        assert ours in translated(events(engine, spec)[-1])
    finally:
        gpu.refuses = None


def test_a_run_takes_what_was_placed_at_the_start(lent: tuple[Forked, Engine], spec: PairSpec) -> None:
    for other in (replace(spec, drafter="gpt2"), replace(spec, target_precision="fp16"), replace(spec, target="gpt2")):
        refused = events(lent[1], other)[-1]
        assert refused.key == "unloaded" and "with one of the drafters " in translated(refused)
    signed_in = replace(spec, hub_token=HubToken("hf_" + "a" * 34))
    assert lent[1].load(signed_in, lambda *_: None, None).weights.spec == spec, "which was opened by the host"
    for asked in (PairSpec(target_precision="int8"), PairSpec(draft_precision="int4")):
        with pytest.raises(PairRefused, match=r"no GPU yet on which to make weights int\d: take fp32, bf16, fp16"):
            zero.zero_spec(asked)
    taken = zero.zero_spec(PairSpec())
    assert (taken.target_precision, taken.graphs) == (zero.PRECISION, False)


def test_the_page_begins_with_what_was_placed(spec: PairSpec, capsys: pytest.CaptureFixture[str]) -> None:
    desk, *begin_with = app._lent(Forked(), spec, replace(PUBLIC, models=("ngram",)))
    assert begin_with == [spec.drafter, "same", "fp32", spec.target] and desk.rules.lab_rows == 0
    assert desk.engine.load(replace(spec, drafter="ngram"), lambda *_: None, None).weights.drafting is None
    assert "Loading target in fp32" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no GPU yet on which to make weights int8"):
        app._lent(Forked(), replace(spec, target_precision="int8"), PUBLIC)


def test_over_the_real_package_where_there_is_no_zero_gpu_it_runs_here_and_warms_up(
    spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = pytest.importorskip("spaces")
    asked = []

    def watched(pair: Any, request: Request) -> Iterator[LaneStep]:
        asked.append(request.max_new_tokens)
        yield from race(pair, request)

    monkeypatch.setattr(zero, "race", watched)
    engine = zero.zero_engine(spaces.GPU, spec)
    assert events(engine, spec)[-1] == Ended(stopped=False)
    assert asked == [zero.WARM_UP, 24]
    assert engine.facts(engine.load(spec, lambda *_: None, None))[-1] == ("zero.lent", {})
    steps = engine.race(engine.load(spec, lambda *_: None, None), Request((5, 6), max_new_tokens=400))
    while not isinstance(next(steps), Wrote):
        pass
    steps.close()


def test_a_run_has_its_visitors_context() -> None:
    whose = contextvars.ContextVar("whose")
    seen = []
    script = Synthetic()
    engine = script.engine()
    whose.set("Ann")

    def looking(pair: Any, request: Request) -> Iterator[Any]:
        seen.append(whose.get(None))
        yield from engine.race(pair, request)

    events(replace(engine, race=looking), ("ngram", "same"))
    assert seen == ["Ann"]


def test_only_a_zero_gpu_space_lends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert zero.lender() is None
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", None)
    with pytest.raises(SystemExit, match="its package `spaces` cannot be imported"):
        zero.lender()


def test_over_the_real_package_as_on_zero_gpu(spec: PairSpec, tmp_path: Path) -> None:
    pytest.importorskip("spaces")
    command = [sys.executable, "-m", "tests.ui.zero_gpu_space", spec.target, spec.drafter, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all as it should be"
