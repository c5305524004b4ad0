"""Resolutions of tensors in memory, without a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.recipe import Recipe, Resolution, resolve


class InMemory(Checkpoint):
    """A checkpoint of tensors in memory."""

    format = "torch"

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        raw = {
            name: RawTensor(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in tensors.items()
        }
        super().__init__(Path("in_memory.pt"), raw, {})
        self._tensors = tensors

    def read_key(self, key: str) -> torch.Tensor:
        return self._tensors[key]

    def missing_nbytes(self, names) -> int:
        return 0

    def fetch(self, monitor) -> None:
        pass

    def check(self) -> None:
        pass

    def file_states(self) -> Mapping[str, tuple[int, int]]:
        return {}

    def fingerprint(self, monitor) -> str:
        return "in memory"

    @property
    def model_files_folder(self) -> Path:
        return Path()

    def close(self) -> None:
        pass


def resolved(
    *steps: dict[str, object], start: str = "dense", **tensors: torch.Tensor
) -> Resolution:
    """Return the resolution of steps (as in a recipe file) for tensors; "__" is a dot in names."""
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    recipe = Recipe.model_validate(
        {"start": start, "steps": [{"targets": ["*"], **step} for step in steps]}
    )
    return resolve(recipe, InMemory(named))
