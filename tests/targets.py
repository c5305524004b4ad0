"""Targets of a step without a checkpoint, and what methods prune of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.selection.scores import TensorScores


def target(
    tensor: torch.Tensor,
    name: str = "w",
    remaining_mask: np.ndarray | None = None,
    layout: WeightLayout = USUAL,
    **files: torch.Tensor,
) -> Target:
    """Return a target with the elements of a tensor.

    Args:
        tensor: the parameter.
        name: its name.
        remaining_mask: boolean, one per element: which ones no earlier step pruned; None for all.
        layout: its output and input channels.
        files: by path, the tensor of this name in other files.
    """
    flat = None if remaining_mask is None else remaining_mask.reshape(-1)
    return Target(
        name=name,
        shape=tuple(tensor.shape),
        remaining=tensor.numel() if flat is None else int(flat.sum()),
        weights=TensorScores.of(tensor),
        other=lambda path, what: TensorScores.of(files[path]),
        remaining_mask=None if flat is None else lambda start, stop: flat[start:stop],
        layout=layout,
    )


def decide(
    method: str, *targets: Target, monitor: Monitor | None = None, **parameters: object
) -> list[Decision]:
    """Return what a method with some parameters decides on targets."""
    return METHODS[method].model_validate(parameters).decide(targets, monitor or Monitor())


def remaining_of(tensor: torch.Tensor, remaining_mask: np.ndarray | None = None) -> np.ndarray:
    """Return a flat boolean array of the elements that no earlier step pruned."""
    if remaining_mask is None:
        return np.ones(tensor.numel(), bool)
    return remaining_mask.reshape(-1)


def marked(
    decision: Decision, tensor: torch.Tensor, remaining_mask: np.ndarray | None = None
) -> np.ndarray:
    """Return a flat boolean array, True where a decision prunes a tensor, pruned before or not.

    The number in the decision and the marks of some spans are checked.
    """
    size = tensor.numel()
    if decision.predicate is None:
        assert decision.pruned == 0
        return np.zeros(size, bool)
    found = decision.predicate.prunes(0, size)
    assert decision.pruned == (found & remaining_of(tensor, remaining_mask)).sum()
    for start, stop in ((0, size // 3), (size // 3, size // 2), (size // 2, size), (size, size)):
        assert np.array_equal(decision.predicate.prunes(start, stop), found[start:stop])
    return found


def unread(
    shape: tuple[int, ...], name: str = "w", remaining_mask: np.ndarray | None = None
) -> Target:
    """Return a target whose weights are never read."""
    never = TensorScores(lambda: pytest.fail("was read"), shape, torch.float32)
    made = target(torch.empty(shape), name, remaining_mask)
    return replace(made, weights=never, other=lambda *_: never)
