"""A row of a batch is answered as if it were alone."""

import numpy as np
import pytest
import torch

from specdemo.distill.batch import Answer, BatchDecoder, Job, longest_row
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3


def jobs(vocabulary: int, count: int, temperature: float = 0.0, longest: int = 24) -> list[Job]:
    """Prompts of several lengths, answers of several lengths."""
    draw = np.random.default_rng(4)
    return [
        Job(draw.integers(0, vocabulary, draw.integers(1, 40)).tolist(), temperature, draw.random(1 + i % longest), i)
        for i in range(count)
    ]


def answer_all(decoder: BatchDecoder, waiting: list[Job]) -> dict[int, Answer]:
    waiting, answers = list(waiting), {}
    while waiting or decoder.live:
        while waiting and decoder.free:
            decoder.add(waiting.pop(0))
        for answer in decoder.step():
            answers[answer.job.tag] = answer
    answers |= {answer.job.tag: answer for answer in decoder.step()}
    return answers


@torch.inference_mode()
def greedy_alone(model, ids: list[int], count: int) -> list[int]:
    """The plainest decoding there is: the whole sequence again for every token."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[-count:]


@pytest.mark.parametrize("build", [tiny_llama, tiny_qwen2, tiny_qwen3, tiny_gpt2])
def test_greedy_answers_of_a_batch_are_those_of_plain_decoding_one_by_one(build):
    model = build()
    work = jobs(model.config.vocab_size, 19)
    answers = answer_all(BatchDecoder(model, rows=4, columns=80, stop_ids=()), work)
    assert len(answers) == len(work)
    for job in work:
        assert answers[job.tag].ids == greedy_alone(model, job.ids, len(job.noise))


def test_sampled_answers_do_not_depend_on_the_rows_beside_them():
    model = tiny_llama()
    work = jobs(256, 17, temperature=0.8)
    together = answer_all(BatchDecoder(model, rows=6, columns=80, stop_ids=()), work)
    alone = answer_all(BatchDecoder(model, rows=1, columns=80, stop_ids=()), work)
    assert {tag: a.ids for tag, a in together.items()} == {tag: a.ids for tag, a in alone.items()}


def test_rows_of_several_temperatures_share_a_batch():
    model = tiny_llama()
    cold, warm = jobs(256, 8), jobs(256, 8, temperature=1.0)
    mixed = [cold[i] if i % 2 else warm[i] for i in range(8)]
    answers = answer_all(BatchDecoder(model, rows=8, columns=80, stop_ids=()), mixed)
    for job in mixed[1::2]:
        assert answers[job.tag].ids == greedy_alone(model, job.ids, len(job.noise))


def test_sampled_tokens_have_the_model_s_own_distribution():
    model, ids = tiny_llama(), [5, 6, 7]
    draws = (np.arange(400) + 0.5) / 400  # evenly spread noise gives each token its share, to one part in 400
    decoder = BatchDecoder(model, rows=1, columns=8, stop_ids=())
    counts = np.zeros(256)
    for draw in draws:
        decoder.add(Job(ids, 0.7, [draw]))
        counts[decoder.step()[0].ids[0]] += 1
    with torch.inference_mode():
        wanted = (model(torch.tensor([ids])).logits[0, -1] / 0.7).softmax(-1).numpy()
    assert np.abs(counts / 400 - wanted).max() < 0.004


def test_an_answer_ends_with_its_first_stop_token():
    model = tiny_llama()
    free = greedy_alone(model, [9, 8, 7], 12)
    stop = free[4]
    decoder = BatchDecoder(model, rows=2, columns=40, stop_ids={stop})
    answer = answer_all(decoder, [Job([9, 8, 7], 0.0, [0.0] * 12, 0)])[0]
    assert answer.ended and answer.ids == free[: free.index(stop) + 1]


def test_an_answer_ends_where_the_columns_do():
    decoder = BatchDecoder(tiny_llama(), rows=2, columns=10, stop_ids=())
    answer = answer_all(decoder, [Job([1, 2, 3], 0.0, [0.0] * 50, 0)])[0]
    assert not answer.ended and len(answer.ids) == 7


def test_a_prompt_that_leaves_no_room_is_refused():
    decoder = BatchDecoder(tiny_llama(), rows=2, columns=10, stop_ids=())
    for ids in ([], [1] * 10):
        with pytest.raises(ValueError, match="does not fit"):
            decoder.add(Job(ids, 0.0, [0.0]))


def test_rows_are_never_longer_than_the_model_s_context_or_window():
    config = tiny_llama().config
    assert longest_row(config) == 512
    config.sliding_window = 64
    assert longest_row(config) == 64
