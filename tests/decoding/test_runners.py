"""Every runner equals the model's own cacheless forward, whatever was prefilled, verified and taken back before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, MistralConfig, MistralForCausalLM, PreTrainedModel

from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.runner import PREFILL_CHUNK, Runner, prefill
from specdemo.models.general_runner import GeneralRunner, RunnerRefused
from specdemo.models.lean import lean_runner
from specdemo.models.memory import held_bytes
from tests.held import held
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3

LENGTH = 60
WINDOW = 8
TOLERANCE = 2e-4  # logits of these models reach 10 or so; fp32 forwards of two kinds differ by 1e-5
SHARED = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "sliding_window": WINDOW,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def sliding_mistral() -> MistralForCausalLM:
    """Every layer sees the last 8 tokens only."""
    torch.manual_seed(4)
    return MistralForCausalLM(MistralConfig(**SHARED)).eval()


def sliding_gemma3() -> Gemma3ForCausalLM:
    """Sliding layers among full ones, each kind with its own rotary table."""
    torch.manual_seed(5)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return Gemma3ForCausalLM(Gemma3TextConfig(**SHARED, layer_types=kinds, query_pre_attn_scalar=16)).eval()


MODELS = {
    "llama": tiny_llama,
    "qwen2": tiny_qwen2,
    "qwen3": tiny_qwen3,
    "gpt2": tiny_gpt2,
    "mistral": sliding_mistral,
    "gemma3": sliding_gemma3,
}
CASES = [(name, GeneralRunner) for name in MODELS] + [
    (name, lean_runner) for name in ("llama", "qwen2", "qwen3", "mistral")
]
every_runner = pytest.mark.parametrize(("name", "make"), CASES, ids=lambda v: v if isinstance(v, str) else v.__name__)


@cache
def model(name: str) -> PreTrainedModel:
    """Made once: tests only read it."""
    return MODELS[name]()


@cache
def runner(name: str, make: object) -> Runner:
    """One runner a model for all tests: whatever an earlier test left must not matter after `begin`."""
    return make(model(name))


@cache
def ids(name: str, length: int = LENGTH) -> torch.Tensor:
    """A fixed text."""
    generator = torch.Generator().manual_seed(11)
    return torch.randint(model(name).config.vocab_size, (length,), generator=generator)


@cache
def expected(name: str, length: int = LENGTH) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The model's own forward over the whole text at once: logits [length, vocab], hidden states [length, width]."""
    with torch.no_grad():
        out = model(name)(ids(name, length)[None], use_cache=False, output_hidden_states=True)
    return out.logits[0], [h[0] for h in out.hidden_states]


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.shape == want.shape
    torch.testing.assert_close(got.clone(), want, atol=TOLERANCE, rtol=TOLERANCE)


@every_runner
def test_prefill_then_steps_then_rows_equal_one_cacheless_forward(name: str, make: object) -> None:
    run, text, (logits, _) = runner(name, make), ids(name), expected(name)
    run.begin(LENGTH)
    assert_close(run.forward(text[:20], 1).logits, logits[19:20])
    for i in range(20, 25):
        assert_close(run.forward(text[i : i + 1], 1).logits, logits[i : i + 1])
    assert_close(run.forward(text[25:42], 17).logits, logits[25:42])
    assert run.length == 42


@every_runner
def test_refused_drafts_leave_no_trace(name: str, make: object) -> None:
    run, text, (logits, _) = runner(name, make), ids(name), expected(name)
    wrong = (text + 1) % run.vocab_size
    run.begin(LENGTH)
    run.forward(text[:20], 0)
    for start in range(20, 50, 3):
        run.forward(wrong[start : start + 9], 9)
        run.rewind(start)
        assert_close(run.forward(text[start : start + 3], 3).logits, logits[start : start + 3])


@every_runner
def test_keys_and_values_after_rewinds_equal_a_fresh_prefill(name: str, make: object) -> None:
    run, fresh, text = runner(name, make), make(model(name)), ids(name)
    run.begin(LENGTH)
    run.forward(text[:10], 1)
    for start in range(10, 40, 2):
        run.forward((text[start : start + 5] + 1) % run.vocab_size, 5)
        run.rewind(start)
        run.forward(text[start : start + 2], 2)
    fresh.begin(LENGTH)
    fresh.forward(text[:40], 1)
    for index in range(model(name).config.num_hidden_layers):
        for ours, theirs in zip(held(run.kv, index), held(fresh.kv, index), strict=True):
            assert_close(ours, theirs)


@every_runner
def test_named_layers_give_what_they_put_out(name: str, make: object) -> None:
    run, text, (logits, hidden) = runner(name, make), ids(name), expected(name)
    run.begin(LENGTH)
    out = run.forward(text[:20], 1, aux_layers=(0, 1) if len(hidden) > 3 else (0,))
    wanted = hidden[1:3] if len(hidden) > 3 else hidden[1:2]  # the last hidden state is normed: no layer's output
    assert_close(out.hidden, torch.cat([h[:20] for h in wanted], dim=-1))
    again = run.forward(text[20:25], 5, aux_layers=(0,))
    assert_close(again.hidden, hidden[1][20:25])
    assert_close(again.logits, logits[20:25])
    assert run.forward(text[25:26], 1).hidden is None


