"""Finding the states of optimizers inside the object that torch.load returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from prune_gui.checkpoint.torch.state_dict_search import OPTIMIZER_KEYS

MAX_DEPTH: Final = 4
"""The limit for the nesting of containers that are searched for optimizer states."""


def optimizer_states(content: object) -> list[Mapping[str, Any]]:
    """Return what `Optimizer.state_dict` returned, wherever it is in nested containers."""
    found: list[Mapping[str, Any]] = []
    level, seen = [content], set[int]()
    for _ in range(MAX_DEPTH):
        containers = [each for each in level if isinstance(each, dict | list | tuple)]
        level = []
        for each in containers:
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, dict) and each.keys() >= OPTIMIZER_KEYS:
                if isinstance(each["state"], dict) and isinstance(each["param_groups"], list):
                    found.append(each)
            else:
                level.extend(each.values() if isinstance(each, dict) else each)
    return found


def has_moments(content: object) -> bool:
    """Return whether an optimizer state has a tensor."""
    return any(
        isinstance(value, torch.Tensor)
        for optimizer in optimizer_states(content)
        for values in optimizer["state"].values()
        if isinstance(values, dict)
        for value in values.values()
    )
