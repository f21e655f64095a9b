"""What does the engine reach on a GPU? `bench --gpu`: real shapes, random weights, nothing to download, some minutes.

Acceptance is simulated: the text is written beforehand, the target's and the draft's forwards really run, and then each
drafted token is replaced by the text's own with a chosen probability. What acceptance would be worth on this device is
measured so; what a pair's acceptance is, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from specdemo.bench.contest import GREEDY
from specdemo.bench.gpu_models import LLAMA_8B, QWEN_7B, QWEN_HALF_B, bytes_read, random_head_for, random_runner
from specdemo.bench.measure import Turn, Watcher, busy_of, take_turns
from specdemo.bench.results import Goal, Result
from specdemo.bench.sides import Sample, run_lane
from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.capture import Capture, CudaGraphs
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.clock import settle
from specdemo.decoding.drafter import Draft, Drafter, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.runner import Output, Runner, prefill
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.captured import CapturedHead, captured_model
from specdemo.models.ceilings import copy_bandwidth
from specdemo.theory import expected_tokens

STEPS = 16  # timed at once
NEW_TOKENS = 768  # enough rounds that chance moves what is accepted by a few percent only
CERTAIN = 1e4  # a logit that wins whatever the others are
CALIBRATED_AT = 0.5  # the acceptance of the run that the costs of a round are taken from
SECONDS = 400.0  # of measuring: with making and recording the models under eight minutes on any device that takes them
FREE = 40 << 30  # bytes that the larger pair takes, and some

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shapes:
    """A pair by its configurations; draft None is an EAGLE-3 head. alpha: the acceptance to simulate."""

    name: str
    target: PreTrainedConfig
    draft: PreTrainedConfig | None
    alpha: float


REAL = (
    Shapes("Qwen2.5-7B + 0.5B", QWEN_7B, QWEN_HALF_B, 0.8),
    Shapes("Llama-3.1-8B + EAGLE-3 head", LLAMA_8B, None, 0.7),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and for how long. capture: makes what records on a device."""

    device: torch.device
    dtype: torch.dtype = torch.bfloat16
    pairs: tuple[Shapes, ...] = REAL
    capture: Callable[[torch.device], Capture] = CudaGraphs
    prompt: int = 128
    new_tokens: int = NEW_TOKENS
    gamma: int = 5
    repeats: int = 5
    seconds: float = SECONDS


def measure(plan: Plan, watch: Watcher, tell: Tell = lambda line: None) -> list[Result]:
    """Every row, pair by pair; one pair at a time is in memory."""
    tell("copying memory")
    bandwidth = copy_bandwidth(plan.device)
    results: list[Result] = []
    time = _Time(plan.seconds, sum(4 if shapes.draft is not None else 2 for shapes in plan.pairs))
    for shapes in plan.pairs:
        tell(f"making {shapes.name}")
        stand = _Stand.make(plan, shapes, watch, tell, time)
        results += [_saying_how_few(result, plan.repeats) for result in stand.rows(bandwidth)]
        del stand
        if plan.device.type == "cuda":
            torch.cuda.empty_cache()
    return results


def _saying_how_few(result: Result, repeats: int) -> Result:
    n = len(result.values)
    return result if n == repeats else replace(result, notes=(*result.notes, f"{n} of {repeats} repeats, to save time"))


class _Time:
    """What is left of the seconds for measuring, shared out among the measurements that are left."""

    def __init__(self, seconds: float, measurements: int) -> None:
        self._left, self._measurements = seconds, measurements

    def share(self) -> float:
        """For the next measurement."""
        return self._left / max(1, self._measurements)

    def took(self, seconds: float) -> None:
        """It is done."""
        self._left, self._measurements = self._left - seconds, self._measurements - 1


