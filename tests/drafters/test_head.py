"""The EAGLE-3 head computes what the `speculators` package computes, and survives the rounds of real decoding."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.head import HeadDrafter
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.head_files import HeadSource, find_head, is_head, load_head
from specdemo.models.runners import make_runner
from tests.drafters import speculators_heads as made
from tests.free_draw import FreeDraw
from tests.tiny import tiny_llama


def target_config(**changes: int) -> SimpleNamespace:
    """The text configuration of the target that the stored heads were made for."""
    known = {"hidden_size": made.WIDTH, "num_hidden_layers": 6, "max_position_embeddings": 64}
    return SimpleNamespace(**(known | changes))


def load(folder: Path, **changes: int) -> HeadDrafter:
    return load_head(
        HeadSource(folder.name, folder), target_config(**changes), torch.zeros(made.VOCAB, made.WIDTH), made.VOCAB
    )


def unrolled(head: HeadDrafter, row: int, hidden: Tensor, ids: Tensor) -> list[Tensor]:
    """Logits over the target's vocabulary of every unrolled step from a row, with the ids that follow forced."""
    seen: list[Tensor] = []

    def force(logits: Tensor, drafted: list[Tensor]) -> tuple[Tensor, Tensor]:
        seen.append(logits)
        return ids[row + 1 + len(drafted)], logits.new_tensor(1.0)

    prompt = torch.cat([ids.new_zeros(1), ids[:row]])  # the first row pairs position 0 with the token after it
    head.begin(prompt, int(ids[row]), hidden[: row + 1], capacity=64)
    head.propose(made.STEPS, FreeDraw(force))
    return seen


@pytest.mark.parametrize("name", made.FLAGS)
def test_every_unrolled_step_equals_the_packages_own_forward(name: str):
    head = load(made.HEADS / name)
    stored = load_file(made.HEADS / "expected" / f"{name}.safetensors")
    for row in range(made.ROWS):
        for step, logits in enumerate(unrolled(head, row, stored["hidden"], stored["ids"])):
            kept = logits[head._weights.target_ids]
            torch.testing.assert_close(kept, stored["logits"][step, row], rtol=1e-4, atol=1e-4)
            assert (logits > float("-inf")).sum() == made.DRAFT_VOCAB


def test_the_stored_outputs_are_what_the_package_computes_today():
    pytest.importorskip("speculators.models.eagle3", reason="pip install speculators to compare with it afresh")
    for name in made.FLAGS:
        stored = load_file(made.HEADS / "expected" / f"{name}.safetensors")
        fresh = made.expected(made.build(name))
        torch.testing.assert_close(fresh["logits"], stored["logits"])


def test_a_committed_round_leaves_what_a_fresh_prompt_of_the_same_tokens_would():
    head, fresh = load(made.HEADS / "qwen3"), load(made.HEADS / "qwen3")
    stored = load_file(made.HEADS / "expected" / "qwen3.safetensors")
    hidden, ids = stored["hidden"], stored["ids"]
    for accepted in range(3):
        unrolled(head, 2, hidden, ids)  # three drafted rows now stand behind the committed ones
        head.commit(ids[3 : 4 + accepted].tolist(), accepted, hidden[3:7])
        ours = _next_logits(head)
        prompt = torch.cat([ids.new_zeros(1), ids[: 3 + accepted]])
        fresh.begin(prompt, int(ids[3 + accepted]), hidden[: 4 + accepted], capacity=64)
        torch.testing.assert_close(ours, _next_logits(fresh))


def _next_logits(head: HeadDrafter) -> Tensor:
    seen: list[Tensor] = []
    head.propose(2, FreeDraw(lambda logits, drafted: (seen.append(logits), (logits.argmax(), logits.max()))[1]))
    return torch.stack(seen)


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_lane_with_a_head_writes_the_baselines_text_wherever_that_is_promised(rule: Rule, temperature: float):
    model = tiny_llama(vocab_size=made.VOCAB)
    embedding = model.get_input_embeddings().weight.detach()
    head = load_head(find_head(str(made.HEADS / "llama")), _as_wide_as(model.config), embedding, made.VOCAB)
    params = SamplingParams(temperature=temperature, top_p=0.95, repetition_penalty=1.2, seed=3)
    limits, prompt = Limits(60, 500), [3, 1, 4, 1, 5]
    plain = list(autoregressive(make_runner(model), prompt, params, Ending(limits, 5)))
    runner = _Narrow(make_runner(model))
    steps = list(speculative(runner, head, prompt, params, rule, 3, Ending(Limits(58, 500), 5)))
    assert sum(len(step.drafted) for step in steps) > 50
    if rule is Rule.SHARED_NOISE or temperature == 0:
        assert [t.id for s in steps for t in s.tokens] == [t.id for s in plain for t in s.tokens][:58]


class _Narrow:
    """A runner whose hidden states are cut to the width that the stored heads were made for."""

    def __init__(self, runner):
        self._runner = runner

    def __getattr__(self, name: str):
        return getattr(self._runner, name)

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()):
        out = self._runner.forward(ids, rows, (0, 1, 2) if aux_layers else ())
        if aux_layers:
            out.hidden = out.hidden.view(len(ids), 3, -1)[..., : made.WIDTH].reshape(len(ids), -1)
        return out


def _as_wide_as(config: object) -> SimpleNamespace:
    return target_config(max_position_embeddings=config.max_position_embeddings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a stored head to spoil."""
    shutil.copytree(made.HEADS / "llama", tmp_path / "head")
    return tmp_path / "head"


def test_the_original_checkpoints_names_load_too(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    save_file({n.replace("layers.0.", "midlayer."): t for n, t in tensors.items()}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    flat = config["transformer_layer_config"] | {"draft_vocab_size": made.DRAFT_VOCAB}
    flat["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(made.AUX)}
    (folder / "config.json").write_text(json.dumps(flat))
    stored = load_file(made.HEADS / "expected" / "llama.safetensors")
    assert is_head(folder)
    logits = unrolled(load(folder), 4, stored["hidden"], stored["ids"])
    assert torch.equal(
        torch.stack(logits), torch.stack(unrolled(load(made.HEADS / "llama"), 4, stored["hidden"], stored["ids"]))
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_size": 20}, "no multiple of the target's hidden size 20"),
        ({"hidden_size": 24}, "names 3 target layers but reads 2"),
        ({"num_hidden_layers": 3}, "the target has 3"),
    ],
)
def test_a_head_for_another_target_is_refused_with_the_mismatch(changes: dict[str, int], sentence: str):
    with pytest.raises(PairRefused, match=sentence):
        load(made.HEADS / "llama", **changes)


def test_a_head_for_a_smaller_vocabulary_is_refused():
    with pytest.raises(PairRefused, match="made for 24 tokens; the target has 99"):
        load_head(find_head(str(made.HEADS / "llama")), target_config(), torch.zeros(99, made.WIDTH), 99)


def test_a_broken_head_is_refused_with_a_sentence(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    del tensors["fc.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelUnavailable, match="lacks fc"):
        load(folder)
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="no safetensors"):
        load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match="no readable config"):
        load(folder)
    assert not is_head(folder)
