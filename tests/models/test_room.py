"""A pair that does not fit is refused with what would; one that does is loaded once, measured, and freed again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig

from specdemo.models import calibration, choice, memory, room
from specdemo.models import pair as pair_module
from specdemo.models.errors import MemoryShort, ModelUnavailable, PairRefused
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.loading import find_model, load_model
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.precision import Precision
from specdemo.race import Lane, Mode, Request, race
from specdemo.terminal import promised
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import noised, tiny_llama

CPU = torch.device("cpu")
Save = Callable[..., Path]


@pytest.fixture
def target(save_model: Save) -> str:
    return str(save_model("target", tiny_llama()))


@pytest.fixture
def draft(save_model: Save) -> str:
    return str(save_model("draft", noised(tiny_llama(), 0.03)))


def spec(target: str, drafter: str = "ngram", **rest: object) -> PairSpec:
    return PairSpec(target, drafter, **{"device": "cpu", "target_precision": "fp32", **rest})


def free(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda device: n)


# --- room


@pytest.mark.usefixtures("nothing_loads")
def test_what_does_not_fit_is_refused_with_the_numbers(
    target: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 1000)
    with pytest.raises(
        MemoryShort, match=r"target in fp32 with draft needs about .* MB on cpu \(weights .*\), and 1.0 kB are free"
    ):
        load_pair(spec(target, draft))


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.95, r"This would fit: both in int8 \(about"),
        (0.5, r"This would fit: the target in int. with n-gram lookup \(about"),
        (0.01, "take a smaller target, or free some memory"),
    ],
)
def test_what_would_fit_is_named(
    target: str, draft: str, monkeypatch: pytest.MonkeyPatch, share: float, said: str
) -> None:
    wanted = room.pair_need(*(find_model(name).config for name in (target, draft)), Precision.FP32, CPU)
    free(monkeypatch, int(share * wanted.peak))
    with pytest.raises(MemoryShort, match=said):
        load_pair(spec(target, draft))


@pytest.mark.usefixtures("nothing_loads")
def test_presets_that_fit_are_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 9 * 2**30)
    monkeypatch.setattr(room, "pair_need", lambda *args: _Need(10**11))
    with pytest.raises(MemoryShort, match=r"these presets do: smollm2-1\.7b, qwen3-1\.7b\."):
        load_pair(spec(target))


class _Need:
    def __init__(self, peak: int) -> None:
        self.peak = peak


def test_what_fits_narrowly_says_so(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = room.pair_need(find_model(target).config, None, Precision.FP32, CPU)
    free(monkeypatch, wanted.peak + 1)
    facts = load_pair(spec(target)).facts
    assert facts["memory"].endswith("it fits narrowly")
    assert "Memory: it fits narrowly, " + facts["narrow"] + " free are taken." in promised(facts)
    free(monkeypatch, 100 * wanted.peak)
    facts = load_pair(spec(target)).facts
    assert "narrowly" not in facts["memory"] and "narrow" not in facts


# --- memory that runs out


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), MemoryError()])
def test_running_out_while_loading_is_a_sentence_and_the_next_load_works(
    target: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run_out(*args: object, **kwargs: object) -> None:
        raise error

    with monkeypatch.context() as short:
        short.setattr(AutoModelForCausalLM, "from_pretrained", run_out)
        with pytest.raises(MemoryShort, match="target does not fit into the memory of cpu") as refused:
            load_model(find_model(target), Precision.FP32, CPU)
    assert refused.value.__context__ is None  # which would hold what was loaded so far
    assert load_model(find_model(target), Precision.FP32, CPU).precision == "fp32"


def test_running_out_in_a_race_says_what_to_lower_and_the_next_race_works(target: str, draft: str) -> None:
    pair = load_pair(spec(target, draft))
    request = Request(tuple(range(5, 15)), gamma=4, max_new_tokens=12, mode=Mode.ONE_AFTER_ANOTHER)
    before = [one.step.tokens for one in race(pair, request)]
    forward = type(pair.target_twin).forward

    def run_out(runner: object, ids: torch.Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> object:
        if runner is pair.target_twin and rows > 1:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.")
        return forward(runner, ids, rows, aux_layers)

    with pytest.MonkeyPatch.context() as short:
        short.setattr(type(pair.target_twin), "forward", run_out)
        with pytest.raises(MemoryShort, match=r"ran out .*10 tokens of prompt, up to 12 new ones, drafts of 4"):
            list(race(pair, request))
    assert [one.step.tokens for one in race(pair, request)] == before


def test_running_out_while_a_pair_is_made_ready_is_a_sentence_and_the_next_one_works(
    target: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading the draft beside the target, and what runs once both are there."""
    before = live_bytes()
    for stage in ("load_model", "probe"):
        with monkeypatch.context() as short:
            short.setattr(pair_module, stage, raising(torch.OutOfMemoryError("CUDA out of memory.")))
            with pytest.raises(MemoryShort, match=r"ran out while the pair was made ready\. Load the models in int8"):
                load_pair(spec(target, draft))
        assert live_bytes() == before, stage
    assert load_pair(spec(target, draft)).facts["drafter"] == "draft"


