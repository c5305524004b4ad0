"""GGUF files that the package gguf of llama.cpp writes and reads."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants

VALUES = np.random.default_rng(0).standard_normal((8, 64), np.float32)
TYPES = {
    "token_embd.weight": "Q8_0",
    "blk.0.attn_q.weight": "F16",
    "blk.0.attn_norm.weight": "F32",
    "blk.0.ffn_up.weight": "BF16",
    "blk.0.ffn_down.weight": "Q4_0",
    "blk.1.attn_q.weight": "F32",
}
"""The type of each tensor of a file, which all have the values `VALUES`."""


ELEMENTS = {"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}
"""Integers of the size of an element."""


def write_gguf(
    path: Path, types: Mapping[str, str] = TYPES, alignment: int = 32, **split: int
) -> Path:
    """Write a file with metadata of every type; `split` are arguments that divide it into parts."""
    writer = GGUFWriter(path, "llama", **split)
    writer.add_custom_alignment(alignment)
    writer.add_name("A model")
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_embedding_length(64)
    writer.add_token_list(["<s>", "ab", "\N{SNOWMAN}"])
    writer.add_token_scores([0.5, -1.0, 2.0])
    for kind in ("uint8", "int8", "uint16", "int16", "int32", "uint64", "int64"):
        getattr(writer, f"add_{kind}")(f"n.{kind}", 7)
    writer.add_float32("n.float32", 1e-5)
    writer.add_float64("n.float64", 0.1)
    writer.add_bool("n.bool", True)
    for name, kind in types.items():
        number = GGMLQuantizationType[kind]
        writer.add_tensor(name, quants.quantize(VALUES, number), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def fields_in(path: Path) -> list[tuple[str, object, object]]:
    fields = GGUFReader(path).fields.values()
    return [
        (field.name, field.types, field.contents())
        for field in fields
        if not field.name.startswith("GGUF.")
    ]


def tensors_in(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    return {
        tensor.name: (tensor.tensor_type.name, tensor.shape.tolist(), tensor.data.tobytes())
        for tensor in GGUFReader(path).tensors
    }
