"""Small checkpoints in shards, whose tensors take several tasks each on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

INDEX = "model.safetensors.index.json"
TORCH_INDEX = "pytorch_model.bin.index.json"


def write_shards(folder: Path, shards: Mapping[str, Mapping[str, torch.Tensor]]) -> Path:
    """Write shards by their names, and their index; those named .bin are of torch."""
    folder.mkdir(exist_ok=True)
    for name, tensors in shards.items():
        save = torch.save if name.endswith(".bin") else save_file
        save(dict(tensors), folder / name)
    tensors_of = {key: name for name, tensors in shards.items() for key in tensors}
    index = folder / (TORCH_INDEX if next(iter(shards), "").endswith(".bin") else INDEX)
    index.write_text(json.dumps({"metadata": {}, "weight_map": tensors_of}))
    return folder


def divided(
    tensors: Mapping[str, torch.Tensor], name_of: Callable[[int, str], str]
) -> dict[str, dict[str, torch.Tensor]]:
    """Return tensors by the name of their shard, which follows from their number and their key."""
    shards: dict[str, dict[str, torch.Tensor]] = {}
    for number, (key, tensor) in enumerate(tensors.items()):
        shards.setdefault(name_of(number, key), {})[key] = tensor
    return shards


def tied_weights(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return random weights with many equal ones, so that every cut is among ties."""
    return (torch.randn(shape) * 50).round().div(32).to(dtype)
