"""GGUF files open with the shapes and values that the package gguf reads."""

from __future__ import annotations

import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf_files import TYPES, VALUES, tensors_in, write_gguf

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.tensor_info import QUANTIZED_TYPES, TENSOR_TYPES

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def test_the_types_are_those_of_ggml():
    for kind, sizes in GGML_QUANT_SIZES.items():
        dtype, *own_sizes = TENSOR_TYPES[kind]
        assert tuple(own_sizes) == sizes
        assert dtype == kind.name or dtype not in QUANTIZED_TYPES


@pytest.mark.parametrize("alignment", [32, 8, 128])
def test_a_file_opens_with_the_shapes_of_torch_and_the_bytes_of_gguf(tmp_path, alignment):
    path = write_gguf(tmp_path / "m.gguf", alignment=alignment)
    with open_checkpoint(path) as checkpoint:
        assert (checkpoint.format, checkpoint.keys) == ("gguf", tuple(TYPES))
        for name, (kind, dims, octets) in tensors_in(path).items():
            info = checkpoint.tensors[name]
            assert (info.shape, dims) == ((8, 64), [64, 8])
            assert (info.dtype, info.nbytes) == (DTYPES.get(kind, kind), len(octets))
            values = checkpoint.read(name)
            assert values.reshape(-1).view(torch.uint8).numpy().tobytes() == octets
            with checkpoint.stored_reader() as read:
                assert b"".join(map(bytes, read(name))) == octets
        assert torch.equal(checkpoint.read("blk.1.attn_q.weight"), torch.from_numpy(VALUES))


def test_quantized_tensors_are_shown_and_not_prunable(tmp_path):
    with open_checkpoint(write_gguf(tmp_path / "m.gguf")) as checkpoint:
        reasons = {info.dtype: info.not_prunable for info in checkpoint.tensors.values()}
    plain = dict.fromkeys(DTYPES.values())
    assert reasons == {**plain, "Q8_0": "quantized", "Q4_0": "quantized"}


def test_metadata_is_text_and_tells_the_heads(tmp_path):
    with open_checkpoint(write_gguf(tmp_path / "m.gguf")) as checkpoint:
        metadata = dict(checkpoint.metadata)
        assert metadata["general.name"] == "A model"
        assert (metadata["n.int8"], metadata["n.float64"], metadata["n.bool"]) == (
            "7",
            "0.1",
            "true",
        )
        assert "tokenizer.ggml.tokens" not in metadata
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
        assert checkpoint.hf_config == heads


def test_bytes_after_the_tensors_give_a_remark(tmp_path):
    path = write_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes() + bytes(100))
    with open_checkpoint(path) as checkpoint:
        [remark] = checkpoint.warnings
        assert "100 bytes after its tensors" in remark
