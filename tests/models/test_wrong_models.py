"""Whoever brings a model that cannot be raced reads in one sentence why, and in the next what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    LlamaForSequenceClassification,
)

from specdemo.models import loading, memory
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.loading import find_model, load_model
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.precision import Precision
from specdemo.models.runners import RunnerRefused, make_runner
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2

CPU = torch.device("cpu")
HEAD = Path(__file__).parents[1] / "data" / "heads" / "llama"
Save = Callable[..., Path]


@pytest.fixture
def llama(save_model: Save) -> Path:
    return save_model("llama", tiny_llama())


def spec(target: object, drafter: object = "ngram", **rest: object) -> PairSpec:
    return PairSpec(str(target), str(drafter), **{"device": "cpu", "target_precision": "fp32", **rest})


def configure(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), "utf-8")


def refused(target: object, drafter: object = "ngram", **rest: object) -> str:
    with pytest.raises((ModelUnavailable, PairRefused)) as error:
        load_pair(spec(target, drafter, **rest))
    return str(error.value)


# --- names


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name(llama: Path, name: str) -> None:
    assert refused(name).startswith("No model is named. A model is a folder with config.json")
    assert refused(llama, name or "  ").startswith("No model is named.")


def test_a_file_and_a_folder_that_is_not_there(llama: Path) -> None:
    assert refused(llama / "model.safetensors").endswith("is a file. " + loading.WANTED)
    assert refused(llama / "nowhere").endswith(loading.WANTED)


# --- what is there is not a whole model


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("precision", ["auto", "fp32", "int4"])
def test_weights_quantised_by_another_method_are_refused_by_its_name(
    llama: Path, save_model: Save, role: str, precision: str
) -> None:
    stored = save_model("stored", tiny_llama())
    configure(stored, quantization_config={"quant_method": "awq", "bits": 4})
    pair = (stored, "ngram") if role == "target" else (llama, stored)
    said = refused(*pair, target_precision=precision)
    assert said.startswith("stored is stored quantised by another method (awq), which is not read here. Take the unq")


def test_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    assert "holds an adapter, not a whole model. Merge it into the model" in refused(tmp_path)


def test_a_head_as_target() -> None:
    assert refused(HEAD) == (
        "llama is a draft head, which cannot stand alone. Name the model it was made for as the target."
    )


@pytest.mark.parametrize("gone", ["shard", "index", "map"])
def test_weights_in_several_files_of_which_one_is_missing(tmp_path: Path, gone: str) -> None:
    tiny_llama().save_pretrained(tmp_path, max_shard_size="100KB")
    word_tokenizer(256).save_pretrained(tmp_path)
    shard = min(tmp_path.glob("model-*.safetensors"))
    index = tmp_path / loading.INDEX
    if gone == "map":
        index.write_text("[]")
    else:
        (shard if gone == "shard" else index).unlink()
    lacks = {"shard": shard.name, "index": loading.INDEX, "map": f"a readable {loading.INDEX}"}[gone]
    assert f"lacks {lacks}, so its weights are not complete. Fetch the missing files" in refused(tmp_path)


def test_pointers_in_place_of_weights(llama: Path) -> None:
    (llama / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "are pointers of Git LFS, not the weights themselves. Run `git lfs pull`" in refused(llama)


def test_weights_of_another_shape(llama: Path) -> None:
    configure(llama, num_key_value_heads=4)
    assert "have other shapes than its config.json says. The two do not belong together" in refused(llama)


@pytest.mark.usefixtures("nothing_loads")
def test_a_tokenizer_of_another_model(llama: Path, save_model: Save) -> None:
    small = save_model("small", tiny_llama(200), word_tokenizer(256))
    assert refused(small).startswith("The tokenizer of small has token 200, and the model has 200 in all. The two do")
    assert "The tokenizer of small has token 200" in refused(llama, small)


def test_a_special_token_behind_the_last_row_is_no_obstacle(save_model: Save) -> None:
    """Gemma 3's smallest model comes with one: nobody can type it, and the model never writes it."""
    tokenizer = word_tokenizer(256)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image_soft_token>"]})
    assert (
        find_model(str(save_model("model", tiny_llama(256), tokenizer))).tokenizer.get_vocab()["<image_soft_token>"]
        == 256
    )


