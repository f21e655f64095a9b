"""Our GGUF reader and its arithmetic are, bit for bit, the `gguf` package's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specdemo.models.gguf import F32, GGUF, Q4_1, Q8_0, dequantise

gguf = pytest.importorskip("gguf")

BLOCK_BYTES = {F32: 4 * 32, Q4_1: 20, Q8_0: 34}


def random_blocks(kind: int, blocks: int, seed: int) -> np.ndarray:
    """Bytes of whole blocks whose half-precision scales are finite, of every magnitude, subnormals included."""
    generator = np.random.default_rng(seed)
    data = generator.integers(0, 256, (blocks, BLOCK_BYTES[kind]), dtype=np.uint8)
    if kind != F32:
        data[:, 1] &= 0b10111011  # of an exponent of ones, which is infinity, one bit goes
        if kind == Q4_1:
            data[:, 3] &= 0b10111011
    return data


@pytest.mark.parametrize("kind", [Q4_1, Q8_0])
def test_dequantisation_is_bit_identical(kind: int) -> None:
    data = random_blocks(kind, 20_000, seed=kind)
    expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(kind)).reshape(-1)
    ours = dequantise(memoryview(data.tobytes()), kind, 20_000 * 32)
    assert ours.dtype == np.float32
    assert np.array_equal(ours.view(np.uint32), expected.view(np.uint32))


def test_half_precision_would_not_hold_the_weights() -> None:
    """scale * q + least needs more than 11 bits: why the converted folder is float32."""
    generator = np.random.default_rng(0)
    blocks = np.zeros(1000, [("scale", "<f2"), ("least", "<f2"), ("q", "u1", 16)])
    blocks["scale"], blocks["least"] = generator.normal(0, 0.01, 1000), generator.normal(0, 0.1, 1000)
    blocks["q"] = generator.integers(0, 256, (1000, 16))
    weights = dequantise(memoryview(blocks.tobytes()), Q4_1, 32_000)
    assert np.mean(weights.astype(np.float16).astype(np.float32) == weights) < 0.5


def test_an_unknown_tensor_type_is_named() -> None:
    with pytest.raises(ValueError, match="type 2 is not one of"):
        dequantise(memoryview(bytes(64)), 2, 32)


def test_what_the_package_writes_is_read_back(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    norm = generator.normal(size=7).astype(np.float32)
    matrix = generator.normal(size=(5, 64)).astype(np.float32)
    quantised = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q8_0)
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_block_count(3)
    writer.add_rope_freq_base(1e5)
    writer.add_add_bos_token(False)
    writer.add_token_list(["é", "Ġthe", ""])
    writer.add_token_types([1, 3, 1])
    writer.add_tensor("norm.weight", norm)
    writer.add_tensor("matrix.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ours = GGUF((tmp_path / "model.gguf").read_bytes())
    assert ours.metadata["general.architecture"] == "llama"
    assert ours.metadata["llama.block_count"] == 3
    assert ours.metadata["llama.rope.freq_base"] == 1e5
    assert ours.metadata["tokenizer.ggml.add_bos_token"] is False
    assert ours.metadata["tokenizer.ggml.tokens"] == ["é", "Ġthe", ""]
    assert ours.metadata["tokenizer.ggml.token_type"] == [1, 3, 1]
    tensors = dict(ours.tensors())
    assert len(ours) == 2
    assert np.array_equal(tensors["norm.weight"], norm)
    expected = gguf.quants.dequantize(quantised, gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(tensors["matrix.weight"], expected)


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a GGUF"):
        GGUF(bytes(100))
