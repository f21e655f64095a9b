"""What a draft-length policy is asked: how many tokens may the next step draft, and where does its chain end?

No policy moves the output. `next` is asked before any noise of its round is drawn and knows finished rounds only;
under every rule a round continues the text by the target's law whatever its length, and so do all of them together.
Under shared noise the text does not depend on drafts at all. What may end a chain early (`unsure`) sees the drafter's
logits for a token before that token is drawn: a function of the tokens drafted so far, and the rules judge each of
these by what comes before it. (A policy that saw a drafted token's own noise first would accept some tokens too often.)
"""

from __future__ import annotations

from torch import Tensor

from specdemo.decoding.steps import Step, Why


class Policy:
    """One run's draft lengths; another run takes another object, so that nothing leaks from one into the next. What
    does pass from run to run (draft_length.Levels) is an object of its own, handed in.

    why: of the last answer of `next`. drafts: False once no draft will be asked for again in this run, as from the
    start where γ is 0; the drafter is not kept up to date any more then.
    """

    why = Why.POLICY
    drafts = True

    def next(self) -> int:
        """Tokens that the next step drafts, 0 for a plain one; asked once a step."""
        raise NotImplementedError

    def learn(self, step: Step) -> None:
        """The step that came of it, its times included."""

    def unsure(self, logits: Tensor) -> bool:
        """Whether the drafter ends its chain before the token that it would draw from these logits [vocab].

        Only a policy that looks at them waits for the device, once a drafted token.
        """
        return False

    def goes_on(self) -> bool:
        """Whether the drafter runs one more draft step for this round's chain, to see what it would draw next."""
        return True

    def pays(self, alpha: float) -> bool:
        """Whether one more token of this round's chain is worth proposing: accepted, if all before it are, with this
        chance, as a drafter without a distribution of its own expects (a copy).
        """
        return True


class Fixed(Policy):
    """Always the same."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self.drafts = gamma > 0
        self.why = Why.POLICY if gamma else Why.PLAIN

    def next(self) -> int:
        return self.gamma
