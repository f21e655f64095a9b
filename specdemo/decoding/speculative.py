"""The speculative lane: draft, verify, commit. The whole algorithm is on this screen.

A drafter proposes up to γ tokens, the target judges them all in one forward pass, and what it accepts is followed by
one token of its own. The output is distributed exactly as the target's (Leviathan, Kalman, Matias 2023; Chen et al.
2023); under shared noise it is the very text that `autoregressive` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.autoregressive import draw_one
from specdemo.decoding.clock import Clock
from specdemo.decoding.drafter import Draft, Drafter
from specdemo.decoding.ending import Ending
from specdemo.decoding.faults import refuse_nan
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Fixed, Policy
from specdemo.decoding.runner import Runner, on_device, prefill
from specdemo.decoding.sampling import Sampler, Stream, race_winner
from specdemo.decoding.steps import Drafted, Origin, Rule, Step, Token, Verdict, Why
from specdemo.decoding.verification import Judgement

RESIDUAL_TOP = 5  # tokens of the residual that a step keeps


@torch.inference_mode()
def speculative(
    runner: Runner,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    rule: Rule,
    gamma: int | Policy,
    ending: Ending,
    keep: int = 0,
) -> Iterator[Step]:
    """Yield a Step for each forward pass of the target; the last one says why the lane ended.

    gamma: how many tokens each step drafts, or a policy that is asked before each, new for this run. keep: so many of
    the prompt's first tokens are in the caches from the run before, and are not run again.
    """
    policy = Fixed(gamma) if isinstance(gamma, int) else gamma
    clock = Clock(runner.device)
    clock.start()
    prompt = torch.tensor(prompt_ids, device=runner.device)
    sampler = Sampler(params, runner.vocab_size, runner.device, prompt)
    dice = Dice(sampler, rule, policy)
    runner.begin(len(prompt_ids) + ending.left, keep)
    out = prefill(runner, prompt[keep:], drafter.aux_layers)
    clock.lap("verify")
    last, p, p_raw = draw_one(sampler, out.logits, position=runner.length)
    first, p, p_raw = torch.stack([last[0].double(), p, p_raw]).tolist()
    refuse_nan("target", p, p_raw)
    sampler.commit([int(first)])
    _, stop = ending.cut([int(first)])
    if policy.drafts and not stop:
        clock.lap("other")
        drafter.begin(prompt, int(first), out.hidden, len(prompt_ids) + ending.left + 1, keep)
        clock.lap("draft")
    emitted = Token(int(first), Origin.TARGET, p=p, p_raw=p_raw)
    yield Step((emitted,), why=Why.PREFILL, kv_length=runner.length, reused=keep, stop=stop, **clock.times())

    while not stop:
        clock.start()
        length = runner.length
        asked = policy.next()
        wanted = min(asked, ending.left - 1)  # a draft never runs past the budget or the context
        dice.start(position=length + 1)
        draft = drafter.propose(wanted, dice) if wanted else Draft(last[:0])
        k = len(draft.ids)
        clock.lap("draft")
        aux_layers = drafter.aux_layers if policy.drafts else ()
        out = runner.forward(torch.cat([last, draft.ids]), rows=k + 1, aux_layers=aux_layers)
        clock.lap("verify")
        judged, tokens, drafted = _judge(dice, out.logits.float(), draft)
        accepted = len(tokens) - 1
        left, stop = ending.cut([token.id for token in tokens])
        ids = [token.id for token in tokens]
        runner.rewind(length + 1 + accepted)
        sampler.commit(ids)
        last = on_device(ids[-1:], runner.device)
        if policy.drafts and not stop:
            clock.lap("other")
            drafter.commit(ids, accepted, out.hidden)
            clock.lap("draft")
        short = Why.UNSURE if dice.unsure else Why.NO_MATCH
        why = Why.BUDGET if wanted < asked else policy.why if k == wanted else short
        step = Step(tuple(tokens[:left]), drafted, asked, why, runner.length, stop=stop, **clock.times())
        policy.learn(step)
        yield _under_glass(step, judged, cut=left <= accepted)


def _judge(dice: Dice, logits: Tensor, draft: Draft) -> tuple[Judgement, list[Token], tuple[Drafted, ...]]:
    """Judge a draft of k by the target's logits [k + 1, vocab]: the judgement, the emitted tokens, every verdict."""
    k = len(draft.ids)
    p = dice.sampler.target(logits, draft.ids)  # [k + 1, vocab]
    judged = dice.judge(p, draft)
    emitted = torch.cat([draft.ids, judged.token])  # [k + 1]; entry `accepted` is overwritten by the target's token
    emitted = torch.where(torch.arange(k + 1, device=emitted.device) == judged.accepted, judged.token, emitted)
    rows = torch.arange(k + 1, device=emitted.device)
    nothing = p.new_zeros(1)
    q = nothing.expand(k) + 1 if draft.q is None else draft.q if draft.q.dim() == 1 else draft.q[rows[:k], draft.ids]
    table = torch.stack(  # [7, k + 1] in float64, which holds every id exactly: the round's one synchronisation
        [
            emitted.double(),
            p[rows, emitted].double(),
            logits.softmax(-1)[rows, emitted].double(),
            torch.cat([draft.ids, nothing]).double(),
            torch.cat([q, nothing]).double(),
            torch.cat([p[rows[:k], draft.ids], nothing]).double(),
            torch.cat([judged.draws[0].double(), judged.accepted.double()]),
        ]
    ).tolist()
    ids, ps, raws, drafts, qs, drafted_ps, draws = table
    accepted = int(draws.pop())
    refuse_nan("target", *ps, *raws)
    refuse_nan("draft", *qs)
    tokens = [Token(int(ids[i]), Origin.ACCEPTED, ps[i], qs[i], raws[i]) for i in range(accepted)]
    own = Origin.TARGET if not k else Origin.BONUS if accepted == k else Origin.CORRECTED
    tokens.append(Token(int(ids[accepted]), own, ps[accepted], None, raws[accepted]))
    drafted = tuple(Drafted(int(drafts[i]), _verdict(i, accepted), qs[i], drafted_ps[i], draws[i]) for i in range(k))
    return judged, tokens, drafted


