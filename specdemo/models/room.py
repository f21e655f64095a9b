"""Is there room for this pair on this device? Asked before any weights are read; if not, what would fit is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedConfig

from specdemo.models.errors import MemoryShort
from specdemo.models.memory import (
    CLOSE,
    Need,
    free_bytes,
    gigabytes,
    head_part,
    need,
    part,
)
from specdemo.models.pair_options import USUAL_GAMMA, USUAL_TOKENS
from specdemo.models.precision import Precision, compute_dtype, stored_quantisation
from specdemo.models.presets import PRESETS

Drafting = PreTrainedConfig | Mapping[str, Any] | None
"""What drafts: a model's configuration, a head's config.json, or nothing that takes memory."""


def pair_need(
    target: PreTrainedConfig,
    draft: Drafting,
    precision: Precision,
    device: torch.device,
    draft_precision: Precision | None = None,
    double: bool = False,
    tokens: int = USUAL_TOKENS,
    gamma: int = USUAL_GAMMA,
) -> Need:
    """What a pair takes in these precisions, in a race of so many tokens and drafts of so many."""
    whole = part(target, precision, device, double)
    if isinstance(draft, Mapping):
        text = target.get_text_config(decoder=True)
        small = head_part(draft, text, compute_dtype(precision, device))
    else:
        small = draft and part(draft, draft_precision or precision, device, double)
    return need(whole, small, device, tokens, gamma)


def refuse_where_short(
    title: str,
    target: PreTrainedConfig,
    draft: Drafting,
    precision: Precision,
    device: torch.device,
    draft_precision: Precision | None = None,
    double: bool = False,
    loaded: bool = False,
) -> dict[str, str]:
    """What is needed and free, and how the caches grow, in words. Raises MemoryShort where less is free.

    loaded: the target is there already; only what drafts needs room.
    """
    wanted, free = pair_need(target, draft, precision, device, draft_precision, double), free_bytes(device)
    most = wanted.draft + wanted.draft_cache if loaded else wanted.peak
    if most <= free:
        taken = f"{gigabytes(most)} of {gigabytes(free)}"
        narrow = {"narrow": taken} if most > CLOSE * free else {}
        return narrow | {
            "memory": f"about {taken} free ({wanted}){': it fits narrowly' if narrow else ''}",
            "caches": gigabytes(wanted.caches + wanted.draft_cache),
            "caches, each token": gigabytes(wanted.per_token),
        }
    raise MemoryShort(
        f"{title} needs about {gigabytes(most)} on {device} ({wanted}), and {gigabytes(free)} are free.",
        _what_fits(target, draft, precision, device, double, free),
    )


def _what_fits(
    target: PreTrainedConfig, draft: Drafting, precision: Precision, device: torch.device, double: bool, free: int
) -> str:
    """The same pair in fewer bits, else the target with lookup, else the presets that fit."""
    fewer_bits = {Precision.INT8: [Precision.INT4], Precision.INT4: []}
    smaller = [] if stored_quantisation(target) else fewer_bits.get(precision, [Precision.INT8, Precision.INT4])
    for drafting, how in ((draft, "both in {}"), (None, "the target in {} with n-gram lookup")):
        for fewer in smaller:
            peak = pair_need(target, drafting, fewer, device, None, double).peak
            if peak <= free:
                return f"This would fit: {how.format(fewer)} (about {gigabytes(peak)})."
    fitting = [name for name, preset in PRESETS.items() if preset.memory * 2**30 <= free]
    if fitting:
        return f"Nothing of it fits in fewer bits either; these presets do: {', '.join(fitting)}."
    return "Nothing of it fits in fewer bits either: take a smaller target, or free some memory and try again."
