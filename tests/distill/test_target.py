"""Any folder is a target, and packed products change nothing but the time."""

from __future__ import annotations

import pytest
import torch

from specdemo.distill.batch import BatchDecoder
from specdemo.distill.target import load_target, pack_products
from tests.distill.test_batch import answer_all, jobs
from tests.distill.tiny_target import tiny_target
from tests.tiny import tiny_llama, tiny_qwen2


@pytest.mark.parametrize("build", [tiny_llama, tiny_qwen2])
def test_packed_products_give_the_same_greedy_answers(build):
    plain, packed = build(), build()
    pack_products(packed)
    ids = torch.randint(0, 100, (3, 7), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(packed(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-4)
    work = jobs(plain.config.vocab_size, 9)
    answers = [answer_all(BatchDecoder(model, rows=4, columns=80, stop_ids=()), work) for model in (plain, packed)]
    assert {tag: a.ids for tag, a in answers[0].items()} == {tag: a.ids for tag, a in answers[1].items()}


def test_a_target_is_loaded_from_any_folder(tmp_path):
    for part in tiny_target():
        part.save_pretrained(tmp_path / "small")
    model, tokenizer, name = load_target(str(tmp_path / "small"), "float32")
    assert name == "small" and model.dtype == torch.float32 and len(tokenizer) == 258
    assert not any(weight.requires_grad for weight in model.parameters())
