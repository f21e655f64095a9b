"""Which prompts are there, by kind? This project's own, a person's, and Spec-Bench's and MT-Bench's files as they are.

A `.jsonl` file has a prompt a line: {"prompt": "...", "kind": "..."}, the kind as one likes, or {"question_id",
"category", "turns"} as those two benchmarks have it, of which the first turn is asked. Any other file is JSON:
{"kind": [{"text": "..."}]}. A "reference" beside a prompt is an answer that others are compared with.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdemo.lab.experiment import LabRefused
from specdemo.lab.options import COUNT, FILE, SEED, Several, option
from specdemo.lab.server_pair import ServerPair

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

TASKS = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "tasks.json"
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
class Asked:
    """A prompt as a pair has it, and the seed of its answer."""

    ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The options of experiments that run over prompts of several kinds."""

    prompts: str = option("", "a file of prompts, .json or .jsonl (this project's own)", FILE)
    kinds: tuple[str, ...] = option((), "a part of the kinds, as in chat,code (all)", Several(str))
    per_kind: int | None = option(None, "prompts of each kind (all)", COUNT)
    seed: int = option(0, "of the first prompt's sampling; each next one has the next", SEED)

    def read(self) -> list[TaskPrompt]:
        """The prompts that are asked for; raises LabRefused."""
        return chosen(read_prompts(Path(self.prompts) if self.prompts else TASKS), self.kinds, self.per_kind)

    def questions(self) -> dict[tuple[str, str], str]:
        """The text of every prompt that is asked, by kind and name; raises LabRefused."""
        return {(prompt.kind, prompt.name): prompt.text for prompt in self.read()}

    def asked(self, pair: Pair | ServerPair) -> dict[tuple[str, str], Asked]:
        """What the pair is asked, by kind and name; raises LabRefused."""
        return {
            (prompt.kind, prompt.name): Asked(prompt_ids(pair, prompt.text), self.seed + n)
            for n, prompt in enumerate(self.read())
        }


def chosen(prompts: Sequence[TaskPrompt], kinds: Sequence[str] = (), per_kind: int | None = None) -> list[TaskPrompt]:
    """Those of the kinds that are named, or of all, and so many of each; raises LabRefused for an unknown kind."""
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        raise LabRefused(f"There is no kind {unknown[0]!r}: choose from {', '.join(known)}.")
    return [prompt for kind in kinds or known for prompt in [p for p in prompts if p.kind == kind][:per_kind]]


def read_prompts(path: Path) -> list[TaskPrompt]:
    """Every prompt of a file; raises LabRefused with the line and the key."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise LabRefused(f"{path} holds no prompts: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise LabRefused(f"{path} holds no prompts: it is not text in UTF-8.") from None
    prompts = _lines(path, text) if path.suffix == ".jsonl" else _kinds(path, text)
    if not prompts:
        raise LabRefused(f"{path} holds no prompts: it is empty.")
    twice = [one for one, n in Counter((prompt.kind, prompt.name) for prompt in prompts).items() if n > 1]
    if twice:
        raise LabRefused(f"{path}: two prompts of the kind {twice[0][0]!r} are called {twice[0][1]!r}.")
    return prompts


def _kinds(path: Path, text: str) -> list[TaskPrompt]:
    try:
        kinds = json.loads(text)
    except ValueError as error:
        raise LabRefused(f"{path} holds no prompts: it is not JSON ({error}). A file of lines is .jsonl.") from None
    if not isinstance(kinds, dict) or not all(isinstance(entries, list) for entries in kinds.values()):
        raise LabRefused(f'{path} holds no prompts. It should be JSON: {{"kind": [{{"text": "..."}}]}}.')
    prompts = []
    for kind, entries in kinds.items():
        if not entries:
            raise LabRefused(f"{path} holds no prompts of the kind {kind!r}.")
        for n, entry in enumerate(entries, 1):
            where = f"{path}, {kind!r}, number {n}"
            prompts.append(TaskPrompt(kind, str(n), _text(entry, "text", where), _reference(entry, where)))
    return prompts


def _lines(path: Path, text: str) -> list[TaskPrompt]:
    prompts, numbers = [], {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise LabRefused(f"{where}: this is not JSON ({error}).") from None
        kind = _word(entry, "category" if _is_question(entry) else "kind", where)
        numbers[kind] = numbers.get(kind, 0) + 1
        if _is_question(entry):
            name, asked = str(entry.get("question_id", numbers[kind])), _first_turn(entry, where)
        else:
            name, asked = str(numbers[kind]), _text(entry, "prompt", where)
        prompts.append(TaskPrompt(kind, name, asked, _reference(entry, where)))
    return prompts


def _is_question(entry: Any) -> bool:
    return isinstance(entry, dict) and ("turns" in entry or "question_id" in entry)


def _first_turn(entry: dict[str, Any], where: str) -> str:
    turns = entry.get("turns")
    if not isinstance(turns, list) or not turns:
        raise LabRefused(f"{where}: `turns` should be a list of texts.")
    return _text({"turns[0]": turns[0]}, "turns[0]", where)


def _word(entry: Any, key: str, where: str) -> str:
    kind = entry.get(key, ANY) if isinstance(entry, dict) else ANY
    if not isinstance(kind, str) or not kind:
        raise LabRefused(f"{where}: `{key}` should be a name.")
    return kind


def _reference(entry: dict[str, Any], where: str) -> str:
    """Of the first turn, where there is one; none is none."""
    reference = entry.get("reference") or ""
    if isinstance(reference, list):
        reference = reference[0] or ""
    if not isinstance(reference, str):
        raise LabRefused(f"{where}: `reference` should be a text, or a list of texts.")
    return reference


def _text(entry: Any, key: str, where: str) -> str:
    if not isinstance(entry, dict):
        raise LabRefused(f"{where}: an object with the key `{key}` is expected.")
    if key not in entry:
        raise LabRefused(f"{where}: the key `{key}` is missing.")
    text = entry[key]
    if not isinstance(text, str) or not text.strip():
        raise LabRefused(f"{where}: `{key}` should be a text that is not empty.")
    return text


def prompt_ids(pair: Pair | ServerPair, text: str) -> tuple[int, ...]:
    """As the pair's model is asked it; raises LabRefused."""
    if isinstance(pair, ServerPair):
        return pair.prompt_ids(text)
    from specdemo.models.text import encode_chat

    try:
        return tuple(encode_chat(pair.tokenizer, [{"role": "user", "content": text}]))
    except ValueError as error:
        raise LabRefused(str(error)) from error
