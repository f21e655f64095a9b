"""The doctor says what the machine does and what each preset would need, and fetches nothing."""

from __future__ import annotations

import pytest
import torch

from specdemo import cli, doctor
from specdemo.doctor import Foreseen
from specdemo.models import ceilings
from specdemo.models.precision import Precision
from specdemo.models.presets import PRESETS

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def show() -> Foreseen:
    return Foreseen(CPU)


def test_each_preset_fits_the_card_it_is_for(show: Foreseen) -> None:
    """Counted as on a GPU: nothing packed, and CUDA's own share on top."""
    for preset in PRESETS.values():
        wanted = show.need(preset, Precision.BF16)
        assert wanted.target + wanted.draft + wanted.caches + wanted.logits + 1e9 < preset.memory * 2**30, preset.name
        assert show.need(preset, Precision.INT4).target < show.need(preset, Precision.INT8).target < wanted.target


def test_it_prints_the_machine_and_every_preset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ceilings.COPIED, "cpu", 1 << 20)
    monkeypatch.setitem(ceilings.SIDE, "cpu", 64)
    monkeypatch.setattr(doctor, "ASKED", (Precision.BF16,))
    assert cli.main(["doctor", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    for said in (
        "free memory",
        "copies move",
        "forward, fp32  lean",
        "promise, fp32",
        "none on this device",
        "embedded model",
    ):
        assert said in out, said
    assert all(name[:7] in out for name in PRESETS)


def test_one_preset_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--device", "cpu", "--preset", "llama-3.1-8b-eagle3", "--gamma", "3"]) == 0
    out = capsys.readouterr().out
    assert "target: meta-llama/Llama-3.1-8B-Instruct, 8,030,261,248 parameters, licence llama3.1, gated" in out
    assert "an EAGLE-3 head" in out and "int4:" in out and "8,192" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gamma", "17"], "a γ from 0 to 16"),
        (["--tokens", "0"], "at least one token"),
        (["--device", "gpu"], "The device 'gpu' cannot be used"),
    ],
)
def test_what_it_cannot_do_is_a_sentence(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert cli.main(["doctor", *options]) == 2
    assert said in capsys.readouterr().err
