"""The baseline lane: plain autoregressive decoding, one token a forward pass. The whole algorithm is on this screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specdemo.decoding.clock import Clock
from specdemo.decoding.ending import Ending
from specdemo.decoding.faults import refuse_nan
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner, prefill
from specdemo.decoding.sampling import Sampler, Stream, argmax
from specdemo.decoding.steps import Origin, Step, Token, Why


@torch.inference_mode()
def autoregressive(
    runner: Runner, prompt_ids: Sequence[int], params: SamplingParams, ending: Ending, keep: int = 0
) -> Iterator[Step]:
    """Yield a Step for each token of the target's answer to a prompt; the last one says why the lane ended.

    keep: so many of the prompt's first tokens are in the cache from the run before, and are not run again.
    """
    clock = Clock(runner.device)
    clock.start()
    prompt = torch.tensor(prompt_ids, device=runner.device)
    sampler = Sampler(params, runner.vocab_size, runner.device, prompt)
    runner.begin(len(prompt_ids) + ending.left, keep)
    logits = prefill(runner, prompt[keep:]).logits
    why, reused = Why.PREFILL, keep
    while True:
        clock.lap("verify")
        ids, p, p_raw = draw_one(sampler, logits, position=runner.length)
        token, p, p_raw = torch.stack([ids[0].double(), p, p_raw]).tolist()  # the round's one synchronisation
        refuse_nan("target", p, p_raw)
        token = int(token)
        sampler.commit([token])
        _, stop = ending.cut([token])
        emitted = Token(token, Origin.TARGET, p=p, p_raw=p_raw)
        yield Step((emitted,), why=why, kv_length=runner.length, reused=reused, stop=stop, **clock.times())
        if stop:
            return
        clock.start()
        logits = runner.forward(ids, rows=1).logits
        why, reused = Why.PLAIN, 0


def draw_one(sampler: Sampler, logits: Tensor, position: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw the token [1] that stands at `position` from logits [1, vocab]; p [] as sampled, p_raw [] before that."""
    row = sampler.after(logits[0].float(), drafted=())
    warm = sampler.params.temperature > 0
    token = sampler.draw(row.p, Stream.TARGET, position, places=row.places) if warm else argmax(row.p)
    return token[None], row.p[token].double(), row.raw(token).double()
