"""What noise does one lane throw, and how is a draft judged with it? The dice that drafter and rule share.

Under shared noise both sides draw position t with the noise of t. Under the other rules every round has noise of its
own, and draft, acceptance and residual never share a stream: that would bias the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.drafter import Draft, Pruned
from specdemo.decoding.policy import Policy
from specdemo.decoding.sampling import Row, Sampler, Stream, argmax, one_hot
from specdemo.decoding.steps import Rule
from specdemo.decoding.verification import Judgement, of


class Rows(NamedTuple):
    """Of the rows that a judgement came to: as many as it accepted and one, or all of k + 1.

    ids [n]: the token that stands there in the end. p, raw [n]: its chance as sampled from, and by the logits alone.
    drafted_p [n]: the chance, as sampled from, of what was drafted there; of the last row's own token behind k of them.
    """

    ids: Tensor
    p: Tensor
    raw: Tensor
    drafted_p: Tensor


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
        row = self.sampler.draft(logits, drafted, among)
        q, noise = row.p, self.noise_of(len(drafted))
        at = argmax(q) if self.greedy_draft else self.sampler.draw(q, *noise, among, row.places)
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

    def judge(self, logits: Tensor, draft: Draft) -> tuple[Judgement, Rows]:
        """The rule's judgement, B = 1, of a draft of k by logits [k + 1, vocab], and what the rows it came to say.

        A device judges all rows at once, since asking it whether one stands is a wait; a CPU row by row, and what is
        behind a refusal is never worked out. Block needs every row, and greedily all of them cost less than to begin
        with each.
        """
        if logits.device.type != "cpu" or self.rule is Rule.BLOCK:
            return self._at_once(logits, draft)
        return self._greedily(logits, draft) if self._greedy and self.shared else self._in_turn(logits, draft)

    def _greedily(self, logits: Tensor, draft: Draft) -> tuple[Judgement, Rows]:
        """Shared noise at temperature 0: what `_at_once` finds, of the rows alone that it comes to."""
        best = self.sampler.likeliest(logits, draft.ids)
        accepted = verification.leading((best[:-1] == draft.ids)[None])
        reached = int(accepted) + 1
        judged = Judgement(accepted, best[reached - 1 : reached], best[None, :-1][:, :reached])
        return judged, self._rows(one_hot(logits[:reached], best[:reached]), logits[:reached], draft, judged)

    def _in_turn(self, logits: Tensor, draft: Draft) -> tuple[Judgement, Rows]:
        """Shared noise and rejection as the papers have them: to the bit what `_at_once` finds."""
        drafted, rows, source = draft.ids.numpy().tolist(), [], None
        k, ids, draws = len(drafted), [], []
        uniforms = None if self.shared or not k else self.sampler.uniforms(Stream.ACCEPT, self._round, k)
        for i in range(k + 1):
            row = self.sampler.after(logits[i], draft.ids[:i])
            if uniforms is None:
                token = self.sampler.draw_here(row.p, Stream.TARGET, self.position + i, places=row.places)
                draws.append(token)
            else:
                token, source = self._accept_or_draw(row, draft, i, uniforms)
            rows.append(row)
            ids.append(token)
            if i == k or token != drafted[i] or source is not None:
                break
        accepted = len(ids) - 1
        drawn = torch.tensor(draws[:k], dtype=torch.int64) if uniforms is None else uniforms[: accepted + 1]
        judged = Judgement(
            torch.tensor([accepted]),
            torch.tensor(ids[-1:]),
            drawn[None],
            source=None if source is None else source[None],
        )
        return judged, _told(rows, ids, [*drafted, token])

    def _accept_or_draw(self, row: Row, draft: Draft, i: int, uniforms: Tensor) -> tuple[int, Tensor | None]:
        """The drafted token i where rejection accepts it, else what is drawn in its place, and what that came from."""
        source = p = row.p
        if i < len(draft.ids):
            drafted = draft.ids[i]
            q = None if draft.q is None else draft.q[i]  # None: the draft was certain
            if uniforms[i] * (1 if q is None else q[drafted]) < p[drafted]:
                return int(drafted), None
            source = verification.without(p, drafted) if q is None else verification.residual(p, q)
        return self.sampler.draw_here(source, Stream.RESIDUAL, self._round), source

    def _at_once(self, logits: Tensor, draft: Draft) -> tuple[Judgement, Rows]:
        """Every row, whether or not it is reached."""
        p, judged = self._all_rows(logits, draft)
        return judged, self._rows(p, logits, draft, judged)

    @staticmethod
    def _rows(p: Tensor, logits: Tensor, draft: Draft, judged: Judgement) -> Rows:
        """Of the n rows that p and logits [n, vocab] hold."""
        proposed = torch.cat([draft.ids, judged.token])[: len(p)]
        last = torch.arange(len(p), device=p.device) == judged.accepted
        ids = torch.where(last, judged.token, proposed)
        return Rows(ids, of(p, ids), of(logits.softmax(-1), ids), of(p, proposed))

    def _all_rows(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Judgement]:
        """p [k + 1, vocab], and the judgement by all of it."""
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


def _told(rows: Sequence[Row], ids: Sequence[int], proposed: Sequence[int]) -> Rows:
    """Of rows on a CPU, in each of which one of `ids` stands in the end and one of `proposed`, of which more may be."""
    p = [row.p.numpy() for row in rows]
    raws = [row.raw(token) for row, token in zip(rows, ids, strict=True)]
    chances = ([float(x[token]) for x, token in zip(p, tokens, strict=False)] for tokens in (ids, proposed))
    emitted, drafted = (torch.tensor(x) for x in chances)
    return Rows(torch.tensor(ids), emitted, torch.stack(raws), drafted)
