"""What noise does one lane throw, and how is a draft judged with it? The dice that drafter and rule share.

Under shared noise both sides draw position t with the noise of t. Under the other rules every round has noise of its
own, and draft, acceptance and residual never share a stream: that would bias the output.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.drafter import Draft, Pruned
from specdemo.decoding.policy import Policy
from specdemo.decoding.sampling import Sampler, Stream, argmax, one_hot
from specdemo.decoding.steps import Rule
from specdemo.decoding.verification import Judgement


class Dice:
    """One lane's: what its drafter draws with (see drafter.Draw), and what the rule judges with."""

    def __init__(self, sampler: Sampler, rule: Rule, policy: Policy):
        self.sampler = sampler
        self.rule = rule
        self.shared = rule is Rule.SHARED_NOISE
        self.policy = policy
        self.unsure = False  # whether the policy ended this round's chain
        self._round = 0
        self.position = 0
        self._greedy = sampler.params.temperature == 0
        self.greedy_draft = sampler.params.drafting == 0

    def start(self, position: int) -> None:
        """A round begins; its first drafted token would stand at `position`."""
        self._round += 1
        self.position = position
        self.unsure = False

    def goes_on(self) -> bool:
        """Whether the chain's next draft step is worth running (see Policy.goes_on)."""
        goes_on = self.policy.goes_on()
        self.unsure |= not goes_on
        return goes_on

    def pays(self, alpha: float) -> bool:
        """Whether a token more of the chain, with this chance, is worth proposing (see Policy.pays)."""
        pays = self.policy.pays(alpha)
        self.unsure |= not pays
        return pays

    def __call__(
        self, logits: Tensor, drafted: Sequence[Tensor], among: Pruned | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The drafter's next token (see drafter.Draw)."""
        if self.policy.unsure(logits):  # before the token is drawn: it must not depend on its noise
            self.unsure = True
            return None
        q = self.sampler.draft(logits, drafted, among)
        at = argmax(q) if self.greedy_draft else self.sampler.draw(q, *self.noise_of(len(drafted)), among)
        token = at if among is None else among.ids[at]
        if self.shared:
            return token, q[at]
        return token, q if among is None else among.spread(q)

    @property
    def looks(self) -> bool:
        """Whether the policy looks at the drafter's logits, and so waits for the device once a drafted token."""
        return type(self.policy).unsure is not Policy.unsure

    def noise_of(self, i: int) -> tuple[Stream, int]:
        """Stream and counter of the noise that this round's drafted token i is drawn with."""
        return (Stream.TARGET, self.position + i) if self.shared else (Stream.DRAFT, self._round << 8 | i)

    def judge(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Judgement]:
        """The rule's judgement, B = 1, of a draft of k by logits [k + 1, vocab]; p [n, vocab] of the rows it came to.

        A device judges all rows at once, since asking it whether one stands is a wait; a CPU row by row, and what is
        behind a refusal is never worked out. Block needs every row, and greedily all of them cost less than to begin
        with each.
        """
        if logits.device.type != "cpu" or self.rule is Rule.BLOCK:
            return self._at_once(logits, draft)
        return self._greedily(logits, draft) if self._greedy and self.shared else self._in_turn(logits, draft)

    def _greedily(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Judgement]:
        """Shared noise at temperature 0: what `_at_once` finds, p of the rows that it comes to alone."""
        best = self.sampler.likeliest(logits, draft.ids)
        accepted = verification.leading((best[:-1] == draft.ids)[None])
        reached = int(accepted) + 1
        judged = Judgement(accepted, best[reached - 1 : reached], best[None, :-1][:, :reached])
        return one_hot(logits[:reached], best[:reached]), judged

    def _in_turn(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Judgement]:
        """Shared noise and rejection as the papers have them: to the bit what `_at_once` finds."""
        k, rows, draws = len(draft.ids), [], []
        uniforms = None if self.shared or not k else self.sampler.uniforms(Stream.ACCEPT, self._round, k)
        source = None
        for i, drafted in enumerate([*draft.ids, None]):
            p = self.sampler.after(logits[i], draft.ids[:i])
            rows.append(p)
            if uniforms is None:
                token = self.sampler.draw(p, Stream.TARGET, self.position + i)
                draws += [] if drafted is None else [token]
                if token != drafted:
                    break
                continue
            source = p
            if drafted is not None:
                draws.append(uniforms[i])
                q = None if draft.q is None else draft.q[i]  # None: the draft was certain
                if uniforms[i] * (1 if q is None else q[drafted]) < p[drafted]:
                    continue
                source = verification.without(p, drafted) if q is None else verification.residual(p, q)
            token = self.sampler.draw(source, Stream.RESIDUAL, self._round)
            break
        accepted = torch.tensor([len(rows) - 1])
        drawn = torch.stack(draws) if draws else torch.empty(0)
        judged = Judgement(accepted, token[None], drawn[None], source=None if source is None else source[None])
        return torch.stack(rows), judged

    def _at_once(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Judgement]:
        """Every row, whether or not it is reached."""
        k = len(draft.ids)
        p = self.sampler.target(logits, draft.ids)
        if self.shared or not k:
            positions = range(self.position, self.position + k + 1)
            noise = p.new_ones(1) if self._greedy else self.sampler.noise(Stream.TARGET, positions)
            return p, verification.shared_noise(p[None], draft.ids[None], noise[None])
        q = draft.q if draft.q is not None else torch.zeros_like(p[:k]).scatter_(-1, draft.ids[:, None], 1.0)
        uniforms = self.sampler.uniforms(Stream.ACCEPT, self._round, k)
        noise = p.new_ones(1) if self._greedy else self.sampler.noise(Stream.RESIDUAL, [self._round])
        rule = verification.rejection if self.rule is Rule.REJECTION else verification.block
        return p, rule(p[None], draft.ids[None], q[None], uniforms[None], noise)
