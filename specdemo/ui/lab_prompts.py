"""Prompts that a visitor brings to the Lab: the text of a file, read as the command reads one, within bounds.

No name that comes from a visitor is opened: what was read is kept here by visitor, and options name it by its key.
"""

from __future__ import annotations

from typing import Any

from specdemo.lab.experiment import LabRefused
from specdemo.lab.prompt_files import LINES, PromptSet, parse_prompts
from specdemo.ui.orders import readable

LARGEST = 512 * 1024  # characters
MOST = 1000
LONGEST = 20_000  # characters of a prompt
LONGEST_NAME = 60  # of a kind, a prompt, a file
SUFFIXES = (LINES, ".json")


def taken(name: Any, text: Any) -> PromptSet:
    """The prompts in a file of that name; raises LabRefused with a sentence."""
    name, text = readable(name).replace("\\", "/").rsplit("/", 1)[-1][-LONGEST_NAME:], readable(text)
    if not name.endswith(SUFFIXES):
        raise LabRefused("The file should be .jsonl, with a prompt a line, or .json. Save it as one of them.")
    if len(text) > LARGEST:
        raise LabRefused(f"The file is larger than {LARGEST >> 10} KiB. Take a part of it.")
    made = PromptSet(name, tuple(parse_prompts(text, name)))
    refuse_large(made)
    return made


def refuse_large(made: PromptSet) -> None:
    """Raises LabRefused for more than this page keeps of anyone."""
    if len(made.prompts) > MOST or sum(len(one.text) + len(one.reference) for one in made.prompts) > LARGEST:
        raise LabRefused(f"The file holds more than {MOST} prompts or {LARGEST >> 10} KiB. Take a part of it.")
    for one in made.prompts:
        if max(len(one.text), len(one.reference)) > LONGEST:
            raise LabRefused(
                f"Prompt {one.name} of the kind {one.kind!r} is longer than {LONGEST} characters. Shorten it."
            )
        if max(len(one.kind), len(one.name)) > LONGEST_NAME:
            raise LabRefused(f"A kind or a number is longer than {LONGEST_NAME} characters. Shorten it.")


def told(made: PromptSet) -> dict[str, Any]:
    """What the page's form shows of them, and names them by."""
    kinds = list(dict.fromkeys(one.kind for one in made.prompts))
    return {"key": made.key, "name": made.name, "n": len(made.prompts), "kinds": kinds}
