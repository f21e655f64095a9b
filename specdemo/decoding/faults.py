"""What can go wrong inside a decoder, as sentences."""

from __future__ import annotations

import math


class DecodingFault(RuntimeError):
    """A model gave something that cannot be decoded; the message is a sentence for a person."""


def refuse_nan(who: str, *values: float | None) -> None:
    """Raise DecodingFault if any of a model's probabilities is not a number."""
    if any(value is not None and math.isnan(value) for value in values):
        raise DecodingFault(
            f"The {who} model's output is not a number, so this lane stops here: its weights are broken or overflow "
            "in this precision. Try fp32 or bf16, or another model."
        )
