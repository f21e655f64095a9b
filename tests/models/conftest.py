"""Fixtures for the models: the embedded target's folder and tokenizer, a cache of a test's own, tiny models on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.models import calibration, choice
from specdemo.models import pair as pair_module
from specdemo.models.embedded import embedded_folder
from specdemo.models.loading import load_tokenizer
from tests.models.tiny_tokenizers import word_tokenizer


@pytest.fixture(autouse=True)
def few_rounds_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair that is loaded runs two, not some thirty."""
    monkeypatch.setattr(calibration, "LENGTHS", (0, 4))


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The embedded target's folder, in the ordinary cache."""
    return embedded_folder()


@pytest.fixture(scope="session")
def tokenizer(embedded: Path) -> PreTrainedTokenizerBase:
    """The embedded target's tokenizer."""
    return load_tokenizer(embedded)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("SPECDEMO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights may be read."""

    def read(*args: object, **kwargs: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(pair_module, "load_model", read)
    monkeypatch.setattr(choice, "load_model", read)


@pytest.fixture
def save_model(tmp_path: Path) -> Callable[..., Path]:
    """save_model(name, model, tokenizer): an ordinary model folder."""

    def save(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None) -> Path:
        folder = tmp_path / name
        model.save_pretrained(folder)
        (tokenizer or word_tokenizer(model.config.vocab_size)).save_pretrained(folder)
        return folder

    return save
