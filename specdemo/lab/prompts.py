"""Which prompts is an experiment asked, and in which order of seeds? This project's own by kind, or a file's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdemo.lab.experiment import LabRefused
from specdemo.lab.options import COUNT, SEED, Several, option
from specdemo.lab.prompt_files import PromptSet, TaskPrompt, read_prompts, read_set
from specdemo.lab.server_pair import ServerPair

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

TASKS = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "tasks.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt as a pair has it, and the seed of its answer."""

    ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The options of experiments that run over prompts of several kinds."""

    prompts: PromptSet | None = option(None, "a file of prompts, .json or .jsonl (this project's own)", read_set)
    kinds: tuple[str, ...] = option((), "a part of the kinds, as in chat,code (all)", Several(str))
    per_kind: int | None = option(None, "prompts of each kind (all)", COUNT)
    seed: int = option(0, "of the first prompt's sampling; each next one has the next", SEED)

    def read(self) -> list[TaskPrompt]:
        """The prompts that are asked for; raises LabRefused."""
        return chosen(self.prompts.prompts if self.prompts else read_prompts(TASKS), self.kinds, self.per_kind)

    def questions(self) -> dict[tuple[str, str], str]:
        """The text of every prompt that is asked, by kind and name; raises LabRefused."""
        return {(prompt.kind, prompt.name): prompt.text for prompt in self.read()}

    def texts(self) -> list[str]:
        """All that the pair will be asked; raises LabRefused."""
        return list(self.questions().values())

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


def prompt_ids(pair: Pair | ServerPair, text: str) -> tuple[int, ...]:
    """As the pair's model is asked it; raises LabRefused."""
    if isinstance(pair, ServerPair):
        return pair.prompt_ids(text)
    from specdemo.models.text import encode_chat

    try:
        return tuple(encode_chat(pair.tokenizer, [{"role": "user", "content": text}]))
    except ValueError as error:
        raise LabRefused(str(error)) from error
