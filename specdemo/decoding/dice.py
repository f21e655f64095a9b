"""What noise does one lane throw, and how is a draft judged with it? The dice that drafter and rule share.

Under shared noise both sides draw position t with the noise of t. Under the other rules every round has noise of its
own, and draft, acceptance and residual never share a stream: that would bias the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.drafter import Draft, Pruned
from specdemo.decoding.policy import Policy
from specdemo.decoding.runner import read_together
from specdemo.decoding.sampling import Sampler, Stream, argmax, one_hot
from specdemo.decoding.steps import Rule
from specdemo.decoding.verification import Judgement, chances_of


class JudgedDraft(NamedTuple):
    """One lane's `Judgement`, as numbers: of a draft of k, of whose k + 1 rows n were come to.

    accepted: drafted tokens accepted. ids [n]: what is emitted, and behind it, on a device, what was drafted; p, raw
    [n]: its chance as sampled from, and by the logits alone. drafts, q [k]: what was drafted, and its chance by the
    drafter; drafted_p [n or fewer]: by the target, as sampled from. draws [n or fewer], chances, source: see Judgement.
    """

    accepted: int
    ids: Sequence[int]
    p: Sequence[float]
    raw: Sequence[float]
    drafts: Sequence[int]
    q: Sequence[float]
    drafted_p: Sequence[float]
    draws: Sequence[float]
    chances: Tensor | None = None
    source: Tensor | None = None


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

    def judge(self, logits: Tensor, draft: Draft) -> JudgedDraft:
        """The rule's judgement of a draft of k by logits [k + 1, vocab].

        A device judges all rows at once, since asking it whether one stands is a wait; a CPU row by row, and what is
        behind a refusal is never worked out. Block needs every row, and greedily all of them cost less than to begin
        with each.
        """
        if logits.device.type != "cpu" or self.rule is Rule.BLOCK:
            return self._at_once(logits, draft)
        return self._greedily(logits, draft) if self._greedy and self.shared else self._in_turn(logits, draft)

    def _greedily(self, logits: Tensor, draft: Draft) -> JudgedDraft:
        """Shared noise at temperature 0: what `_at_once` finds, of the rows alone that it comes to."""
        best = self.sampler.likeliest(logits, draft.ids)
        accepted = verification.leading((best[:-1] == draft.ids)[None])
        reached = int(accepted) + 1
        judgement = Judgement(accepted, best[reached - 1 : reached], best[None, :-1][:, :reached])
        return _read(one_hot(logits[:reached], best[:reached]), logits[:reached], draft, judgement)

    def _in_turn(self, logits: Tensor, draft: Draft) -> JudgedDraft:
        """Shared noise and rejection as the papers have them: to the bit what `_at_once` finds."""
        drafts, q = draft.ids.tolist(), _drafted_q(draft).tolist()
        k, rows, ids, source = len(drafts), [], [], None
        targets_noise = self.shared or not k
        uniforms = [] if targets_noise else self.sampler.uniforms(Stream.ACCEPT, self._round, k).numpy()
        for i in range(k + 1):
            row = self.sampler.after(logits[i], draft.ids[:i])
            if targets_noise:
                token = self.sampler.draw_on_cpu(row.p, Stream.TARGET, self.position + i, places=row.places)
            elif i < k and uniforms[i] * np.float32(q[i]) < row.p.numpy()[drafts[i]]:
                token = drafts[i]
            else:
                source = row.p if i == k else _left(row.p, draft, i)
                token = self.sampler.draw_on_cpu(source, Stream.RESIDUAL, self._round)
            rows.append(row)
            ids.append(token)
            if i == k or source is not None or token != drafts[i]:
                break
        p = [row.p.numpy() for row in rows]
        return JudgedDraft(
            accepted=len(ids) - 1,
            ids=ids,
            p=[float(p[i][token]) for i, token in enumerate(ids)],
            raw=[float(row.raw(token)) for row, token in zip(rows, ids, strict=True)],
            drafts=drafts,
            q=q,
            drafted_p=[float(p[i][token]) for i, token in enumerate(drafts[: len(p)])],
            draws=[float(draw) for draw in (ids[:k] if targets_noise else uniforms[: len(ids)])],
            source=source,
        )

    def _at_once(self, logits: Tensor, draft: Draft) -> JudgedDraft:
        """Every row, whether or not it is reached."""
        k = len(draft.ids)
        p = self.sampler.target(logits, draft.ids)
        if self.shared or not k:
            positions = range(self.position, self.position + k + 1)
            noise = p.new_ones(1) if self._greedy else self.sampler.noise(Stream.TARGET, positions)
            return _read(p, logits, draft, verification.shared_noise(p[None], draft.ids[None], noise[None]))
        q = draft.q if draft.q is not None else torch.zeros_like(p[:k]).scatter_(-1, draft.ids[:, None], 1.0)
        uniforms = self.sampler.uniforms(Stream.ACCEPT, self._round, k)
        noise = p.new_ones(1) if self._greedy else self.sampler.noise(Stream.RESIDUAL, [self._round])
        rule = verification.rejection if self.rule is Rule.REJECTION else verification.block
        return _read(p, logits, draft, rule(p[None], draft.ids[None], q[None], uniforms[None], noise))


def _drafted_q(draft: Draft) -> Tensor:
    """The drafter's chance [k] of each token of a draft of k."""
    if draft.q is None:
        return torch.ones(len(draft.ids), device=draft.ids.device)
    return draft.q if draft.q.dim() == 1 else chances_of(draft.q, draft.ids)


def _left(p: Tensor, draft: Draft, i: int) -> Tensor:
    """What p [vocab] leaves to draw from, in place of the refused token i of a draft."""
    if draft.q is None:  # the draft was certain
        return verification.without(p, draft.ids[i])
    return verification.residual(p, draft.q[i])


def _read(p: Tensor, logits: Tensor, draft: Draft, judgement: Judgement) -> JudgedDraft:
    """The judgement as numbers, for one wait for the device; p and logits [n, vocab] are the rows that it came to."""
    last = torch.arange(len(p), device=p.device) == judgement.accepted
    ids = torch.where(last, judgement.token, torch.cat([draft.ids, judgement.token])[: len(p)])
    reached = draft.ids[: len(p)]
    raw = chances_of(logits.softmax(-1), ids)
    drafted_p, q = chances_of(p[: len(reached)], reached), _drafted_q(draft)
    (accepted,), emitted, drafts, *figures = read_together(
        judgement.accepted, ids, draft.ids, chances_of(p, ids), raw, q, drafted_p, judgement.draws
    )
    emitted, drafts = ([int(token) for token in some] for some in (emitted, drafts))
    chances, source = (None if one is None else one[0] for one in (judgement.chances, judgement.source))
    p_read, raw_read, *others = figures
    return JudgedDraft(int(accepted), emitted, p_read, raw_read, drafts, *others, chances, source)
