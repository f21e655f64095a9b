"""How are options read from a file? A YAML mapping of their names, without the dashes before them.

The parser of the options is the only list of what there is: it says which names exist, of what type a value is and what
it may be. What stands on the command line wins. A file of app.py does for `specdemo run` and `specdemo lab`, which pass
over the names that only others know. Nothing but plain data is ever made of a file.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LARGEST = 64 * 1024  # bytes
NEVER = {"help", "config"}  # options that no file sets
DRAFTS_FOR = {"target", "preset"}  # a drafter in a file is for the target there, not for another on the command line
DRAFT = {"drafter", "draft-precision"}


class ConfigRefused(ValueError):
    """A file that says something else than options; the message is a sentence that names line, key and next step."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of the file with its value, and where it stands."""

    key: str
    value: Any
    line: int


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """The option that `configure` reads."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="options from a YAML file; those given here win")


def configure(
    parser: argparse.ArgumentParser, argv: Sequence[str], others: Callable[[], Collection[str]] = tuple
) -> None:
    """Make the parser's defaults what the file says that `--config` names, if any; raises ConfigRefused.

    others: gives the names that another program knows; not asked where there is no file.
    """
    first = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    first.add_argument("--config", type=Path)
    try:
        path = first.parse_known_args(list(argv))[0].config
    except argparse.ArgumentError:
        return  # `--config` without a file: the parser itself says so
    if path is None:
        return
    actions = options_of(parser)
    given = {name for word in argv for name in _named(word, actions)}
    for group in parser._mutually_exclusive_groups:  # one of them on the command line puts the others out of force
        names = {name for name, action in actions.items() if action in group._group_actions}
        given |= names if names & given else set()
    given |= DRAFT if DRAFTS_FOR & given else set()
    values, elsewhere = {}, others()
    for entry in entries_of(path):
        action = actions.get(entry.key)
        if action is None and entry.key not in elsewhere:
            raise _refusal(path, entry, f"there is no such option{_alike(entry.key, {*actions, *elsewhere})}.")
        if action is None:
            continue
        value = _read(path, entry, action)
        if entry.key not in given:
            values[action.dest] = value
    _refuse_both(path, parser, values)
    parser.set_defaults(**values)


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """What a file may set, by name."""
    found = {one[2:]: action for action in parser._actions for one in action.option_strings if one.startswith("--")}
    return {name: action for name, action in found.items() if name not in NEVER}


def write(values: Mapping[str, Any]) -> str:
    """Values by option as a file; those that are None are left out."""
    return yaml.safe_dump(
        {name: value for name, value in values.items() if value is not None}, sort_keys=False, allow_unicode=True
    )


# --- Reading ----------------------------------------------------------------------------------------------------------


def entries_of(path: Path) -> list[Entry]:
    """Every key of a file; raises ConfigRefused."""
    text = _text(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise ConfigRefused(f"{path}{where}: this is not YAML: {error.problem}. Write `name: value`.") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigRefused(f"{path} is not YAML: {str(error).splitlines()[0]}. Write `name: value`.") from None
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise ConfigRefused(f"{path} should be a mapping: write `name: value` on each line.")
    entries: dict[str, Entry] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigRefused(f"{path}, line {line}: a key is the name of an option.")
        name = key.value.replace("_", "-")
        entry = Entry(name, _plain(path, name, value), line)
        if name in entries:
            raise _refusal(path, entry, f"it stands in line {entries[name].line}, too. Keep one of them.")
        entries[name] = entry
    return list(entries.values())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigRefused(f"{path} could not be read: {error.strerror or error}.") from None
    if len(data) > LARGEST:
        raise ConfigRefused(f"{path} is larger than {LARGEST >> 10} KiB, which no file of options is.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigRefused(f"{path} is not text in UTF-8.") from None


def _plain(path: Path, name: str, node: yaml.Node) -> Any:
    """A number, a text, yes or no, nothing, or a list of such."""
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    line = node.start_mark.line + 1
    if not all(isinstance(one, yaml.ScalarNode) for one in nodes):
        raise ConfigRefused(
            f"{path}, line {line}: {name}: take a value, JSON in quotes, or a list of values for stop, allow-model and "
            "allow-server."
        )
    loader = yaml.SafeLoader("")
    try:
        values = [loader.construct_object(one) for one in nodes]
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or error
        raise ConfigRefused(f"{path}, line {line}: {name}: {problem}. Put a text in quotes.") from None
    return values if isinstance(node, yaml.SequenceNode) else values[0]


def _read(path: Path, entry: Entry, action: argparse.Action) -> Any:
    """The value as the command line would have given it; raises ConfigRefused."""
    value = entry.value
    if isinstance(action, argparse._AppendAction):
        values = value if isinstance(value, list) else [value]
        return [_one(path, entry, action, one) for one in values]
    if isinstance(value, list):
        raise _refusal(
            path, entry, "one value is wanted, and this is a list. Several, where they are taken, are one text: `4,6`."
        )
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise _refusal(path, entry, f"take true or false, not {_shown(value)}.")
        return value
    return _one(path, entry, action, value)


def _one(path: Path, entry: Entry, action: argparse.Action, value: Any) -> Any:
    if action.type in (int, float):
        kinds, what = (int, "a whole number") if action.type is int else ((int, float), "a number")
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise _refusal(path, entry, f"take {what}, not {_shown(value)}.")
        return action.type(value)
    if action.type not in (None, Path) and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)  # numbers with bounds of their own, which read text
    if not isinstance(value, str):
        raise _refusal(path, entry, f"take a text, in quotes, not {_shown(value)}.")
    if action.choices is not None and value not in action.choices:
        raise _refusal(path, entry, f"take one of {', '.join(action.choices)}, not {_shown(value)}.")
    try:
        return action.type(value) if action.type else value
    except (argparse.ArgumentTypeError, ValueError) as error:
        told = f"it {error}" if isinstance(error, argparse.ArgumentTypeError) else "take a whole number"
        raise _refusal(path, entry, f"{told}, not {_shown(value)}.") from None


def _refuse_both(path: Path, parser: argparse.ArgumentParser, values: Mapping[str, Any]) -> None:
    for group in parser._mutually_exclusive_groups:
        both = [action.option_strings[-1][2:] for action in group._group_actions if values.get(action.dest) is not None]
        if len(both) > 1:
            raise ConfigRefused(f"{path}: {both[0]} and {both[1]} exclude each other. Keep one of them.")


def _named(word: str, names: Collection[str]) -> set[str]:
    """The options that a word of the command line may be: one, or those that it shortens, perhaps with a value."""
    if not word.startswith("--") or len(word) < 3:
        return set()
    word = word[2:].partition("=")[0]
    return {word} if word in names else {name for name in names if name.startswith(word)}


def _alike(key: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(key, known, 1)
    return f". Did you mean {found[0]}?" if found else ". `--help` lists them"


def _shown(value: Any) -> str:
    return ascii(value)[:40]


def _refusal(path: Path, entry: Entry, why: str) -> ConfigRefused:
    return ConfigRefused(f"{path}, line {entry.line}: {entry.key[:40]}: {why}".replace("?.", "?"))
