"""What is said of quality, on texts whose likeness is known and on two models whose difference is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import comb, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specdemo.decoding.dice import Dice, JudgedDraft
from specdemo.decoding.drafter import Draft
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Rule
from specdemo.lab import quality as lab
from specdemo.lab.experiment import LabRefused, Row
from specdemo.lab.likeness import bleu, means_differ, rouge_l, words_differ
from specdemo.lab.prompt_files import PromptSet, read_prompts, read_set
from specdemo.lab.quality import QUALITY, QualityOptions, perplexity, surprise
from tests.lab.fixed import Fixed, P, always
from tests.lab.rows import rows_of
from tests.lab.worlds import World, first
from tests.threads import one_thread  # noqa: F401

# --- Texts -----------------------------------------------------------------------------------------------------------


def test_rouge_l_is_the_longest_common_subsequence_of_words() -> None:
    assert rouge_l("police killed the gunman", "police kill the gunman") == pytest.approx(3 / 4)  # Lin 2004
    assert rouge_l("police killed the gunman", "the gunman kill police") == pytest.approx(2 / 4)
    assert rouge_l("A, b!", "a b") == 1 and rouge_l("a", "") == 0 and rouge_l("", "") == 1
    assert rouge_l("列出三种颜色", "列出两种颜色") == pytest.approx(5 / 6)


def test_bleu_is_that_of_its_paper() -> None:
    same = ["the cat is on the mat", "two words more than that"]
    assert bleu(same, same) == pytest.approx(100)
    precisions = 5 / 6, 4 / 5, 3 / 4, 2 / 3
    assert bleu(["a b c d e f"], ["a b c d e g"]) == pytest.approx(100 * np.prod(precisions) ** 0.25)
    short = 100 * np.exp(1 - 6 / 5)  # every n-gram is right, and the text too short
    assert bleu(["a b c d e f"], ["a b c d e"]) == pytest.approx(short)
    assert bleu(["列出三种颜色"], ["列出三种颜色"]) == pytest.approx(100)


def test_nothing_is_fetched_to_compare_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    assert rouge_l("a b", "a c") == 0.5 and bleu(["a b c d"], ["a b c d"]) == pytest.approx(100)


# --- Tests by swapping labels ----------------------------------------------------------------------------------------


def test_a_sign_flip_test_is_exact_where_all_ways_are_few() -> None:
    assert means_differ([1.0] * 10).p == pytest.approx(2 / 2**10)  # all one way, or all the other
    nine = [1.0] * 9 + [-1.0]
    assert means_differ(nine).p == pytest.approx(2 * (1 + comb(10, 1)) / 2**10)
    assert means_differ(nine).observed == pytest.approx(0.8)
    assert means_differ([0.0] * 5).p == 1


def test_equal_sides_are_seldom_called_different_and_unequal_ones_are() -> None:
    dice = np.random.default_rng(1)
    ps = [means_differ(dice.normal(size=12)).p for _ in range(200)]
    assert 2 <= sum(p < 0.05 for p in ps) <= 20
    assert means_differ(dice.normal(0.8, size=60)).p < 0.001


def test_use_of_tokens_is_compared_by_whole_texts() -> None:
    same = [([1, 2, 3], [1, 2, 3])] * 8
    assert words_differ(same).p == 1
    other = [([1, 1, 1], [2, 2, 2])] * 10
    assert words_differ(other).p == pytest.approx(2 / 2**10)
    assert words_differ(other).observed == pytest.approx(2 * 30**2 / 30)


# --- The target's own judgement --------------------------------------------------------------------------------------


def test_surprise_is_the_target_s_own_log_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [6, 0, 4, 4, 1]
    wanted = -sum(log(P[token]) for token in answer)
    assert surprise(always(P), [1, 2], answer) == pytest.approx(wanted, rel=1e-5)
    assert surprise(always(P), [1, 2], answer[:1]) == pytest.approx(-log(P[6]), rel=1e-5)
    monkeypatch.setattr(lab, "CHUNK", 2)
    assert surprise(always(P), [1, 2], answer) == pytest.approx(wanted, rel=1e-5)
    rows = [{"plain nats": 2 * log(3), "plain tokens": 1}, {"plain nats": 0.0, "plain tokens": 1}]
    assert perplexity(rows, "plain") == pytest.approx(3)


# --- Lanes -----------------------------------------------------------------------------------------------------------


def compared(prompts: PromptSet, pair: Any, **options: Any) -> list[Row]:
    return rows_of(QUALITY, pair, QualityOptions(prompts=prompts, **({"max_new_tokens": 40} | options)))


def test_the_same_words_are_the_same_quality(prompts: PromptSet) -> None:
    rows = compared(prompts, World(first(2)))
    assert QUALITY.findings(rows) == [
        "Quality is unchanged, because the words are: 3 of 3 answers are the same, token by token."
    ]
    line = QUALITY.table(rows)[-1]
    assert (line["the same"], line["ROUGE-L"], line["BLEU"], line["plain perplexity"]) == ("3", "1.00", "100.0", "1.00")


def test_other_words_where_the_same_were_promised_are_a_fault(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Dice.judge

    def wrong(self: Dice, logits: torch.Tensor, draft: Draft) -> JudgedDraft:
        judged = right(self, logits, draft)
        *before, last = judged.ids[: judged.accepted + 1]
        return judged._replace(ids=[*before, (last + 1) % 7])

    monkeypatch.setattr(Dice, "judge", wrong)
    said = QUALITY.findings(compared(prompts, World(first(2))))
    assert said[0].startswith("FAULT: chat, prompt 1: the answers part at token 4") and "0 of 3" in said[-1]


def test_an_exact_rule_leaves_the_distribution_as_it_is(prompts: PromptSet) -> None:
    rows = compared(prompts, Fixed(), temperature=1.0, repeats=10, gamma=3)
    said = QUALITY.findings(rows)
    assert said[0].startswith("No difference is found") and "30 pairs" in said[0]
    assert said[1].startswith("What this cannot say") and said[2].startswith("ROUGE-L between the lanes")
    entropy = float(-(P * P.log()).sum())
    for side in lab.SIDES:
        assert log(perplexity(rows, side)) == pytest.approx(entropy, abs=0.1)


def test_a_wrong_rule_is_told_from_a_right_one(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draft is accepted, so that the lane writes the draft's distribution."""
    right = Sampler.uniforms
    monkeypatch.setattr(Sampler, "uniforms", lambda *of: right(*of) * 0)
    said = QUALITY.findings(compared(prompts, Fixed(), temperature=1.0, repeats=10, gamma=8, max_new_tokens=60))
    assert said[0].startswith("The two lanes differ")


