"""Which of transformers' auto classes loads a configuration as a model that continues a text?

Those that see pictures, too, are known by another name where transformers gives them no class for text alone; asked
without a picture they are causal language models, and whether they run over a cache of ours is computed at load.
"""

from __future__ import annotations

from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedConfig

AutoClass = type[AutoModelForCausalLM] | type[AutoModelForImageTextToText]


def auto_class(config: PreTrainedConfig) -> AutoClass | None:
    """None where the configuration is of no such model."""
    known = (AutoModelForCausalLM, AutoModelForImageTextToText)
    return next((auto for auto in known if type(config) in auto._model_mapping), None)