@dataclass(frozen=True, slots=True)
class _Stand:
    """One pair, recorded. eager: the target and, of a model draft, the draft without recordings. script: the text."""

    plan: Plan
    shapes: Shapes
    watch: Watcher
    tell: Tell
    eager: dict[str, LeanRunner]
    recorded: dict[str, CapturedRunner]
    drafter: Drafter
    script: Tensor
    time: _Time

    @classmethod
    def make(cls, plan: Plan, shapes: Shapes, watch: Watcher, tell: Tell, time: _Time) -> _Stand:
        capture, room = plan.capture(plan.device), plan.prompt + plan.new_tokens + plan.gamma + 2
        vocabulary = min(config.vocab_size for config in (shapes.target, shapes.draft) if config is not None)
        eager = {"target": random_runner(shapes.target, plan.device, plan.dtype, vocabulary)}

        def recording(fraction: float | None, message: str) -> None:
            if not fraction:
                tell(message)

        if shapes.draft is None:
            head = random_head_for(shapes.target, eager["target"], room)
            drafter = CapturedHead.of(head, capture, plan.gamma, recording)
        else:
            eager["draft"] = random_runner(shapes.draft, plan.device, plan.dtype, vocabulary)
            drafter = captured_model(eager["draft"].twin(), capture, plan.gamma, recording)
        rows = range(1, plan.gamma + 2)
        target = CapturedRunner(eager["target"].twin(), capture, rows, drafter.aux_layers, recording)
        recorded = {"target": target} | ({"draft": drafter.runner} if shapes.draft is not None else {})
        for runner in (*eager.values(), *recorded.values()):
            runner.begin(room)
        script = torch.randint(vocabulary, (2 * room,), generator=torch.Generator().manual_seed(0)).to(plan.device)
        return cls(plan, shapes, watch, tell, eager, recorded, drafter, script, time)

    def rows(self, bandwidth: float) -> list[Result]:
        """What this pair tells."""
        rows = [self.plain_step(bandwidth)]
        if "draft" in self.eager:
            rows += [self.graphs_over_eager(), *self.outside()]
        return [*rows, self.speedup_over_prediction()]

    # --- Steps

    def plain_step(self, bandwidth: float) -> Result:
        """The share of the device's bandwidth at which a plain step reads its weights."""
        turns = self._turns({f"{n} rows": self._steps(self.recorded["target"], n) for n in (1, self.plan.gamma + 1)})
        read = bytes_read(self.shapes.target, self.plan.dtype)
        return Result(
            "m",
            f"{self.shapes.name}: a plain step's share of the bandwidth of a copy",
            tuple(read / turn.seconds["1 rows"] / bandwidth for turn in turns),
            Goal(at_least=0.75),
            unit="%",
            figures=_milliseconds(turns),
            notes=(
                f"{read / 2**30:.1f} GiB of weights a step, {bandwidth / 2**30:.0f} GiB/s read and written by a copy",
            ),
            busy=busy_of(turns),
        )

    def graphs_over_eager(self) -> Result:
        """The draft model's step without recordings over the same step replayed."""
        sides = {"eager": self.eager["draft"], "graphs": self.recorded["draft"]}
        turns = self._turns({name: self._steps(runner, 1) for name, runner in sides.items()})
        return Result(
            "x",
            f"{self.shapes.name}: the draft's step, eager over graphs",
            tuple(turn.seconds["eager"] / turn.seconds["graphs"] for turn in turns),
            Goal(at_least=3.0),
            figures=_milliseconds(turns),
            busy=busy_of(turns),
        )

    def _steps(self, runner: Runner, n: int) -> Callable[[], float]:
        """Seconds of a forward of n rows behind the prompt."""
        held = self.plan.prompt
        rows = self.script[held : held + n]

        def take() -> float:
            runner.begin(held + n)
            prefill(runner, self.script[:held])
            settle(self.plan.device)
            begun = perf_counter()
            for _ in range(STEPS):
                runner.forward(rows, n)
                runner.rewind(held)
            settle(self.plan.device)
            return (perf_counter() - begun) / STEPS

        return take

    # --- Lanes

    def outside(self) -> list[Result]:
        """The share of a lane's time that the device is in no forward."""
        meter = _Meter(self.plan.device)
        target = _Metered(Scripted(self.recorded["target"], self.script), meter)
        draft = self.drafter.runner
        lanes = {"baseline": partial(self._baseline, target), "speculative": partial(self._speculative, target)}
        shares: dict[str, list[float]] = {name: [] for name in lanes}

        def take(name: str) -> float:
            meter.clear()
            sample = lanes[name]()
            shares[name].append(1 - meter.seconds() / sample.whole_seconds)
            return sample.seconds

        self.drafter.runner = _Metered(draft, meter)
        try:
            turns = self._turns({name: partial(take, name) for name in lanes})
        finally:
            self.drafter.runner = draft
        return [
            Result(
                "o",
                f"{self.shapes.name}: outside the forwards, {name} lane",
                tuple(share[1:]),
                Goal(at_most=0.03),
                unit="%",
                busy=busy_of(turns),
            )
            for name, share in shares.items()
        ]

    def speedup_over_prediction(self) -> Result:
        """Measured speedup over the cost model's, whose costs a run with another acceptance gave."""
        gamma, alpha = self.plan.gamma, self.shapes.alpha
        target = Scripted(self.recorded["target"], self.script)
        samples: dict[str, list[Sample]] = {"baseline": [], "calibration": [], "speculative": []}
        runs = {
            "baseline": partial(self._baseline, target),
            "calibration": partial(self._speculative, target, CALIBRATED_AT),
            "speculative": partial(self._speculative, target),
        }

        def take(name: str) -> float:
            samples[name].append(runs[name]())
            return samples[name][-1].seconds

        turns = self._turns({name: partial(take, name) for name in runs})
        ratios, measured, predicted = [], [], []
        for baseline, calibration, speculative_run in zip(*(some[1:] for some in samples.values()), strict=True):
            plain = baseline.seconds / baseline.passes
            cost = calibration.seconds / calibration.passes / plain  # v + c γ + o
            predicted.append(expected_tokens(alpha, gamma) / cost)
            measured.append(speculative_run.decoded / speculative_run.seconds * baseline.seconds / baseline.decoded)
            ratios.append(measured[-1] / predicted[-1])
        written = {sample.ids for some in samples.values() for sample in some}
        wrong = written != {tuple(self.script[self.plan.prompt :][: self.plan.new_tokens].tolist())}
        drafted = samples["speculative"][-1].metrics
        return Result(
            "p",
            f"{self.shapes.name}: measured speedup over the predicted one, α {alpha:.1f}, γ {gamma}",
            tuple(ratios),
            Goal(at_least=0.9, at_most=1.1),
            figures={"measured": {"×": median(measured)}, "predicted": {"×": median(predicted)}},
            notes=(f"{drafted.accepted} of {drafted.drafted} drafted tokens accepted; acceptance is simulated",),
            faults=("a lane did not write the text that was laid down",) if wrong else (),
            busy=busy_of(turns),
        )

    def _baseline(self, target: Runner) -> Sample:
        prompt, ending = self._start()
        return run_lane(autoregressive(target, prompt, GREEDY, ending), self.plan.device)

    def _speculative(self, target: Runner, alpha: float | None = None) -> Sample:
        prompt, ending = self._start()
        drafter = Simulated(self.drafter, self.script, self.shapes.alpha if alpha is None else alpha)
        steps = speculative(target, drafter, prompt, GREEDY, Rule.SHARED_NOISE, self.plan.gamma, ending)
        return run_lane(steps, self.plan.device)

    def _start(self) -> tuple[list[int], Ending]:
        prompt = self.script[: self.plan.prompt].tolist()
        room = len(prompt) + self.plan.new_tokens
        return prompt, Ending(Limits(self.plan.new_tokens, room), len(prompt))

    def _turns(self, takes: dict[str, Callable[[], float]]) -> list[Turn]:
        begun = perf_counter()
        turns = take_turns(takes, self.plan.repeats, self.watch, self.tell, self.time.share())
        self.time.took(perf_counter() - begun)
        return turns


