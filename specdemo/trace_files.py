"""A finished race as a file: both lanes' Traces in one versioned JSON document, and back again, exactly.

Floats come back bit for bit, infinities and NaN included (as strings, so that the file stays JSON). A file that is
not such a race is refused with a sentence that names the key.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from specdemo.decoding.steps import SCHEMA_VERSION, DraftLength, Parting, Trace
from specdemo.race import Mode, Request

LANES = ("baseline", "speculative")
LARGEST = 256 * 1024 * 1024  # bytes: hundreds of times the longest race


class TraceFileRefused(ValueError):
    """A file that is no race of ours; the message is a sentence for a person."""


class RaceFile(BaseModel):
    """What a file holds: both lanes, what was asked of them, and what `metrics.compare` has to know of the pair."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    baseline: Trace
    speculative: Trace
    prompt: str
    gamma: int
    draft_length: DraftLength = DraftLength.FIXED
    max_new_tokens: int
    mode: Mode
    stop_strings: tuple[str, ...] = ()
    bits: bool = False
    padding: float = 1.0
    parting: Parting | None = None

    @property
    def request(self) -> Request:
        """What was asked of both lanes."""
        trace = self.speculative
        return Request(
            prompt_ids=trace.prompt_ids,
            params=trace.params,
            rule=trace.rule,
            gamma=self.gamma,
            draft_length=self.draft_length,
            max_new_tokens=self.max_new_tokens,
            stop_strings=self.stop_strings,
            mode=self.mode,
        )


def dump(race: RaceFile) -> bytes:
    """The race as a JSON document."""
    return race.model_dump_json().encode()


def parse(data: bytes | str) -> RaceFile:
    """The race in a JSON document; raises TraceFileRefused."""
    if len(data) > LARGEST:
        raise TraceFileRefused(f"The file is larger than {LARGEST >> 20} MiB, which no race is.")
    try:
        document = from_json(data, allow_inf_nan=True)
    except ValueError as error:
        raise TraceFileRefused(f"The file is not JSON: {error}.") from None
    _refuse_other_versions(document)
    try:
        race = RaceFile.model_validate(document)
    except ValidationError as error:
        raise TraceFileRefused(wrong_place(error, "race")) from None
    for lane in LANES:
        _refuse_contradictions(lane, getattr(race, lane))
    return race


class Unwritable(ValueError):
    """Nothing could be written there; the message is a sentence for a person."""


def refuse_unwritable(path: Path | None) -> None:
    """Before anything is run: a file that no result could be written to; raises Unwritable."""
    if path is None:
        return
    if path.is_dir():
        raise Unwritable(f"{path} is a folder: name a file in it.")
    if not path.resolve().parent.is_dir():
        raise Unwritable(f"There is no folder {path.resolve().parent} to write {path.name} into.")


def save(path: Path, race: RaceFile) -> None:
    """Write the file whole or not at all; raises OSError."""
    write_whole(path, dump(race))


def keep(path: Path, race: RaceFile) -> bool:
    """`save` for a command that has shown its race already: what came of it is said on stderr; whether that worked."""
    try:
        save(path, race)
    except OSError as error:
        say_unwritten("traces", path, error)
        return False
    print(f"Both traces are in {path}.", file=sys.stderr)
    return True


def say_unwritten(what: str, path: Path, error: OSError) -> None:
    """On stderr, of a command that has shown already what it could not keep."""
    print(f"The {what} could not be written to {path}: {error.strerror or error}.", file=sys.stderr)


def write_whole(path: Path, data: bytes) -> None:
    """Write any file whole or not at all; raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)  # mkstemp's 0600 is for secrets
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> RaceFile:
    """Read a file; raises OSError or TraceFileRefused."""
    if path.stat().st_size > LARGEST:  # before it is read into memory
        raise TraceFileRefused(f"The file is larger than {LARGEST >> 20} MiB, which no race is.")
    return parse(path.read_bytes())


def _refuse_other_versions(document: object) -> None:
    """Before the keys are looked at: another version may have others, and the version is the useful thing to say."""
    for lane in LANES:
        trace = document.get(lane) if isinstance(document, dict) else None
        version = trace.get("version", SCHEMA_VERSION) if isinstance(trace, dict) else SCHEMA_VERSION
        if version != SCHEMA_VERSION:
            raise TraceFileRefused(
                f"At {lane}.version: the file is of version {_short(version)}; this program reads {SCHEMA_VERSION}."
            )


def _refuse_contradictions(lane: str, trace: Trace) -> None:
    if trace.lane != lane:
        raise TraceFileRefused(f"At {lane}.lane: the trace says that it is of lane {_short(trace.lane)}.")
    tokens = len(trace.tokens)
    if trace.texts and len(trace.texts) != tokens:
        raise TraceFileRefused(f"At {lane}.texts: {len(trace.texts)} texts for {tokens} emitted tokens.")


def wrong_place(error: ValidationError, what: str) -> str:
    """The first place where a document is not what it should be, in a sentence. what: that it should be."""
    first, *others = error.errors(include_url=False, include_context=False)
    key = ""
    for part in first["loc"]:
        name = str(part) if isinstance(part, int) or part.isidentifier() else _short(part)
        key += f"[{name}]" if isinstance(part, int) else f".{name}" if key else name
    more = f" (and {len(others)} more such places)" if others else ""
    if not key:
        return f"The file is JSON, but not a {what}: it is {_short(first['input'])}."
    if first["type"] in ("missing", "missing_argument"):
        return f"At {key}: the key is missing{more}."
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"At {key}: no {what} has such a key{more}."
    return f"At {key}: {first['msg'][0].lower()}{first['msg'][1:]}, not {_short(first['input'])}{more}."


def _short(value: object) -> str:
    """A value out of a stranger's file, harmless and short enough for a sentence."""
    text = ascii(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
