"""Resolutions of tensors in memory, without a file."""

from __future__ import annotations

import torch

from prune_gui.checkpoint.in_memory import InMemory
from prune_gui.recipe import Recipe, Resolution, resolve


def resolved(
    *steps: dict[str, object], start: str = "dense", **tensors: torch.Tensor
) -> Resolution:
    """Return the resolution of steps (as in a recipe file) for tensors; "__" is a dot in names."""
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    recipe = Recipe.model_validate(
        {"start": start, "steps": [{"targets": ["*"], **step} for step in steps]}
    )
    return resolve(recipe, InMemory(named))
