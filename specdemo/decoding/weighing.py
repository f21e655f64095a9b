"""What do draft-length policies share that weigh what drafts bring against what they cost?"""

from __future__ import annotations

from specdemo.decoding.pause import Pause
from specdemo.decoding.policy import Policy
from specdemo.decoding.round_costs import Calibration, Costs
from specdemo.decoding.steps import Step, Why


class Weighing(Policy):
    """Drafts as long as `paying` says; where that is 0, plain rounds with a few between them that probe (see Pause).

    calibration: what the pair's rounds take; None: nobody has measured.
    """

    def __init__(self, longest: int, calibration: Calibration | None = None) -> None:
        self.longest = longest
        self._costs, self._pause = Costs(longest, calibration), Pause()
        self._begin()

    def _begin(self) -> None:
        """A round."""
        self._draft_steps = 0  # beyond the one that the first token takes
        self._copied = False  # what is copied has taken no draft step

    def paying(self) -> int:
        """The draft length of a round that is expected to pay; 0: none is."""
        raise NotImplementedError

    def probing(self) -> int:
        """That of a round which looks whether it would."""
        raise NotImplementedError

    def next(self) -> int:
        self._begin()
        self.why = Why.POLICY
        length = self.paying()
        if length:
            self._pause.end()
            return length
        probes = self._pause.probes()
        self.why = Why.PROBE if probes else Why.DOES_NOT_PAY
        return self.probing() if probes else 0

    def goes_on(self) -> bool:
        """Always; the step is counted, for its cost."""
        self._draft_steps += 1
        return True

    def pays(self, alpha: float) -> bool:
        """Always; of a copy."""
        self._copied = True
        return True

    def learn(self, step: Step) -> None:
        self._costs.learn(step, self._draft_steps, self._copied)
