"""A model is loaded as asked, or refused with a sentence; what was really loaded is reported."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import errors
from transformers import T5Config

from specdemo.models import hub, loading
from specdemo.models.embedded import embedded_folder
from specdemo.models.errors import ModelUnavailable
from specdemo.models.head_files import find_head
from specdemo.models.loading import find_model, load_model, load_tokenizer, resolve_device
from specdemo.models.precision import Precision, parse_precision
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2

CPU = torch.device("cpu")
Save = Callable[..., Path]


@pytest.fixture
def llama(save_model: Save) -> Path:
    """Shapes that 4-bit takes everywhere: inputs in multiples of 64, outputs of 32."""
    return save_model("llama", tiny_llama())


def test_a_folder_is_loaded_as_it_was_saved(llama: Path) -> None:
    loaded = load_model(find_model(str(llama)), Precision.FP32, CPU)
    assert loaded.source.title == "llama"
    assert loaded.precision == "fp32"
    assert loaded.parameters == tiny_llama().num_parameters()
    ids = torch.arange(20)[None]
    assert torch.equal(loaded.model(ids).logits, tiny_llama()(ids).logits)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precisions(llama: Path, precision: str, dtype: torch.dtype) -> None:
    loaded = load_model(find_model(str(llama)), Precision(precision), CPU)
    assert loaded.precision == precision
    assert {weight.dtype for weight in loaded.model.parameters()} == {dtype}


@pytest.mark.parametrize(
    ("precision", "double", "said", "agreement"),
    [
        ("int8", False, "int8 (21 of 22 linear layers, the rest float32)", 0.75),
        ("int4", False, "int4 (nf4, 21 of 22 linear layers, the rest float32)", 0.15),
        ("int4", True, "int4 (nf4, double quantisation, 21 of 22 linear layers, the rest float32)", 0.15),
    ],
)
def test_quantised_models_run_on_a_cpu_and_say_what_they_are(
    llama: Path, precision: str, double: bool, said: str, agreement: float
) -> None:
    loaded = load_model(find_model(str(llama)), Precision(precision), CPU, double_quantisation=double)
    assert loaded.precision == said
    assert loaded.parameters == tiny_llama().num_parameters()
    ids = torch.arange(100)[None]
    with torch.inference_mode():
        ours, exact = (model(ids).logits[0].argmax(-1) for model in (loaded.model, tiny_llama()))
    assert (ours == exact).float().mean() >= agreement  # 0.004 by chance


def test_bitsandbytes_says_nothing_at_each_forward(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would warn at every int8 layer of every forward whose rows are not float16."""
    loaded = load_model(find_model(str(llama)), Precision.INT8, CPU)
    with torch.inference_mode():
        loaded.model(torch.arange(9)[None])
    assert not logging.getLogger("bitsandbytes.autograd._functions").isEnabledFor(logging.WARNING)
    assert not [record for record in caplog.records if record.name.startswith("bitsandbytes")]


def test_layers_that_are_not_linear_are_not_claimed_to_be_quantised(save_model: Save) -> None:
    folder = save_model("gpt2", tiny_gpt2())  # its Conv1D layers are quantised by bitsandbytes, its tied head is not
    loaded = load_model(find_model(str(folder)), Precision.INT8, CPU)
    assert loaded.precision.startswith("int8 (8 of 9 linear layers")


