"""The speculative lane: draft, verify, commit. The whole algorithm is on this screen.

A drafter proposes up to γ tokens, the target judges them all in one forward pass, and what it accepts is followed by
one token of its own. The output is distributed exactly as the target's (Leviathan, Kalman, Matias 2023; Chen et al.
2023); under shared noise it is the very text that `autoregressive` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from specdemo.decoding.autoregressive import draw_one
from specdemo.decoding.clock import Clock
from specdemo.decoding.dice import Dice, JudgedDraft
from specdemo.decoding.drafter import Draft, Drafter
from specdemo.decoding.ending import Ending
from specdemo.decoding.faults import refuse_nan
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Fixed, Policy
from specdemo.decoding.runner import Runner, on_device, prefill
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Drafted, Origin, Rule, Step, Token, Verdict, Why

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
        judged = dice.judge(out.logits.float(), draft)
        accepted = judged.accepted
        tokens, drafted = _tell(judged, rule)
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


def _tell(judged: JudgedDraft, rule: Rule) -> tuple[list[Token], tuple[Drafted, ...]]:
    """The tokens that a judged draft emits, and every verdict. Raises where a model gave no numbers."""
    refuse_nan("target", *judged.p, *judged.raw)
    refuse_nan("draft", *judged.q)
    accepted, k, ids, ps, raws = judged.accepted, len(judged.drafts), judged.ids, judged.p, judged.raw
    tokens = [Token(ids[i], Origin.ACCEPTED, ps[i], judged.q[i], raws[i]) for i in range(accepted)]
    own = Origin.TARGET if not k else Origin.BONUS if accepted == k else Origin.CORRECTED
    tokens.append(Token(ids[accepted], own, ps[accepted], None, raws[accepted]))
    reached = k if rule is Rule.BLOCK else accepted + 1  # behind it nothing was judged
    weighed = [*list(zip(judged.drafted_p, judged.draws, strict=False))[:reached], *[(None, None)] * k]
    drafted = tuple(Drafted(judged.drafts[i], _verdict(i, accepted), judged.q[i], *weighed[i]) for i in range(k))
    return tokens, drafted


def _under_glass(step: Step, judged: JudgedDraft, cut: bool) -> Step:
    """The step with what a reader may ask for and no lane needs, read off the clock: every chance, and the residual.

    cut: the target's own token was cut off by an end.
    """
    if judged.source is None:
        return step
    if judged.chances is None:
        chances = [None if d.p is None else min(1.0, d.p / d.q) for d in step.drafted]
    else:
        chances = judged.chances.tolist()
    drafted = tuple(replace(d, chance=chance) for d, chance in zip(step.drafted, chances, strict=True))
    mass, top = judged.source.sum(), judged.source.topk(min(RESIDUAL_TOP, len(judged.source)))
    likeliest = zip(top.indices.tolist(), (top.values / mass).tolist(), strict=True)
    return replace(
        step,
        drafted=drafted,
        residual_top=() if cut else tuple((token, p) for token, p in likeliest if p > 0),
        residual_mass=mass.item() if step.judged > step.accepted else None,
    )


def _verdict(i: int, accepted: int) -> Verdict:
    return Verdict.ACCEPTED if i < accepted else Verdict.REFUSED if i == accepted else Verdict.UNREACHED