def test_few_answers_prove_nothing_and_it_says_so(prompts: PromptSet) -> None:
    said = QUALITY.findings(compared(prompts, Fixed(), temperature=1.0, gamma=3))
    assert "3 pairs can prove nothing" in said[1]


def test_under_shared_noise_words_are_compared_at_any_temperature(prompts: PromptSet) -> None:
    rows = compared(prompts, Fixed(), temperature=1.0, rule=Rule.SHARED_NOISE, gamma=3)
    assert QUALITY.findings(rows)[0].startswith("Quality is unchanged, because the words are")


def test_answers_are_held_against_references_where_there_are_some(tmp_path: Path) -> None:
    @dataclass
    class Echo(World):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.tokenizer.decode = lambda ids, **_: "one two three four"

    path = tmp_path / "questions.jsonl"
    lines = [
        {"question_id": 1, "category": "a", "turns": ["x", "y"], "reference": ["one two three four", "no"]},
        {"prompt": "x", "kind": "b", "reference": "five six two one"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert [prompt.reference for prompt in read_prompts(path)] == ["one two three four", "five six two one"]
    right, wrong, both = QUALITY.table(compared(read_set(str(path)), Echo()))
    assert right["drafted ROUGE-L to references"] == "1.00" and right["drafted BLEU to references"] == "100.0"
    assert wrong["plain ROUGE-L to references"] == "0.25" and both["plain ROUGE-L to references"] == "0.62"
    path.write_text('{"prompt": "x", "reference": {"a": 1}}', "utf-8")
    with pytest.raises(LabRefused, match="line 1: `reference`"):
        read_prompts(path)


def test_answers_are_compared_in_meaning_where_a_model_is_given(prompts: PromptSet, tmp_path: Path) -> None:
    """The mean of the states of a tiny model; and what is no model is refused before anything is measured."""
    from specdemo.lab.embedding import Embedder
    from tests.distill.tiny_target import tiny_target

    model, tokenizer = tiny_target()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    embedder = Embedder.load(str(tmp_path))
    with torch.inference_mode():
        states = [model.model(tokenizer(text, return_tensors="pt").input_ids)[0][0].mean(0) for text in ("ab", "ba")]
    assert embedder.similarity("ab", "ba") == pytest.approx(torch.cosine_similarity(*states, dim=0).item(), abs=1e-5)
    assert embedder.similarity("ab", "ab") == 1 and embedder.similarity("ab", "") == 0
    rows = compared(prompts, World(first(2)), embedding=str(tmp_path), per_kind=1)
    assert QUALITY.table(rows)[0]["similarity"] == "1.000"
    with pytest.raises(LabRefused, match="cannot be loaded as a model of embeddings"):
        compared(prompts, World(first(2)), embedding=str(tmp_path / "nothing"))