@every_runner
def test_the_last_layer_is_named_by_its_number_too(name: str, make: object) -> None:
    """Its output, put through the last norm and the head, is the logits."""
    run, text, (logits, _) = runner(name, make), ids(name), expected(name)
    run.begin(LENGTH)
    last = model(name).config.num_hidden_layers - 1
    hidden = run.forward(text[:9], 0, aux_layers=(last,)).hidden
    decoder = model(name).get_decoder()
    norm = decoder.ln_f if name == "gpt2" else decoder.norm
    with torch.no_grad():
        assert_close(model(name).lm_head(norm(hidden.clone())), logits[:9])


@every_runner
def test_no_rows_asked_for_no_head_run(name: str, make: object) -> None:
    run, text, (logits, _) = runner(name, make), ids(name), expected(name)
    calls = []
    head = model(name).get_output_embeddings().register_forward_hook(lambda *_: calls.append(1))
    run.begin(LENGTH)
    assert run.forward(text[:20], 0).logits.shape == (0, run.vocab_size)
    head.remove()
    assert not calls
    assert_close(run.forward(text[20:21], 1).logits, logits[20:21])


@every_runner
def test_logits_are_cut_to_the_shared_vocabulary(name: str, make: object) -> None:
    cut = GeneralRunner(model(name), 77) if make is GeneralRunner else runner(name, make).twin(77)
    cut.begin(LENGTH)
    assert cut.vocab_size == 77
    assert_close(cut.forward(ids(name)[:9], 4).logits, expected(name)[0][5:9, :77])


@every_runner
def test_a_long_prompt_in_chunks_equals_one_forward(name: str, make: object) -> None:
    """Longer than one chunk, so a chunk of many rows stands behind held tokens."""
    length = 2 * PREFILL_CHUNK
    if model(name).config.max_position_embeddings < length:
        pytest.skip("its context is shorter than two chunks")
    run, text, (logits, _) = runner(name, make), ids(name, length), expected(name, length)
    run.begin(length)
    run.forward(text[:100], 0)
    assert_close(prefill(run, text[100:]).logits, logits[-1:])


@every_runner
@settings(max_examples=10, deadline=None)
@given(moves=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=8))
def test_any_sequence_of_forwards_and_rewinds_ends_where_one_forward_does(
    name: str, make: object, moves: list[tuple[int, int]]
) -> None:
    run, text, (logits, _) = runner(name, make), ids(name), expected(name)
    run.begin(LENGTH)
    for n, back in moves:
        n = min(n, LENGTH - run.length)
        if n:
            start = run.length
            assert_close(run.forward(text[start : start + n], n).logits, logits[start : start + n])
        run.rewind(max(run.length - back, 0))


def test_the_window_matters_to_these_texts() -> None:
    """Otherwise the tests above would pass without one."""
    wide = MistralForCausalLM(MistralConfig(**{**SHARED, "sliding_window": None})).eval()
    wide.load_state_dict(model("mistral").state_dict())
    with torch.no_grad():
        without = wide(ids("mistral")[None], use_cache=False).logits[0]
    assert (without - expected("mistral")[0])[WINDOW + 1 :].abs().max() > 1


def test_a_model_keeps_its_own_attention_outside_the_runner() -> None:
    before = model("llama").config._attn_implementation
    run = runner("llama", GeneralRunner)
    run.begin(LENGTH)
    run.forward(ids("llama")[:5], 1)
    assert model("llama").config._attn_implementation == before == "sdpa"


def test_models_with_a_running_state_are_refused_by_name() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    mamba = MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(RunnerRefused, match=r"mamba models carry a running state"):
        GeneralRunner(mamba)


def test_hybrid_models_are_refused_by_name() -> None:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    config = Lfm2Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    with pytest.raises(RunnerRefused, match="lfm2 models keep more than keys and values"):
        GeneralRunner(Lfm2ForCausalLM(config))


def test_lean_runners_are_what_the_lean_cases_test() -> None:
    assert all(isinstance(runner(name, make), LeanRunner) for name, make in CASES if make is lean_runner)


@pytest.mark.parametrize("build", [tiny_llama, tiny_qwen2, tiny_qwen3])
def test_where_nothing_is_packed_a_models_weights_are_held_once(
    build: Callable[[], PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: what the runner stacks is what the model goes on with, and it computes what it did."""
    monkeypatch.setattr("specdemo.decoding.linear.packs", lambda device, dtype: False)
    model = build()
    ids = torch.arange(9)
    bytes_held = held_bytes(model)
    with torch.inference_mode():
        before = model(ids[None]).logits
        runner = lean_runner(model)
        assert torch.equal(model(ids[None]).logits, before)
        runner.begin(16)
        torch.testing.assert_close(runner.forward(ids, 9).logits, before[0], rtol=TOLERANCE, atol=TOLERANCE)
    ours = [w for layer in runner.weights.layers for w in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    storages = {one.weight.untyped_storage().data_ptr() for one in ours}
    theirs = [m.weight for m in model.model.layers.modules() if isinstance(m, torch.nn.Linear)]
    assert {weight.untyped_storage().data_ptr() for weight in theirs} == storages
    assert held_bytes(model) == bytes_held
