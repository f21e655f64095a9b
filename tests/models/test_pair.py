"""A draft that cannot speak for its target is refused before anything loads; a pair is what it says it is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models import pair as pair_module
from specdemo.models import pair_options
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.loading import find_model
from specdemo.models.pair import Pair, load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.pairing import shared_vocabulary
from specdemo.models.presets import drafts_for
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import noised, tiny_gpt2, tiny_llama, tiny_qwen2

Save = Callable[..., Path]


def width(save: Save, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, other: Path) -> int:
    return shared_vocabulary(find_model(str(save("target", model, tokenizer))), find_model(str(other)))


# --- may they be paired?


def test_equal_vocabularies_are_shared_whole(save_model: Save) -> None:
    draft = save_model("draft", tiny_qwen2(256))
    assert width(save_model, tiny_llama(256), word_tokenizer(256), draft) == 256


@pytest.mark.parametrize(("ours", "theirs"), [(256, 200), (200, 256)])
def test_padding_beyond_the_tokenizer_is_cut_off(save_model: Save, ours: int, theirs: int) -> None:
    draft = save_model("draft", tiny_qwen2(theirs), word_tokenizer(190))
    assert width(save_model, tiny_llama(ours), word_tokenizer(190), draft) == 200


@pytest.mark.usefixtures("nothing_loads")
def test_the_first_token_that_differs_is_named(save_model: Save) -> None:
    target = save_model("target", tiny_llama(256), word_tokenizer(256))
    draft = save_model("draft", tiny_llama(256), word_tokenizer(256, {77: "foo", 99: "bar"}))
    with pytest.raises(PairRefused, match=r"draft cannot draft for target: token 77 is 'ō' for the target and 'foo'"):
        load_pair(PairSpec(str(target), str(draft), device="cpu"))


@pytest.mark.usefixtures("nothing_loads")
def test_a_refusal_suggests_drafts_that_are_known_to_fit() -> None:
    assert drafts_for("Qwen/Qwen2.5-7B-Instruct", "qwen2", 152064) == ["Qwen/Qwen2.5-0.5B-Instruct"]
    assert drafts_for("me/my-own-qwen3", "qwen3", 151936) == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"]
    assert "RedHatAI/Qwen3-8B-speculator.eagle3" in drafts_for("Qwen/Qwen3-8B", "qwen3", 151936)
    assert drafts_for("me/other", "gpt2", 50257) == []


def test_a_refusal_suggests_ngram_lookup(save_model: Save) -> None:
    target = save_model("target", tiny_llama(256), word_tokenizer(256))
    draft = save_model("draft", tiny_llama(256), word_tokenizer(256, {1: "<end>"}))
    with pytest.raises(PairRefused, match=r"token 1 is '</s>' .* n-gram lookup"):
        load_pair(PairSpec(str(target), str(draft), device="cpu"))


def test_a_draft_that_lacks_tokens_of_the_target_is_refused(save_model: Save) -> None:
    draft = save_model("draft", tiny_llama(200))
    with pytest.raises(PairRefused, match="the draft has no token 200, which is "):
        width(save_model, tiny_llama(256), word_tokenizer(256), draft)


def test_a_draft_that_lacks_a_special_token_is_refused_however_wide_its_head(save_model: Save) -> None:
    ours, theirs = word_tokenizer(200), word_tokenizer(200)
    ours.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    draft = save_model("draft", tiny_llama(256), theirs)
    with pytest.raises(PairRefused, match=r"no token 200, which is '<\|im_end\|>'"):
        width(save_model, tiny_llama(256), ours, draft)


def test_a_draft_may_lack_what_stands_for_a_picture(save_model: Save) -> None:
    """Gemma 3 12B and 1B: the larger one's image token lies behind the last row of the smaller one's head."""
    ours = word_tokenizer(200)
    ours.add_special_tokens({"additional_special_tokens": ["<image_soft_token>"]})
    model = tiny_llama(256)
    draft = save_model("draft", tiny_llama(200), ours)
    with pytest.raises(PairRefused, match="no token 200, which is '<image_soft_token>'"):
        width(save_model, model, ours, draft)
    model.config.image_token_id = 200
    assert width(save_model, model, ours, draft) == 200


def test_the_context_is_the_shorter_of_the_two(save_model: Save) -> None:
    short = tiny_llama(256)
    short.config.max_position_embeddings = 64
    target, draft = save_model("target", tiny_llama(256)), save_model("draft", short)
    for one, other in ((target, draft), (draft, target)):
        pair = load_pair(PairSpec(str(one), str(other), device="cpu", target_precision="fp32"))
        assert (pair.context, pair.facts["context"]) == (64, "64")


def test_a_draft_that_knows_more_tokens_is_welcome(save_model: Save) -> None:
    draft = save_model("draft", tiny_llama(256), word_tokenizer(256))
    assert width(save_model, tiny_llama(200), word_tokenizer(200), draft) == 200


# --- what was loaded


@pytest.fixture
def llama_pair(save_model: Save) -> Pair:
    target = save_model("target", tiny_llama(256))
    draft = save_model("draft", noised(tiny_llama(256), 0.03))
    return load_pair(PairSpec(str(target), str(draft), device="cpu", target_precision="fp32"))


def test_a_pair_says_what_was_loaded(llama_pair: Pair) -> None:
    assert isinstance(llama_pair.drafter, ModelDrafter)
    assert llama_pair.facts["target"] == "target"
    assert llama_pair.facts["drafter"] == "draft"
    assert llama_pair.facts["draft precision"] == "fp32"
    assert llama_pair.facts["target parameters"] == f"{tiny_llama(256).num_parameters():,}"
    assert llama_pair.facts["vocabulary"] == "256"
    assert llama_pair.facts["device"] == "cpu"
    assert llama_pair.context == 512
    assert llama_pair.eos_ids == {1}


def test_switching_the_drafter_keeps_the_target(llama_pair: Pair) -> None:
    other = llama_pair.switch_drafter("ngram")
    assert isinstance(other.drafter, NgramDrafter)
    assert other.target is llama_pair.target
    assert other.target_twin is llama_pair.target_twin
    assert other.facts["drafter"] == "n-gram lookup"
    assert "draft precision" not in other.facts
    back = other.switch_drafter(llama_pair.spec.drafter, "int8")
    assert back.facts["draft precision"].startswith("int8")
    assert llama_pair.facts["draft precision"] == "fp32"


def test_a_refused_drafter_leaves_the_pair_as_it_was(llama_pair: Pair, save_model: Save) -> None:
    stranger = save_model("stranger", tiny_gpt2(128))
    with pytest.raises(PairRefused):
        llama_pair.switch_drafter(str(stranger))
    with pytest.raises(ModelUnavailable):
        llama_pair.switch_drafter("./nowhere")
    assert isinstance(llama_pair.drafter, ModelDrafter)


def test_padded_heads_are_cut_in_every_runner(save_model: Save) -> None:
    target = save_model("target", tiny_llama(256), word_tokenizer(190))
    draft = save_model("draft", tiny_llama(200), word_tokenizer(190))
    pair = load_pair(PairSpec(str(target), str(draft), device="cpu"))
    assert [runner.vocab_size for runner in (pair.target, pair.target_twin, pair.drafter.runner)] == [200] * 3
    assert pair.facts["vocabulary"] == "200, cut from 256 to what the draft shares"
    assert pair.switch_drafter("ngram").target.vocab_size == 256


def test_every_end_of_text_is_one(save_model: Save) -> None:
    model = tiny_llama(256)
    model.config.eos_token_id = 7
    model.generation_config.eos_token_id = [5, 6]
    pair = load_pair(PairSpec(str(save_model("target", model)), device="cpu"))
    assert pair.eos_ids == {1, 5, 6, 7}


def test_a_model_without_an_end_of_text_has_none(save_model: Save) -> None:
    tokenizer = word_tokenizer(256)
    tokenizer.eos_token = None
    assert load_pair(PairSpec(str(save_model("target", tiny_llama(256), tokenizer)), device="cpu")).eos_ids == set()


@pytest.mark.embedded
def test_the_embedded_target() -> None:
    pair = load_pair(PairSpec(device="cpu"))
    assert pair.facts["target"] == "SmolLM2-135M-Instruct"
    assert pair.facts["target parameters"] == "134,515,008"
    assert (pair.eos_ids, pair.target.vocab_size) == ({2}, 49152)
    assert pair.context == 8192 - (2 if pair.target.shapes else 0)  # padded forwards need room for two surplus rows


# --- What a drafter's name may be


def test_a_model_may_be_combined_with_lookup(llama_pair: Pair) -> None:
    pair = llama_pair.switch_drafter(f"ngram+{llama_pair.spec.drafter}")
    assert isinstance(pair.drafter, CombinedDrafter)
    assert isinstance(pair.drafter.lookup, NgramDrafter) and isinstance(pair.drafter.model, ModelDrafter)
    assert pair.facts["drafter"] == "n-gram lookup, else draft"
    assert pair.target is llama_pair.target


def test_so_may_a_head(save_model: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """And "embedded" is the head that comes with the program."""
    monkeypatch.setattr(pair_module, "load_head", lambda source, *args: SimpleNamespace(aux_layers=(0,), max_length=99))
    monkeypatch.setattr(pair_module, "calibrate", lambda target, drafter: None)
    monkeypatch.setattr(pair_module, "refuse_unfit_head", lambda source, target: None)
    folder = save_model("head", tiny_llama(256))
    shape = {"model_type": "llama", **tiny_llama(256).config.to_dict(), "num_hidden_layers": 1}
    (folder / "config.json").write_text(
        json.dumps({"speculators_model_type": "eagle3", "transformer_layer_config": shape}, default=str)
    )
    for module in (pair_module, pair_options):
        monkeypatch.setattr(module, "SHIPPED_HEAD", folder)
    target = save_model("target", tiny_llama(256))
    pair = load_pair(PairSpec(str(target), "ngram+embedded", device="cpu"))
    assert isinstance(pair.drafter, CombinedDrafter) and pair.drafter.aux_layers == (0,) and pair.context == 99
    assert pair.facts["drafter"] == "n-gram lookup, else embedded (EAGLE-3 head)"
    assert pair.switch_drafter(str(folder)).facts["drafter"] == "head (EAGLE-3 head)"


@pytest.mark.usefixtures("nothing_loads")
def test_a_copy_without_the_head_says_what_to_take_instead(save_model: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_options, "SHIPPED_HEAD", Path("/nowhere"))
    target = save_model("target", tiny_llama(256))
    for drafter in ("embedded", "ngram+embedded"):
        with pytest.raises(ModelUnavailable, match=r"holds no head .* Take `ngram`"):
            load_pair(PairSpec(str(target), drafter, device="cpu"))


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("drafter", ["ngram+", "ngram+ngram", "ngram+ngram+x"])
def test_lookup_is_combined_with_something_else_once(save_model: Save, drafter: str) -> None:
    target = save_model("target", tiny_llama(256))
    with pytest.raises(PairRefused, match="before the name of a model or of a head"):
        load_pair(PairSpec(str(target), drafter, device="cpu"))


def test_another_target_than_the_embedded_one_begins_with_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_options, "DEFAULT_DRAFTER", "ngram+embedded")
    parser = argparse.ArgumentParser()
    pair_options.add_pair_options(parser)
    assert pair_options.pair_spec(parser.parse_args([])) == PairSpec("embedded", "ngram+embedded")
    assert pair_options.pair_spec(parser.parse_args(["--target", "x"])) == PairSpec("x", "ngram")
    assert pair_options.pair_spec(parser.parse_args(["--target", "x", "--drafter", "y"])) == PairSpec("x", "y")


def test_the_head_is_a_usual_drafter_of_its_target_where_it_is_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_options, "head_is_shipped", lambda: True)
    assert pair_options.usual_drafters("embedded") == ("ngram", "embedded", "ngram+embedded")
    assert pair_options.usual_drafters("another") == ("ngram",)
    monkeypatch.setattr(pair_options, "head_is_shipped", lambda: False)
    assert pair_options.usual_drafters("embedded") == ("ngram",)
