"""How is a file of prompts read? A person's own lines, and Spec-Bench's and MT-Bench's questions as they are.

A `.jsonl` file has a prompt a line: {"prompt": "...", "kind": "..."}, the kind as one likes, or {"question_id",
"category", "turns"} as those two benchmarks have it, of which the first turn is asked. Any other file is JSON:
{"kind": [{"text": "..."}]}. A "reference" beside a prompt is an answer that others are compared with.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from specdemo.lab.experiment import LabRefused

LINES = ".jsonl"
ANY = "any"  # the kind of a prompt of which none is told


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """A prompt of a kind. name: its number among the prompts of its kind, from 1, or what its file calls it.

    reference: an answer to compare with, where the file has one.
    """

    kind: str
    name: str
    text: str
    reference: str = ""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """What a file of that name held. It stands in a result's options as it is, so that the result needs no file."""

    name: str
    prompts: tuple[TaskPrompt, ...]

    @classmethod
    def of(cls, kept: Any) -> PromptSet:
        """From a result's options; raises LabRefused for what no file of prompts comes to."""
        try:
            made = cls(kept["name"], tuple(TaskPrompt(**one) for one in kept["prompts"]))
        except (TypeError, KeyError):
            made = cls("", ())
        said = [made.name, *(part for prompt in made.prompts for part in astuple(prompt))]
        if not made.prompts or not all(isinstance(text, str) for text in said):
            raise LabRefused("The file's prompts are not as a result keeps them.")
        for prompt in made.prompts:
            _refuse_halves(prompt)
        _refuse_twice(made.prompts, made.name)
        return made

    @property
    def key(self) -> str:
        """The same for the same prompts from a file of the same name."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:32]


def read_set(path: str) -> PromptSet:
    """The prompts of the file at a path that was typed; raises LabRefused."""
    return PromptSet(Path(path).name, tuple(read_prompts(Path(path))))


def read_prompts(path: Path) -> list[TaskPrompt]:
    """Every prompt of a file; raises LabRefused with the line and the key."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise LabRefused(f"{path} holds no prompts: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise LabRefused(f"{path} holds no prompts: it is not text in UTF-8. Save it as such.") from None
    return parse_prompts(text, str(path))


def parse_prompts(text: str, name: str) -> list[TaskPrompt]:
    """Every prompt in the text of a file of that name; raises LabRefused with the line and the key."""
    text = text.removeprefix("\ufeff")  # as some editors begin a file
    prompts = _lines(name, text) if name.endswith(LINES) else _kinds(name, text)
    if not prompts:
        raise LabRefused(f"{name} holds no prompts: it is empty. Write one a line, with the key `prompt`.")
    _refuse_twice(prompts, name)
    return prompts


def _refuse_twice(prompts: Sequence[TaskPrompt], name: str) -> None:
    twice = [one for one, n in Counter((prompt.kind, prompt.name) for prompt in prompts).items() if n > 1]
    if twice:
        raise LabRefused(
            f"{name}: two prompts of the kind {twice[0][0]!r} are called {twice[0][1]!r}. Call one by another "
            "`question_id`."
        )


def _kinds(name: str, text: str) -> list[TaskPrompt]:
    try:
        kinds = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LabRefused(f"{name} holds no prompts: it is not JSON ({error}). A file of lines is .jsonl.") from None
    if not isinstance(kinds, dict) or not all(isinstance(entries, list) for entries in kinds.values()):
        raise LabRefused(
            f"{name} holds no prompts. It should be JSON, a list of objects with the key `text` for each kind."
        )
    prompts = []
    for kind, entries in kinds.items():
        if not entries:
            raise LabRefused(f"{name} holds no prompts of the kind {kind!r}. Write one, or take the kind out.")
        for n, entry in enumerate(entries, 1):
            prompts.append(_at(f"{name}, {kind!r}, number {n}", _listed, kind, str(n), entry))
    return prompts


def _lines(name: str, text: str) -> list[TaskPrompt]:
    prompts, numbers = [], Counter()
    for number, line in enumerate(text.split("\n"), 1):  # JSON may hold what other splitters take for an end of line
        if line.strip():
            prompts.append(_at(f"{name}, line {number}", _line, line, numbers))
    return prompts


def _at(where: str, make: Callable[..., TaskPrompt], *of: Any) -> TaskPrompt:
    """A prompt, or what is wrong with it behind its place."""
    try:
        prompt = make(*of)
        _refuse_halves(prompt)
    except LabRefused as error:
        placed = f"{where}: {error}"
        raise LabRefused(placed) from None
    return prompt


def _listed(kind: str, name: str, entry: Any) -> TaskPrompt:
    return TaskPrompt(kind, name, _text(entry, "text"), _reference(entry))


def _line(line: str, numbers: Counter[str]) -> TaskPrompt:
    """numbers: of the prompts before it, by kind."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LabRefused(f"this is not JSON ({error}). Write an object a line, with the key `prompt`.") from None
    question = isinstance(entry, dict) and ("turns" in entry or "question_id" in entry)
    kind = _word(entry, "category" if question else "kind")
    numbers[kind] += 1
    if question:
        return TaskPrompt(kind, str(entry.get("question_id", numbers[kind])), _first_turn(entry), _reference(entry))
    return TaskPrompt(kind, str(numbers[kind]), _text(entry, "prompt"), _reference(entry))


def _first_turn(entry: dict[str, Any]) -> str:
    turns = entry.get("turns")
    if not isinstance(turns, list) or not turns:
        raise LabRefused("`turns` should be a list of texts.")
    return _text({"turns[0]": turns[0]}, "turns[0]")


def _word(entry: Any, key: str) -> str:
    kind = entry.get(key, ANY) if isinstance(entry, dict) else ANY
    if not isinstance(kind, str) or not kind:
        raise LabRefused(f"`{key}` should be a name.")
    return kind


def _reference(entry: dict[str, Any]) -> str:
    """Of the first turn, where there is one; none is none."""
    reference = entry.get("reference") or ""
    if isinstance(reference, list):
        reference = reference[0] or ""
    if not isinstance(reference, str):
        raise LabRefused("`reference` should be a text, or a list of texts.")
    return reference


def _text(entry: Any, key: str) -> str:
    if not isinstance(entry, dict):
        raise LabRefused(f"an object with the key `{key}` is expected.")
    if key not in entry:
        raise LabRefused(f"the key `{key}` is missing.")
    text = entry[key]
    if not isinstance(text, str) or not text.strip():
        raise LabRefused(f"`{key}` should be a text that is not empty.")
    return text


def _refuse_halves(prompt: TaskPrompt) -> None:
    """JSON can name half of a character, which no text holds and no file could keep."""
    try:
        "".join(astuple(prompt)).encode()
    except UnicodeEncodeError:
        raise LabRefused("a \\u in it names half of a character. Write the character itself.") from None
