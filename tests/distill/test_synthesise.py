"""A corpus comes about, goes on after a kill, and holds no row twice."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from specdemo.distill import main
from specdemo.distill.corpus import digest, read_rows
from specdemo.distill.openings import invented_prompt, opened_turn
from specdemo.distill.plan import OwnPrompts, PatternPlan
from specdemo.distill.synthesise import Settings, Synthesis, vocabulary_digest
from tests.distill.tiny_target import tiny_target, tiny_tokenizer


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def synthesis(target, folder: Path, tokens: int = 10**9, plan=None, **kwargs) -> Synthesis:
    """Small rows; prompts over 200 bytes are left out."""
    sizes = {"rows": 8, "ahead": 16, "longest_prompt": 400, "longest_answer": 6} | kwargs
    return Synthesis(*target, "tiny", plan or PatternPlan(0), Settings(folder, tokens, **sizes))


def own(tmp_path: Path, prompts: list[str]) -> OwnPrompts:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    return OwnPrompts(path)


def drain(work: Synthesis) -> Synthesis:
    for _ in work.run():
        pass
    return work


def test_a_run_makes_the_tokens_asked_for_of_many_kinds(target, tmp_path):
    work = drain(synthesis(target, tmp_path, tokens=300))
    rows = list(read_rows(tmp_path))
    assert 300 <= work.tokens < 400 and work.tokens == sum(len(row.answer) for row in rows)
    assert len({row.kind for row in rows}) > 8
    assert {row.temperature for row in rows} == {0.0, 0.3, 0.7, 1.0}


def test_every_own_prompt_is_answered_once_at_every_temperature(target, tmp_path):
    work = drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["one", "two", "three"])))
    rows = list(read_rows(tmp_path / "c"))
    assert Counter(row.temperature for row in rows) == {0.0: 3, 0.3: 3, 0.7: 3, 1.0: 3}
    assert work.dropped == 0 and sorted(row.seed for row in rows) == list(range(12))


def test_doubles_are_dropped(target, tmp_path):
    work = drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["one", "one", "two"])))
    rows = list(read_rows(tmp_path / "c"))
    assert len(rows) == 8 and work.dropped == 4
    assert len({digest(row.prompt, row.temperature) for row in rows}) == 8


def test_prompts_that_are_too_long_are_left_out(target, tmp_path):
    work = drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["x" * 500, "two"])))
    assert len(list(read_rows(tmp_path / "c"))) == 4 and work.dropped == 4


def test_going_on_makes_the_rows_that_are_missing_and_none_again(target, tmp_path):
    prompts = [f"prompt {i}" for i in range(10)]
    whole = drain(synthesis(target, tmp_path / "whole", plan=own(tmp_path, prompts)))
    cut = synthesis(target, tmp_path / "cut", plan=own(tmp_path, prompts))
    for _ in zip(range(9), cut.run(), strict=False):
        pass
    some = len(list(read_rows(tmp_path / "cut")))
    drain(synthesis(target, tmp_path / "cut", plan=own(tmp_path, prompts)))
    rows, wanted = (sorted_rows(tmp_path / name) for name in ("cut", "whole"))
    assert 0 < some < len(rows) and rows == wanted and whole.dropped == 0


def sorted_rows(folder: Path) -> list[tuple]:
    """Rows as plain data, by number: what a row holds depends on its number, not on when it was made."""
    return sorted((r.seed, r.kind, r.temperature, r.prompt.tolist(), r.answer.tolist()) for r in read_rows(folder))


def test_parts_make_together_what_one_makes_alone(target, tmp_path):
    prompts = [f"prompt {i}" for i in range(5)]
    drain(synthesis(target, tmp_path / "one", plan=own(tmp_path, prompts)))
    for part in range(2):
        drain(synthesis(target, tmp_path / "two", plan=own(tmp_path, prompts), part=part, parts=2))
    assert sorted_rows(tmp_path / "one") == sorted_rows(tmp_path / "two")


def test_a_row_holds_the_ids_of_its_prompt_and_of_its_answer(target, tmp_path):
    drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["one"])))
    for row in read_rows(tmp_path / "c"):
        text = tiny_tokenizer().decode(row.prompt.tolist())
        assert text == "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n"
        assert 0 < len(row.answer) <= 6


def test_the_target_invents_prompts_behind_the_openings(target, tmp_path):
    drain(synthesis(target, tmp_path, tokens=1500))
    invented = [row for row in read_rows(tmp_path) if row.kind == "invented"]
    assert invented
    for row in invented:
        assert tiny_tokenizer().decode(row.prompt.tolist()).startswith("<|im_start|>user\n")


def test_an_invented_prompt_ends_where_the_user_s_turn_does():
    tokenizer = tiny_tokenizer()
    assert tokenizer.decode(opened_turn(tokenizer, "Write a")) == "<|im_start|>user\nWrite a"
    written = tokenizer.encode(" poem about rain.<|im_end|>\n<|im_start|>assistant\nNo.")
    assert invented_prompt(tokenizer, "Write a", written) == "Write a poem about rain."
    assert invented_prompt(tokenizer, "Write a", tokenizer.encode("<|im_end|>")) is None


def test_a_model_without_a_chat_template_invents_nothing():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    assert opened_turn(tokenizer, "Write") is None


def test_the_vocabulary_s_digest_changes_with_any_token():
    tokenizer = tiny_tokenizer()
    before = vocabulary_digest(tokenizer)
    tokenizer.add_tokens(["<extra>"])
    assert before == vocabulary_digest(tiny_tokenizer()) != vocabulary_digest(tokenizer)


def test_the_command_goes_on_after_it_was_killed(target, tmp_path):
    model, tokenizer = target
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "specdemo.distill.main", "synthesise", "--target", str(tmp_path / "model")]
    command += ["--corpus", str(tmp_path / "c"), "--rows", "4", "--longest-answer", "8", "--longest-prompt", "300"]
    run = subprocess.Popen([*command, "--threads", "1"], stderr=subprocess.DEVNULL)
    index, deadline = tmp_path / "c" / "rows-0000.jsonl", time.monotonic() + 240
    while not (index.exists() and index.read_bytes().count(b"\n") > 12) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    before = sorted_rows(tmp_path / "c")
    assert len(before) >= 11
    held = sum(len(row[4]) for row in before)
    code = main.main(parse([*command[3:], "--tokens", str(held + 60)]))
    after = sorted_rows(tmp_path / "c")
    assert code == 0 and sum(len(row[4]) for row in after) >= held + 60
    assert [row for row in after if row[0] in {r[0] for r in before}] == before
    assert len({row[0] for row in after}) == len(after)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    main.add_arguments(parser)
    return parser.parse_args(arguments)


def test_count_prints_what_a_corpus_holds(target, tmp_path, capsys):
    drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["one", "two"])))
    assert main.main(parse(["count", "--corpus", str(tmp_path / "c")])) == 0
    said = capsys.readouterr().out
    assert f"{len(list(read_rows(tmp_path / 'c')))} rows" in said
    assert "own" in said and "by temperature" in said


def test_a_corpus_of_another_target_is_refused_with_a_sentence(target, tmp_path, capsys):
    drain(synthesis(target, tmp_path / "c", plan=own(tmp_path, ["one"])))
    model, tokenizer = tiny_target()
    tokenizer.add_tokens(["<extra>"], special_tokens=True)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "other")
    assert main.main(parse(["synthesise", "--target", str(tmp_path / "other"), "--corpus", str(tmp_path / "c")])) == 1
    assert "a folder of its own" in capsys.readouterr().err
