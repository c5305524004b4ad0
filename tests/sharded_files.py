"""Small checkpoints in shards, whose tensors take several tasks each on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

INDEX = "model.safetensors.index.json"


def write_shards(folder: Path, shards: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Write shards by their names, and their index."""
    folder.mkdir()
    for name, tensors in shards.items():
        save_file(dict(tensors), folder / name)
    weight_map = {key: name for name, tensors in shards.items() for key in tensors}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def tied_weights(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return random weights with many equal ones, so that every cut is among ties."""
    return (torch.randn(shape) * 50).round().div(32).to(dtype)