def test_shapes_that_4_bit_cannot_take_on_this_cpu_are_named(save_model: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitsandbytes.functional.has_avx512bf16", lambda: True)
    source = find_model(str(save_model("qwen2", tiny_qwen2())))
    with pytest.raises(ModelUnavailable, match=r"layer model\.layers\.0\..*_proj maps 48 to .* Choose int8"):
        load_model(source, Precision.INT4, CPU)


def test_a_request_that_was_not_honoured_is_an_error(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "loading_arguments", lambda *args: {"dtype": torch.float32})
    for precision in (Precision.INT8, Precision.BF16):
        with pytest.raises(ModelUnavailable, match=rf"{precision} was asked for, but the model came as torch\.float32"):
            load_model(find_model(str(llama)), precision, CPU)


def test_a_quantised_folder_takes_no_other_request(llama: Path, tmp_path: Path) -> None:
    loaded = load_model(find_model(str(llama)), Precision.INT8, CPU)
    loaded.model.save_pretrained(tmp_path / "quantised")
    loaded.source.tokenizer.save_pretrained(tmp_path / "quantised")
    source = find_model(str(tmp_path / "quantised"))
    assert load_model(source, Precision.INT8, CPU).precision == loaded.precision
    for precision in (Precision.FP32, Precision.INT4):
        with pytest.raises(ModelUnavailable, match=rf"stored quantised \(int8\) and cannot be loaded as {precision}"):
            load_model(source, precision, CPU)


def test_weights_stored_with_plain_scales_are_not_loaded_with_quantised_ones(llama: Path, tmp_path: Path) -> None:
    for double in (False, True):
        folder = tmp_path / f"double-{double}"
        loaded = load_model(find_model(str(llama)), Precision.INT4, CPU, double_quantisation=double)
        loaded.model.save_pretrained(folder)
        loaded.source.tokenizer.save_pretrained(folder)
        assert load_model(find_model(str(folder)), Precision.INT4, CPU).precision == loaded.precision
    source = find_model(str(folder))
    assert load_model(source, Precision.INT4, CPU, double_quantisation=True).precision == loaded.precision
    with pytest.raises(ModelUnavailable, match="stored in int4 without double quantisation"):
        load_model(find_model(str(tmp_path / "double-False")), Precision.INT4, CPU, double_quantisation=True)


def test_an_unknown_precision_is_refused_with_those_there_are() -> None:
    with pytest.raises(ModelUnavailable, match="no precision 'int3': choose one of fp32, bf16, fp16, int8, int4"):
        parse_precision("int3")


# --- what a folder may lack


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="There is no model folder"):
        find_model(str(tmp_path / "nowhere"))


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"not a transformers model: it has no config\.json"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("config", ['{"model_type": "nonsense"}', "{broken", '{"a": 1}'])
def test_a_config_of_no_known_model(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelUnavailable, match="cannot be loaded: "):
        find_model(str(tmp_path))


@pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads"])
@pytest.mark.parametrize("value", ["x", 0, [], None])
def test_a_config_with_hostile_values_is_refused_or_read(llama: Path, key: str, value: object) -> None:
    config = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(json.dumps(config | {key: value}))
    with contextlib.suppress(ModelUnavailable):
        find_model(str(llama))


@pytest.mark.parametrize("config", ["[]", "null", "7"])
def test_a_config_that_is_no_object(llama: Path, config: str) -> None:
    (llama / "config.json").write_text(config)
    assert find_head(str(llama)) is None
    with pytest.raises(ModelUnavailable, match="llama cannot be loaded"):
        find_model(str(llama))


@pytest.mark.parametrize("name", ["~nobody-of-this-name/model", "a" * 300])
@pytest.mark.parametrize("find", [find_model, find_head])
def test_a_name_that_no_file_can_have(name: str, find: Callable[[str], object]) -> None:
    with pytest.raises(ModelUnavailable, match="No model can be called"):
        find(name)


def test_no_tokenizer(tmp_path: Path) -> None:
    tiny_llama().save_pretrained(tmp_path)
    with pytest.raises(ModelUnavailable, match="holds no tokenizer"):
        find_model(str(tmp_path))


def test_no_weights(llama: Path) -> None:
    (llama / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="has no safetensors weights: "):
        load_model(find_model(str(llama)), Precision.FP32, CPU)


def test_pickled_weights_are_never_opened(llama: Path) -> None:
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"no safetensors weights \(it has pickled weights, which can run code"):
        load_model(find_model(str(llama)), Precision.FP32, CPU)


def test_damaged_weights(llama: Path) -> None:
    with (llama / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ModelUnavailable, match="weights of llama are damaged"):
        load_model(find_model(str(llama)), Precision.FP32, CPU)


def test_incomplete_weights_are_not_filled_with_random_numbers(llama: Path) -> None:
    config = json.loads((llama / "config.json").read_text())
    config["num_hidden_layers"] += 1
    (llama / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnavailable, match=r"lacks the weights of model\.layers\.3\."):
        load_model(find_model(str(llama)), Precision.FP32, CPU)


def test_another_kind_of_model(llama: Path) -> None:
    T5Config(d_model=16, num_layers=1, num_heads=2, d_ff=16, vocab_size=256).save_pretrained(llama)
    with pytest.raises(ModelUnavailable, match="is a t5 model, not a causal language model"):
        load_model(find_model(str(llama)), Precision.FP32, CPU)


