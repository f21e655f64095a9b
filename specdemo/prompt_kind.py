"""What is a prompt like, and of which kind is it? From its text alone, for the lab's router and for the log.

The kinds are those of assets/prompts/tasks.json. The first whose words stand in the prompt is taken, and what asks for
nothing of them is chat: a rule that a reader can check, of which the tests say how often it is right.
"""

from __future__ import annotations

import re
from collections import Counter

RUN_OF_WORDS = 3  # that count as repeated where they stand more than once
CHAT = "chat"
LONG = 90  # words of a text that is pasted in
NUMBERS = 3  # of a sum in words


def features(text: str) -> dict[str, float]:
    """Code fences, the share of digits, how many words, the share of repeated runs of words."""
    words = re.findall(r"\w+", text.lower())
    runs = Counter(zip(*(words[i:] for i in range(RUN_OF_WORDS)), strict=False))
    repeated = sum(n for n in runs.values() if n > 1)
    return {
        "code fences": text.count("```"),
        "digits": sum(character.isdigit() for character in text) / max(len(text), 1),
        "words": len(words),
        "repeated runs": repeated / max(runs.total(), 1),
    }


_WORDS = {  # looked for in this order, in what is asked: the first lines, before a text that is pasted in
    "json/sql": r"\bjson\b|\bsql\b|sqlite|\byaml\b|\bquery\b|create table|查询",
    "code": r"```|\b(python|javascript|typescript|java|rust|bash|regex|pytest|code|script|function|class|debounce)\b"
    r"|代码|函数",
    "story": r"\b(story|stories|tale|fable|novel|poem|diary|scene)\b|故事|小说|一首",
    "summarise": r"\b(summari[sz]e|summary|sum up|boil|gist|main (points?|result|idea)|key points?|bullet points?|"
    r"quote the|in (one|two|three) (plain |short )?sentences?|what did i miss|shorten|minutes down)\b|总结|概括",
}
_SUM = r"\bhow (many|much|long|high|far|likely|old)\b|\b(per ?cent|equations?|probability|solve|calculate)\b|%|多少"


def kind_of(text: str) -> str:
    """One of tasks.json's kinds."""
    asked = text.strip().partition("\n\n")[0].lower()
    fenced = {"code"} if "```" in text else set()
    for kind, words in _WORDS.items():
        if kind in fenced or re.search(words, asked):
            return kind
    numbers = re.findall(r"\d[\d.,]*|\b(?:two|three|four|five|six|seven|eight|nine|ten)\b", text.lower())
    if re.search(_SUM, text.lower()) and len(numbers) >= NUMBERS:
        return "maths"
    return "summarise" if "\n\n" in text.strip() and features(text)["words"] > LONG else CHAT
