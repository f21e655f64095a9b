"""Tokenizers small enough to reason about: one byte-level, one as SentencePiece makes them."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast


def word_tokenizer(size: int, changed: dict[int, str] | None = None) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of `size` tokens: two special ones, then single characters, changed where said."""
    spellings = ["<s>", "</s>"] + [chr(0x100 + i) for i in range(2, size)]
    for index, spelling in (changed or {}).items():
        spellings[index] = spelling
    tokenizer = Tokenizer(BPE({spelling: i for i, spelling in enumerate(spellings)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(spelling, special=True, normalized=False) for spelling in spellings[:2]])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=spellings[0], eos_token=spellings[1])


def sentencepiece_tokenizer() -> PreTrainedTokenizerFast:
    """As Llama 2's: a space is a letter, the first one is dropped, and unknown characters are runs of byte tokens."""
    spellings = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    spellings += ["▁", "a", "b", "▁a", "▁b", "ab", "▁ab", "。", "é"]
    merges = [("▁", "a"), ("▁", "b"), ("a", "b"), ("▁a", "b")]
    vocabulary = {spelling: i for i, spelling in enumerate(spellings)}
    tokenizer = Tokenizer(BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
