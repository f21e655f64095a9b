"""Where do synthesised rows live? In shards: token ids side by side in one file, one JSON line a row in another.

Appending is safe at any moment: a row counts once its line is whole, and what a killed run left behind it is cut off.
Which rows are held out depends on the prompt alone, so it is the same in every corpus and at every temperature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

FORMAT = 1
SHARD_BYTES = 1_000_000
HELD_OUT_IN = 32  # one prompt of so many is held out


class CorpusMismatch(ValueError):
    """A folder holds rows of another target; the message says which."""


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt and the target's answer to it, stop token included when the answer ended by itself.

    seed: with the corpus's seed, what the answer was drawn with; it is the row's number in the plan of prompts.
    """

    seed: int
    kind: str
    temperature: float
    prompt: Sequence[int]
    answer: Sequence[int]

    @property
    def held_out(self) -> bool:
        """Whether the row belongs to the part that is never trained on."""
        return is_held_out(self.prompt)


def is_held_out(prompt: Sequence[int]) -> bool:
    """Whether a prompt's rows are held out: a matter of its ids alone."""
    return digest(prompt)[0] % HELD_OUT_IN == 0


def digest(ids: Sequence[int], temperature: float | None = None) -> bytes:
    """Sixteen bytes that tell sequences (of one temperature, if given) apart."""
    data = np.asarray(ids, "<u4").tobytes()
    salt = b"" if temperature is None else f"{temperature:.3f}".encode()
    return hashlib.blake2b(data, digest_size=16, key=salt).digest()


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a shard's index. target: a name to print; vocabulary: what its token ids mean, as a digest."""

    target: str
    vocabulary: str
    vocab_size: int
    seed: int
    format: int = FORMAT

    @property
    def dtype(self) -> np.dtype:
        """Two bytes a token where the vocabulary allows it."""
        return np.dtype("<u2" if self.vocab_size < 1 << 16 else "<u4")


class CorpusWriter:
    """Appends rows to a folder's shards. Several processes may do so at once: whoever holds the lock appends one row.

    Rows keep their place: what is appended later is read later.
    """

    def __init__(self, folder: Path, header: Header, shard_bytes: int = SHARD_BYTES) -> None:
        self._folder, self._header, self._shard_bytes = folder, header, shard_bytes
        folder.mkdir(parents=True, exist_ok=True)
        for index in indices(folder):
            check_same_target(read_header(index), header, folder)
        self._lock = FileLock(folder / ".lock")

    def append(self, row: Row) -> None:
        """Write a row through to the files. Its tokens go first: a line never promises more than is there."""
        entry = [row.seed, row.kind, row.temperature, len(row.prompt), len(row.answer)]
        with self._lock:
            index = self._shard_with_room()
            with tokens_file(index).open("ab") as tokens:
                tokens.write(np.asarray([*row.prompt, *row.answer], self._header.dtype).tobytes())
            with index.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(entry, separators=(",", ":")) + "\n")

    def _shard_with_room(self) -> Path:
        """The last shard, mended, or the one that follows it."""
        shards = indices(self._folder)
        if shards:
            mend(shards[-1])
            if tokens_file(shards[-1]).stat().st_size < self._shard_bytes:
                return shards[-1]
        index = self._folder / f"rows-{len(shards):04}.jsonl"
        tokens_file(index).write_bytes(b"")
        index.write_text(json.dumps(asdict(self._header)) + "\n", "utf-8")
        return index


def read_rows(folder: Path) -> Iterator[Row]:
    """Every whole row of a folder's shards; a shard that is being written may be read."""
    for index in indices(folder):
        header, entries = read_header(index), whole_entries(index)
        ids = np.fromfile(tokens_file(index), header.dtype)
        start = 0
        for seed, kind, temperature, prompt, answer in entries:
            middle, stop = start + prompt, start + prompt + answer
            if stop > len(ids):  # written since the tokens were read
                break
            yield Row(seed, kind, temperature, ids[start:middle], ids[middle:stop])
            start = stop


def indices(folder: Path) -> list[Path]:
    """The index files of a folder's shards that have at least their header, in the order they were made."""
    return [path for path in sorted(folder.glob("rows-*.jsonl")) if first_line(path).endswith("\n")]


def first_line(index: Path) -> str:
    """A shard's header, as it stands there."""
    with index.open(encoding="utf-8") as lines:
        return lines.readline()


def tokens_file(index: Path) -> Path:
    """The tokens beside an index."""
    return index.with_suffix(".tokens")


def read_header(index: Path) -> Header:
    """The facts about a shard."""
    facts = json.loads(first_line(index))
    if facts["format"] != FORMAT:
        raise CorpusMismatch(f"{index.name} has format {facts['format']}; this program reads format {FORMAT}.")
    return Header(**facts)


def whole_entries(index: Path) -> list[list]:
    """A shard's rows as its index lists them, a last line that was cut short left out."""
    lines = index.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[1:-1]]


def mend(index: Path) -> None:
    """Cut off what a killed run left: half a line, or tokens that no line speaks of."""
    text = index.read_bytes()
    whole = text.rfind(b"\n") + 1
    tokens = sum(entry[3] + entry[4] for entry in whole_entries(index))
    with index.open("r+b") as file:
        file.truncate(whole)
    with tokens_file(index).open("r+b") as file:
        file.truncate(tokens * read_header(index).dtype.itemsize)


def check_same_target(found: Header, wanted: Header, folder: Path) -> None:
    """Raise CorpusMismatch where rows of two vocabularies would be mixed."""
    if (found.vocabulary, found.vocab_size) != (wanted.vocabulary, wanted.vocab_size):
        raise CorpusMismatch(
            f"{folder.name} holds rows of {found.target}, whose tokens differ from those of {wanted.target}: "
            "give the new target a folder of its own."
        )
