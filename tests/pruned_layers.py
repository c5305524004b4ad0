"""Layers of given weights, and what is pruned of them."""

from __future__ import annotations

import torch
from torch import nn


def layer_of(values: torch.Tensor) -> nn.Linear:
    """Return a layer whose weight has any values and shape."""
    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(values, requires_grad=values.requires_grad)
    return layer


def kept(layer: nn.Linear) -> list[list[int]]:
    """Return the mask of the weight as integers."""
    return layer.weight_mask.int().tolist()


def pruned_rows(layer: nn.Linear) -> list[int]:
    """Return the rows of the weight without a kept element."""
    return [i for i, row in enumerate(layer.weight_mask.float()) if not row.any()]
