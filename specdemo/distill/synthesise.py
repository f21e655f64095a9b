"""How does a corpus come about? The target answers planned prompts in batches, and each answer is written as it ends.

Resumable: rows that the folder holds are not made again, so a run that was killed loses only the rows in flight.
Several processes may share a corpus, each with its part of the row numbers.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.distill.batch import Answer, BatchDecoder, Job
from specdemo.distill.corpus import CorpusWriter, Header, Row, digest, read_rows
from specdemo.distill.hidden import HiddenStore
from specdemo.distill.openings import invented_prompt, opened_turn
from specdemo.distill.plan import Plan, Planned, message
from specdemo.models.text import encode_chat

TURN_TOKENS = 160  # a prompt that the target invents is not longer


@dataclass(frozen=True, slots=True)
class Settings:
    """What to make. tokens: of answers, in all; rows: size of the batch; ahead: rows sorted by length at a time.

    part, parts: this process makes the row numbers that leave `part` when divided by `parts`, and its share of tokens.
    """

    folder: Path
    tokens: int
    seed: int = 0
    rows: int = 64
    ahead: int = 128
    longest_prompt: int = 768
    longest_answer: int = 256
    part: int = 0
    parts: int = 1


class Synthesis:
    """One run over one folder. run() yields after every step of the batch: how many answer tokens its part has.

    store: where the hidden states go that training will want, if they are to be kept.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        plan: Plan,
        settings: Settings,
        store: HiddenStore | None = None,
    ) -> None:
        self.settings, self._tokenizer, self._plan, self._store = settings, tokenizer, plan, store
        header = Header(name, vocabulary_digest(tokenizer), model.config.get_text_config().vocab_size, settings.seed)
        self._writer = CorpusWriter(settings.folder, header)
        self._decoder = BatchDecoder(
            model,
            settings.rows,
            settings.longest_prompt + settings.longest_answer + 1,
            stop_ids(model, tokenizer),
            vocab_size=len(tokenizer),
            listener=store and store.listener,
        )
        self.tokens = 0  # answer tokens of this part in the folder
        self.dropped = 0  # rows made twice, or prompts that were none
        self._done: set[int] = set()
        self._seen: set[bytes] = set()  # prompts at a temperature, and whole rows
        self._recall()
        self._next = settings.part
        self._invented: deque[Job] = deque()
        self._planned_all = False
        self._downwards = False

    def run(self) -> Iterator[int]:
        """Work until the part has its share of tokens, or the plan ends and every row begun is written."""
        queue: deque[Job] = deque()
        while self.tokens * self.settings.parts < self.settings.tokens:
            self._fill(queue)
            answers = self._decoder.step()
            if not answers and not self._decoder.live:
                return
            for answer in answers:
                self._hear(answer)
            yield self.tokens

    def _fill(self, queue: deque[Job]) -> None:
        """Give every free row of the batch a job, while there are any."""
        while self._decoder.free:
            if not queue and not self._invented:
                queue.extend(self._jobs_ahead())
            waiting = self._invented or queue
            if not waiting:
                return
            self._decoder.add(waiting.popleft())

    def _recall(self) -> None:
        """Take up what the folder holds already."""
        for row in read_rows(self.settings.folder):
            self._done.add(row.seed)
            self._note(row)
            if not row.held_out:
                self._plan.remember(row.kind, self._text(row.answer))

    def _note(self, row: Row) -> None:
        self._seen |= {digest(row.prompt, row.temperature), digest([*row.prompt, *row.answer])}
        self.tokens += len(row.answer) if row.seed % self.settings.parts == self.settings.part else 0

    def _jobs_ahead(self) -> list[Job]:
        """The next rows, sorted by length: neighbours in the batch are alike long.

        Downwards and upwards in turn, so that the length does not jump between one lot and the next; downwards first,
        since a run that was killed half way through a lot has left its long prompts over.
        """
        jobs = []
        while len(jobs) < self.settings.ahead and not self._planned_all:
            number, self._next = self._next, self._next + self.settings.parts
            if number in self._done:
                continue
            planned = self._plan.row(number)
            if planned is None:
                self._planned_all = True
            elif (job := self._job(planned)) is not None:
                jobs.append(job)
        self._downwards = not self._downwards
        return sorted(jobs, key=lambda job: len(job.ids), reverse=self._downwards)

    def _job(self, planned: Planned) -> Job | None:
        """The work for a row, or for the prompt that the target is to invent; None if it was done or does not fit."""
        draws = np.random.default_rng([self.settings.seed, planned.number, len(planned.messages)])
        if planned.opening is not None:
            ids = opened_turn(self._tokenizer, planned.opening)
            if ids is None:
                return None
            return Job(ids, 1.0, draws.random(TURN_TOKENS), planned)
        ids = encode_chat(self._tokenizer, planned.messages)
        key = digest(ids, planned.temperature)
        if not 0 < len(ids) <= self.settings.longest_prompt or key in self._seen:
            self.dropped += 1
            return None
        self._seen.add(key)
        return Job(ids, planned.temperature, draws.random(self.settings.longest_answer), planned)

    def _hear(self, answer: Answer) -> None:
        """Write a finished row; or queue the prompt that the target invented."""
        planned: Planned = answer.job.tag
        if planned.opening is not None:
            prompt = invented_prompt(self._tokenizer, planned.opening, answer.ids)
            job = prompt and self._job(replace(planned, messages=[message("user", prompt)], opening=None))
            if job:
                self._invented.append(job)
            return
        row = Row(planned.number, planned.kind, planned.temperature, answer.job.ids, answer.ids)
        if digest([*row.prompt, *row.answer]) in self._seen:
            self.dropped += 1
            return
        self._writer.append(row)
        if self._store is not None:
            self._store.append(row, answer.hidden)
        self._note(row)
        if answer.ended and not row.held_out:
            self._plan.learn(planned, self._text(answer.ids))

    def _text(self, ids: object) -> str:
        return self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)


def stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Every id that ends an answer, by the model's generation settings and by its tokenizer."""
    ends = model.generation_config.eos_token_id if model.generation_config else None
    ends = ends if isinstance(ends, list) else [ends]
    return {i for i in (*ends, tokenizer.eos_token_id) if i is not None}


def vocabulary_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Sixteen hex digits that change when any token means another id."""
    pairs = sorted(tokenizer.get_vocab().items())
    return hashlib.blake2b(repr(pairs).encode(), digest_size=8).hexdigest()
