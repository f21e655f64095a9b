"""A tiny random chat model with a byte tokenizer: what the distill tests synthesise with, in no time."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.tiny import tiny_llama

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, two control tokens, a chat template: 258 ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=TEMPLATE, bos_token="<|im_start|>", eos_token="<|im_end|>"
    )


def tiny_target() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model over that tokenizer's ids. Its answers mean nothing, and seldom end by themselves."""
    return tiny_llama(vocab_size=258, seed=1), tiny_tokenizer()