def _under_glass(step: Step, judged: Judgement, cut: bool) -> Step:
    """The step with what a reader may ask for and no lane needs, read off the clock: every chance, and the residual.

    cut: the target's own token was cut off by an end.
    """
    if judged.source is None:
        return step
    chances = [min(1.0, d.p / d.q) for d in step.drafted] if judged.chances is None else judged.chances[0].tolist()
    drafted = tuple(replace(d, chance=chance) for d, chance in zip(step.drafted, chances, strict=True))
    mass, top = judged.source[0].sum(), judged.source[0].topk(min(RESIDUAL_TOP, judged.source.shape[-1]))
    likeliest = zip(top.indices.tolist(), (top.values / mass).tolist(), strict=True)
    return replace(
        step,
        drafted=drafted,
        residual_top=() if cut else tuple((token, p) for token, p in likeliest if p > 0),
        residual_mass=mass.item() if step.judged > step.accepted else None,
    )


def _verdict(i: int, accepted: int) -> Verdict:
    return Verdict.ACCEPTED if i < accepted else Verdict.REFUSED if i == accepted else Verdict.UNREACHED


class Dice:
    """One lane's noise: what the drafter draws with, and what the rule judges with.

    Under shared noise both sides draw position t with the noise of t. Under the other rules every round has noise of
    its own, and draft, acceptance and residual never share a stream: that would bias the output.
    """

    def __init__(self, sampler: Sampler, rule: Rule, policy: Policy):
        self.sampler = sampler
        self.rule = rule
        self.shared = rule is Rule.SHARED_NOISE
        self.policy = policy
        self.unsure = False  # whether the policy ended this round's chain
        self._round = 0
        self.position = 0
        self._greedy = sampler.params.temperature == 0
        temperature = sampler.params.draft_temperature
        self.greedy_draft = temperature == 0 or (temperature is None and self._greedy)

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

    def __call__(self, logits: Tensor, drafted: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
        """The drafter's next token (see drafter.Draw)."""
        if self.policy.unsure(logits):  # before the token is drawn: it must not depend on its noise
            self.unsure = True
            return None
        q = self.sampler.draft(logits, drafted)
        stream, counter = self.noise_of(len(drafted))
        noise = 1 if self.greedy_draft else self.sampler.noise(stream, [counter], q[None])[0]
        token = race_winner(q, noise)
        return token, q.gather(0, token[None])[0] if self.shared else q

    @property
    def looks(self) -> bool:
        """Whether the policy looks at the drafter's logits, and so waits for the device once a drafted token."""
        return type(self.policy).unsure is not Policy.unsure

    def noise_of(self, i: int) -> tuple[Stream, int]:
        """Stream and counter of the noise that this round's drafted token i is drawn with."""
        return (Stream.TARGET, self.position + i) if self.shared else (Stream.DRAFT, self._round << 8 | i)

    def judge(self, p: Tensor, draft: Draft) -> Judgement:
        """The rule's judgement, B = 1, of a draft of k by p [k + 1, vocab]."""
        k = len(draft.ids)
        if self.shared or not k:
            positions = range(self.position, self.position + k + 1)
            noise = p.new_ones(1) if self._greedy else self.sampler.noise(Stream.TARGET, positions, p)
            return verification.shared_noise(p[None], draft.ids[None], noise[None])
        q = draft.q if draft.q is not None else torch.zeros_like(p[:k]).scatter_(-1, draft.ids[:, None], 1.0)
        uniforms = self.sampler.uniforms(Stream.ACCEPT, self._round, k)
        noise = (
            p.new_ones(1)
            if self._greedy
            else self.sampler.noise(Stream.RESIDUAL, [self._round], p.amax(0, keepdim=True))
        )
        rule = verification.rejection if self.rule is Rule.REJECTION else verification.block
        return rule(p[None], draft.ids[None], q[None], uniforms[None], noise)
