"""Targets of a step without a checkpoint."""

from __future__ import annotations

import numpy as np
import torch

from prune_gui.pruning.decisions.target import Target
from prune_gui.pruning.layouts import USUAL, WeightLayout
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