def test_another_draft_that_runs_out_of_memory_leaves_the_pair_as_it_was(
    target: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = load_pair(spec(target))
    request = Request(tuple(range(5, 15)), max_new_tokens=6)
    with monkeypatch.context() as short:
        short.setattr(pair_module, "calibrate", raising(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling")))
        with pytest.raises(MemoryShort, match="take a smaller draft or n-gram lookup"):
            pair.switch_drafter(draft)
    assert len(list(race(pair, request))) > 2


def raising(error: Exception) -> Callable[..., None]:
    def run_out(*args: object, **kwargs: object) -> None:
        raise error

    return run_out


def live_bytes() -> int:
    """Of every tensor that somebody still holds: what this process has allocated for them."""
    gc.collect()
    storages = {}
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor) and one.layout is torch.strided and one.device.type == "cpu":
            storage = one.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def test_what_is_allocated_goes_with_the_pair_that_is_switched_away(target: str, draft: str) -> None:
    """Plain, quantised, and with a drafter of its own: after every switch as much is held as by a fresh pair."""
    pair = load_pair(spec(target, target_precision="int8"))
    fresh = live_bytes()
    for other in (spec(target, draft), spec(draft, "self")):
        pair = load_pair(other)
        list(race(pair, Request(tuple(range(5, 15)), max_new_tokens=4)))
        assert live_bytes() > fresh
    pair = load_pair(spec(target, target_precision="int8"))
    assert live_bytes() == fresh and pair.facts["target"] == "target"


def test_models_that_are_switched_away_are_freed(target: str, draft: str) -> None:
    pair = load_pair(spec(target, draft))
    list(race(pair, Request(tuple(range(5, 15)), max_new_tokens=4)))
    gone = [weakref.ref(one) for one in (pair.loaded.model, pair.target, pair.drafter.runner)]
    pair = load_pair(spec(draft))
    gc.collect()
    assert [one() for one in gone] == [None, None, None]
    assert pair.facts["target"] == "draft"


# --- the same weights


def test_target_and_draft_of_the_same_weights_are_loaded_once(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    monkeypatch.setattr(choice, "load_model", lambda *args: loads.append(args) or load_model(*args))
    monkeypatch.setattr(pair_module, "load_model", lambda *args: loads.append(args) or load_model(*args))
    pair = load_pair(spec(target, target))
    assert len(loads) == 1
    assert pair.drafter.runner.weights is pair.target.weights and pair.drafter.runner is not pair.target
    load_pair(spec(target, target, draft_precision="int8"))
    assert len(loads) == 3
    alias = Path(target).with_name("alias")
    alias.symlink_to(target)
    load_pair(spec(target, str(alias)))
    assert len(loads) == 4


@pytest.mark.parametrize(("asked", "got"), [(None, "int8"), ("int4", r"int4 (nf4, 21 of"), ("int8", "int8")])
def test_the_target_drafts_for_itself_in_fewer_bits(target: str, asked: str | None, got: str) -> None:
    pair = load_pair(spec(target, "self", draft_precision=asked))
    assert pair.facts["draft precision"].startswith(got)
    assert pair.facts["target precision"] == "fp32"
    assert pair.draft_cost > 0
    assert pair.facts["draft cost"] == f"a drafted token costs {pair.draft_cost:.2f} of a plain step (c, measured)"
    emitted = {lane: [] for lane in Lane}
    for one in race(pair, Request(tuple(range(5, 15)), max_new_tokens=8)):
        emitted[one.lane].extend(token.id for token in one.step.tokens)
    assert emitted[Lane.BASELINE] == emitted[Lane.SPECULATIVE]


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize(("ours", "draft"), [("fp32", "fp32"), ("int8", "int8"), ("int4", "int8"), ("bf16", "fp16")])
def test_in_as_many_bits_it_would_be_as_dear(target: str, ours: str, draft: str) -> None:
    with pytest.raises(PairRefused, match="cost as much as the target: draft with them in int"):
        load_pair(spec(target, "self", target_precision=ours, draft_precision=draft))


# --- the measured costs


@pytest.mark.parametrize("asked", ["drafter", "ngram", "ngram+drafter"])
def test_rounds_are_timed_and_leave_all_empty(
    target: str, draft: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LENGTHS", (0, 3, 1, 3, 0, 1))
    pair = load_pair(spec(target, asked.replace("drafter", draft)))
    assert sorted(pair.calibration.verify) == [0, 1, 3], "each length has been verified"
    assert all(seconds > 0 for seconds in pair.calibration.verify.values())
    if asked == "ngram":
        assert pair.draft_cost is None
    else:
        drafts = pair.drafter if asked == "drafter" else pair.drafter.model
        assert pair.calibration.first > 0 and pair.draft_cost > 0 and drafts.runner.length == 0
    assert (pair.target.length, pair.target_twin.length) == (0, 0)


def test_contexts_too_short_to_measure_in_have_none() -> None:
    model = tiny_llama()
    model.config.max_position_embeddings = 8
    assert calibration.calibrate(GeneralRunner(model), None) is None


# --- what cannot be rewound


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_model_with_a_running_state_is_refused_by_name_before_it_is_loaded(
    tmp_path: Path, target: str, role: str
) -> None:
    folder = tmp_path / "recurrent"
    MambaConfig(vocab_size=256, hidden_size=8, num_hidden_layers=1, state_size=2).save_pretrained(folder)
    word_tokenizer(256).save_pretrained(folder)
    pair = (str(folder), "ngram") if role == "target" else (target, str(folder))
    with pytest.raises(PairRefused, match="mamba models carry a running state that cannot be taken back"):
        load_pair(spec(*pair))


@pytest.mark.usefixtures("nothing_loads")
def test_a_model_of_layers_of_several_kinds_is_refused_by_their_names(tmp_path: Path) -> None:
    from transformers import Lfm2Config

    folder = tmp_path / "hybrid"
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    Lfm2Config(vocab_size=256, layer_types=["conv", "full_attention"], **sizes).save_pretrained(folder)
    word_tokenizer(256).save_pretrained(folder)
    with pytest.raises(PairRefused, match=r"lfm2 models .* cannot be taken back"):
        load_pair(spec(str(folder)))


# --- a text model within a wrapper


def test_the_text_model_of_a_model_that_sees_is_raced_past_its_window(tmp_path: Path) -> None:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = {
        "vocab_size": 256,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "max_position_embeddings": 256,
        "query_pre_attn_scalar": 16,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    sees = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    folder = tmp_path / "wrapped"
    config = Gemma3Config(text_config=text, vision_config=sees, mm_tokens_per_image=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Gemma3ForConditionalGeneration(config).save_pretrained(folder)
    word_tokenizer(256).save_pretrained(folder)
    pair = load_pair(spec(str(folder), "ngram"))
    emitted = {lane: [] for lane in Lane}
    for one in race(pair, Request(tuple(range(5, 20)), max_new_tokens=24)):
        emitted[one.lane].extend(token.id for token in one.step.tokens)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([[*range(5, 20)]])
    with torch.inference_mode():
        stock = model.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=None)[0, 15:].tolist()
    assert emitted[Lane.SPECULATIVE] == emitted[Lane.BASELINE] == stock


def test_a_repository_that_wants_its_own_code_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}'
    )
    (tmp_path / "configuration_own.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ModelUnavailable, match=r"never run here \(trust_remote_code is off\): choose a model that"):
        find_model(str(tmp_path))


def test_how_the_caches_grow_is_said(target: str, draft: str) -> None:
    facts = load_pair(spec(target, draft)).facts
    config = find_model(target).config
    a_token = 3 * memory.cache_bytes(config, torch.float32, 1)  # two lanes, and a draft of the same shape
    assert facts["caches, each token"] == memory.gigabytes(a_token) == "2.3 kB"
    assert facts["caches"] == memory.gigabytes(1056 * a_token)  # of 1,024 tokens and a draft of 5


def test_another_drafter_needs_room_beside_the_target(target: str, draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = load_pair(spec(target))
    free(monkeypatch, 100_000)
    with pytest.raises(MemoryShort, match="target in fp32 with draft needs about"):
        pair.switch_drafter(draft)
    free(monkeypatch, 100_000_000)
    pair = pair.switch_drafter(draft)
    assert pair.facts["memory"].startswith("about ")
    free(monkeypatch, 0)
    assert pair.switch_drafter("ngram").facts["drafter"] == "n-gram lookup"