def test_no_tokenizer_at_all(llama: Path) -> None:
    (llama / "tokenizer.json").unlink()
    assert "no tokenizer that can be read (it has no tokenizer.json). Put the tokenizer.json" in refused(llama)


# --- what writes no text, or not from left to right


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("kind", [BertForMaskedLM, LlamaForSequenceClassification])
def test_models_that_write_no_text_are_refused_by_what_they_were_saved_as(tmp_path: Path, kind: type) -> None:
    sizes = {"vocab_size": 256, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(**sizes, intermediate_size=16) if kind is BertForMaskedLM else tiny_llama(layers=1).config
    config.pad_token_id = 0
    kind(config).save_pretrained(tmp_path)
    word_tokenizer(256).save_pretrained(tmp_path)
    assert f"was saved as {kind.__name__}, which writes no text. Choose a model" in refused(tmp_path)


def test_a_model_that_sees_what_comes_later_is_found_by_what_it_computes() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**sizes, intermediate_size=32, initializer_range=0.3)
    with pytest.raises(RunnerRefused, match="bert models compute something else over a cache than without one"):
        make_runner(BertLMHeadModel(config).eval())
    config.is_decoder = True
    assert make_runner(BertLMHeadModel(config).eval()).length == 0


def test_a_forward_that_fails_over_our_cache_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_gpt2()
    own = type(model).forward

    def fails(self: object, *args: object, **named: object) -> object:
        if named.get("use_cache"):
            raise AttributeError("'_Layer' object has no attribute 'keys'")
        return own(self, *args, **named)

    monkeypatch.setattr(type(model), "forward", fails)
    with pytest.raises(RunnerRefused, match=r"gpt2 models cannot be run over a cache of ours \('_Layer' .*\)\. Choose"):
        make_runner(model)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_rounding_is_no_fault(save_model: Save, precision: str) -> None:
    loaded = load_model(find_model(str(save_model("model", tiny_gpt2()))), Precision(precision), CPU)
    assert make_runner(loaded.model).notice == "The lean forward does not know GPT2LMHeadModel models."


# --- before anything is read


@pytest.mark.usefixtures("nothing_loads")
def test_a_head_of_another_target(llama: Path) -> None:
    assert "of the target's hidden size 64: it was made for another target. Take a head that" in refused(llama, HEAD)


@pytest.mark.usefixtures("nothing_loads")
def test_shapes_that_4_bit_cannot_take_are_refused_before_the_weights_are_read(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitsandbytes.functional.has_avx512bf16", lambda: True)
    odd = find_model(str(save_model("odd", tiny_qwen2(256)))).config
    with pytest.raises(ModelUnavailable, match=r"layer model\.layers\.0\..* maps 48 to .* Choose int8"):
        memory.refuse_cpu_shapes(odd, Precision.INT4, CPU)
    memory.refuse_cpu_shapes(odd, Precision.INT8, CPU)
    memory.refuse_cpu_shapes(odd, Precision.INT4, torch.device("cuda"))
    memory.refuse_cpu_shapes(tiny_llama().config, Precision.INT4, CPU)
    with pytest.raises(ModelUnavailable, match=r"c_attn maps 48 to 144"):
        memory.refuse_cpu_shapes(tiny_gpt2().config, Precision.INT4, CPU)


def test_weights_that_were_left_elsewhere_are_named(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_pretrained = AutoModelForCausalLM.from_pretrained

    def offloads(*args: object, **named: object) -> object:
        model, found = from_pretrained(*args, **named)
        model.model.norm.to("meta")
        return model, found

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", offloads)
    assert "does not fit on cpu: model.norm.weight was left elsewhere. Choose a smaller" in refused(llama)