# --- Simulated acceptance ---------------------------------------------------------------------------------------------


class Scripted:
    """A runner whose text is written beforehand: its forwards really run, then the script's tokens win every row."""

    def __init__(self, runner: Runner, script: Tensor) -> None:
        self._runner, self._script = runner, script

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """The runner's own forward, with certain tokens."""
        out = self._runner.forward(ids, rows, aux_layers)
        end = self._runner.length + 1
        out.logits.scatter_(1, self._script[end - rows : end, None], CERTAIN)
        return out


class Simulated:
    """A drafter that really drafts; then each token is the script's own with probability alpha, and else another."""

    def __init__(self, drafter: Drafter, script: Tensor, alpha: float) -> None:
        self._drafter, self._script = drafter, script
        self._right = (torch.rand(len(script), generator=torch.Generator().manual_seed(1)) < alpha).to(script.device)
        self._length = 0  # of the text so far

    def __getattr__(self, name: str) -> object:
        return getattr(self._drafter, name)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """As without."""
        self._drafter.begin(prompt_ids, first, hidden, capacity, keep)
        self._length = len(prompt_ids) + 1

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """The drafter's own draft, then other tokens in their places."""
        draft = self._drafter.propose(gamma, draw)
        here = slice(self._length, self._length + len(draft.ids))
        own = self._script[here]
        return Draft(torch.where(self._right[here], own, own ^ 1), draft.q)

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """As without."""
        self._drafter.commit(tokens, accepted, hidden)
        self._length += len(tokens)


# --- Time in forwards -------------------------------------------------------------------------------------------------


class _Meter:
    """When the device was in forwards: events on a GPU, so that nobody waits for them; else the host's clock."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._spans: list[tuple[object, object]] = []

    def clear(self) -> None:
        self._spans = []

    def mark(self) -> object:
        if self._device.type != "cuda":
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, begun: object) -> None:
        self._spans.append((begun, self.mark()))

    def seconds(self) -> float:
        settle(self._device)
        if self._device.type != "cuda":
            return sum(end - begun for begun, end in self._spans)
        return sum(begun.elapsed_time(end) for begun, end in self._spans) / 1000


class _Metered:
    """A runner whose forwards are noted by a meter."""

    def __init__(self, runner: Runner, meter: _Meter) -> None:
        self._runner, self._meter = runner, meter

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        begun = self._meter.mark()
        out = self._runner.forward(ids, rows, aux_layers)
        self._meter.add(begun)
        return out


def _milliseconds(turns: Sequence[Turn]) -> dict[str, dict[str, float]]:
    names = turns[0].seconds
    return {name: {"ms a step": 1000 * median(turn.seconds[name] for turn in turns)} for name in names}
