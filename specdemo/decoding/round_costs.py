"""What does a round of each draft length cost? As measured when the pair was loaded, and as this very run goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from specdemo.decoding.steps import Step


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds of one pair's rounds on its device.

    verify: of verifying so many drafted tokens, none included, with all that is neither draft nor verification.
    idle: of the drafter in a round that drafts nothing; first: in one that drafts a single token; step: of each
    further token.
    """

    verify: Mapping[int, float]
    idle: float
    first: float
    step: float

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Calibration | None:
        """From rounds of several draft lengths; None where there was none without a draft, or none with one."""
        verify: dict[int, list[float]] = {}
        draft: dict[int, list[float]] = {}
        for step in steps:
            verify.setdefault(len(step.drafted), []).append(step.verify_seconds + step.other_seconds)
            draft.setdefault(len(step.drafted), []).append(step.draft_seconds)
        if 0 not in draft or len(draft) < 2:
            return None
        taken = {k: median_low(times) for k, times in draft.items()}
        longer = sorted(taken.keys() - {0})
        slopes = [(taken[high] - taken[low]) / (high - low) for low, high in pairwise(longer)]
        step = max(0.0, median_low(slopes)) if slopes else max(0.0, taken[longer[0]] - taken[0]) / longer[0]
        first = max(0.0, taken[longer[0]] - step * (longer[0] - 1))
        return cls({k: median_low(times) for k, times in verify.items()}, taken[0], first, step)

    @property
    def drafted_token(self) -> float:
        """Of a draft of four, in plain steps: c."""
        return (self.first + 3 * self.step) / 4 / self.verify[0]


def _interpolated(known: Mapping[int, float], longest: int) -> list[float]:
    """Values for 0 .. longest from those known at some of them: straight between two, level beyond the outermost."""
    at = sorted(known)
    values = []
    for k in range(longest + 1):
        low = max((one for one in at if one <= k), default=at[0])
        high = min((one for one in at if one >= k), default=at[-1])
        part = (k - low) / (high - low) if high > low else 0.0
        values.append(known[low] + (known[high] - known[low]) * part)
    return values


def _never_falling(costs: Sequence[float]) -> list[float]:
    """A shorter one never costs more."""
    rising = list(costs)
    for k in reversed(range(len(rising) - 1)):
        rising[k] = min(rising[k], rising[k + 1])
    return rising


ASSUMED = Calibration({0: 1.0, 16: 1.5}, idle=0.0, first=0.05, step=0.05)  # in plain rounds, where nobody could measure


class Costs:
    """What this run's rounds cost by the tokens that they draft, in seconds as they were when the pair was calibrated.

    The machine has slow and fast minutes, which meet all lengths alike: a pace, by which every time is divided first,
    so that a length that was tried long ago is not believed dear for it. Each length's own times then correct what the
    calibration says of it, and so do the drafter's. All are medians of the last times. What every length that is tried
    has in common is taken for the pace: a run that stays with one length corrects nothing.
    """

    TRUST = 3  # times that the calibration stands for
    MEMORY, PACE = 9, 15  # last times that count: of a length, of all

    def __init__(self, longest: int, calibration: Calibration | None = None) -> None:
        known = calibration or ASSUMED
        self.longest = longest
        self._calibrated = _never_falling(_interpolated(known.verify, longest))
        self._pace: deque[float] = deque(maxlen=self.PACE)
        self._verify, self._verification = [self._from(one) for one in self._calibrated], self._calibrated
        self._idle, self._first, self._step = (self._from(one) for one in (known.idle, known.first, known.step))

    def _from(self, calibrated: float) -> deque[float]:
        return deque([calibrated] * self.TRUST, maxlen=self.MEMORY)

    @property
    def pace(self) -> float:
        """Seconds of now in one of the calibration's."""
        return median_low(self._pace) if self._pace else 1.0

    @property
    def verification(self) -> list[float]:
        """Of 0 .. longest drafted tokens, with all that is neither draft nor verification."""
        return self._verification

    @property
    def draft_step(self) -> float:
        """Of one more step of the drafter."""
        return median_low(self._step)

    def rounds(self) -> list[float]:
        """Of whole rounds that draft 0 .. longest tokens; the first is a plain one."""
        plain, *verify = self._verification
        first, step = median_low(self._first), self.draft_step
        return [plain + median_low(self._idle), *(v + first + step * i for i, v in enumerate(verify))]

    def learn(self, step: Step, draft_steps: int = 0, copied: bool = False) -> None:
        """A round. draft_steps: the drafter's, beyond the one that the first token takes. copied: it took none."""
        k, seconds = len(step.drafted), step.verify_seconds + step.other_seconds
        self._pace.append(seconds / self._calibrated[k])
        self._verify[k].append(seconds / self.pace)
        self._verification = _never_falling([median_low(times) for times in self._verify])
        draft = step.draft_seconds / self.pace
        if not step.gamma:
            self._idle.append(draft)
        elif draft_steps:
            self._step.append(max(draft - median_low(self._first), 0.0) / draft_steps)
        elif not copied:
            self._first.append(draft)