# --- the hub


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.GatedRepoError, "some/model is gated. Accept its terms"),
        (errors.RevisionNotFoundError, "some/model has no revision v9. Name one of its branches, tags or commits"),
        (errors.RepositoryNotFoundError, "neither a folder nor a public hub repository some/model"),
        (errors.LocalEntryNotFoundError, "The model hub cannot be reached, and some/model is not in its cache"),
        (ConnectionError, "The model hub cannot be reached"),
        (errors.HFValidationError, "neither a folder nor the name of a hub repository"),
        (ValueError, "The model hub could not give some/model: because"),
    ],
)
def test_what_the_hub_refuses_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], sentence: str
) -> None:
    refusal = error.__new__(error, "because")
    monkeypatch.setattr(hub, "snapshot_download", raising(refusal))
    with pytest.raises(ModelUnavailable) as refused:
        find_model("some/model@v9")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "The model hub refuses this machine's token. Log in again with `hf auth login`"),
        (403, "This machine's token may not read some/model. Give it that right"),
    ],
)
def test_a_token_that_the_hub_refuses(monkeypatch: pytest.MonkeyPatch, status: int, sentence: str) -> None:
    error = errors.HfHubHTTPError.__new__(errors.HfHubHTTPError, "because")
    error.response = SimpleNamespace(status_code=status)
    monkeypatch.setattr(hub, "snapshot_download", raising(error))
    with pytest.raises(ModelUnavailable) as refused:
        find_model("some/model")
    assert sentence in str(refused.value)


def test_a_connection_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class TransportError(Exception):
        """As the client's HTTP library names the root of its own."""

    monkeypatch.setattr(hub, "snapshot_download", raising(type("ReadTimeout", (TransportError,), {})("")))
    with pytest.raises(ModelUnavailable, match="The model hub cannot be reached"):
        find_model("some/model")


def test_a_revision_is_named_behind_an_at(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot(repository: str, *, revision: str | None, **arguments: object) -> str:
        asked.append((repository, revision))
        return str(llama)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    load_model(find_model("some/model@v1"), Precision.FP32, CPU)
    assert asked == [("some/model", "v1")] * 2


def test_a_repository_of_pickled_weights_alone(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (llama / "model.safetensors").unlink()
    monkeypatch.setattr(hub, "snapshot_download", lambda *args, **arguments: str(llama))
    with pytest.raises(ModelUnavailable, match=r"no safetensors weights \(pickled ones are never read"):
        load_model(find_model("some/model"), Precision.FP32, CPU)


def test_a_disk_that_fills_up_under_a_hub_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "snapshot_download", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(ModelUnavailable, match="The disk is full: some/model does not fit"):
        find_model("some/model")


def test_a_hub_model_is_looked_up_before_its_weights_are_fetched(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot(repository: str, *, allow_patterns: list[str], **arguments: object) -> str:
        asked.append(allow_patterns)
        return str(llama)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    source = find_model("some/model")
    assert not any("safetensors" in pattern for pattern in asked[0])
    assert load_model(source, Precision.FP32, CPU).source.title == "some/model"
    assert "model*.safetensors" in asked[1]


def raising(error: Exception) -> Callable[..., str]:
    def snapshot(*args: object, **arguments: object) -> str:
        raise error

    return snapshot


# --- tokenizers and devices


@pytest.mark.embedded
def test_a_family_class_does_not_replace_the_tokenizer_that_the_folder_defines(tmp_path: Path) -> None:
    """SmolLM2's repositories name GPT2Tokenizer, which loses the rule that digits stand alone."""
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((embedded_folder() / name).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|im_end|>"}')
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer.encode("    1\n    22\n")) == 6
    assert tokenizer.eos_token_id == 2


def test_devices() -> None:
    assert resolve_device("cpu") == CPU
    assert resolve_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "meta", "cuda:99"):
        with pytest.raises(ModelUnavailable, match=name):
            resolve_device(name)


def test_a_numbered_cpu_is_the_cpu(llama: Path) -> None:
    device = resolve_device("cpu:0")
    assert load_model(find_model(str(llama)), Precision.FP32, device).model.device == CPU


def test_the_tiny_tokenizer_has_the_size_it_is_asked_for() -> None:
    assert len(word_tokenizer(100)) == 100
