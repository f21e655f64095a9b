"""May this draft model speak for this target? Settled on tokenizers and configurations, before anything heavy loads."""

from __future__ import annotations

from specdemo.models.errors import PairRefused
from specdemo.models.loading import Source
from specdemo.models.presets import drafts_for

# Two tokenizers of the same tokens may still cut a text in different places, and a draft that has learnt other cuts
# guesses badly: digits, spaces, line breaks, letters with accents, scripts without spaces, signs of several bytes.
PROBES = (
    "The quick brown fox doesn't jump over 12 lazy dogs, 3.14159 times!",
    "def f(x):\n    return {'a': [x, 1_000]}  # 0x1F\n\n\n\tdone",
    "  two  spaces,\ttabs\r\nand lines \n \n",
    "Čeština, naïve Ångström, ß, İstanbul; ΔΩ, привет, שלום",
    "投机解码很快。テスト、한국어 👩‍👩‍👧 ∑∞√ … —",
)


def shared_vocabulary(target: Source, draft: Source) -> int:
    """Width to which the logits of both are cut before softmax: the narrower of the two heads.

    Heads are padded to different widths within one family (Qwen2.5-7B 152064, 0.5B 151936, tokenizer 151665), and that
    is no obstacle: what is cut off stands for no token. Raises PairRefused at the first token that differs.
    """
    ours, theirs = _spellings(target), _spellings(draft)
    width = min(_width(target), _width(draft))
    for token_id in range(min(max(ours), max(theirs)) + 1):
        if ours.get(token_id) != theirs.get(token_id):
            raise PairRefused(
                f"{draft.title} cannot draft for {target.title}: token {token_id} is {_named(ours.get(token_id))} for "
                f"the target and {_named(theirs.get(token_id))} for the draft. {advice(target, draft)}"
            )
    special = {i for i, token in target.tokenizer.added_tokens_decoder.items() if token.special}
    for token_id in sorted(ours.keys() - _placeholders(target)):
        if token_id >= width or (token_id in special and token_id not in theirs):
            raise PairRefused(
                f"{draft.title} cannot draft for {target.title}: the draft has no token {token_id}, which is "
                f"{_named(ours[token_id])} for the target. {advice(target, draft)}"
            )
    for probe in PROBES:
        if _cut(target, probe) != _cut(draft, probe):
            at = next(i for i in range(len(probe) + 1) if _cut(target, probe[:i]) != _cut(draft, probe[:i]))
            raise PairRefused(
                f"{draft.title} cannot draft for {target.title}: the two cut {probe[:at]!r} into other tokens. "
                f"{advice(target, draft)}"
            )
    return width


def advice(target: Source, draft: Source) -> str:
    """What to take instead: drafts that are known to fit, lookup among them."""
    text = target.config.get_text_config(decoder=True)
    fitting = [one for one in drafts_for(target.title, text.model_type, text.vocab_size) if one != draft.title]
    if fitting:
        return f"These should fit: {', '.join(fitting)}; and n-gram lookup fits every target."
    return "Choose a draft of the target's own family, or n-gram lookup, which fits every target."


def _placeholders(source: Source) -> set[int]:
    """Ids that stand for parts of a picture or a sound in a prompt. Nobody writes them, so a draft may lack them.

    Gemma 3 has one behind the last row of its smallest model's head.
    """
    settings = source.config.to_dict()
    named = (settings.get(f"{kind}_token_{how}") for kind in ("image", "audio", "video") for how in ("id", "index"))
    return {i for i in named if isinstance(i, int)}


def _cut(source: Source, text: str) -> list[int]:
    return source.tokenizer.encode(text, add_special_tokens=False)


def _spellings(source: Source) -> dict[int, str]:
    return {token_id: token for token, token_id in source.tokenizer.get_vocab().items()}


def _width(source: Source) -> int:
    return source.config.get_text_config(decoder=True).vocab_size


def _named(token: str | None) -> str:
    return "no token" if token is None else repr(token)
