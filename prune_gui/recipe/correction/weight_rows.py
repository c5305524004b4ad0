"""The weight of a layer as rows, each of which meets the input vectors of a recording."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rows_of(weight: Tensor, groups: int, *, transposed: bool) -> Tensor:
    """Return a view or a copy of a weight as (groups, rows, columns).

    The columns are those of `prune_gui.evaluation.calibration.layers.second_moments`.

    Args:
        weight: (rows, columns, ...) of `Linear` or `Conv`; (columns, rows) if transposed.
    """
    if transposed:
        weight = weight.mT
    return weight.reshape(groups, weight.shape[0] // groups, -1)


def from_rows(rows: Tensor, shape: tuple[int, ...], *, transposed: bool) -> Tensor:
    """Return the weight of a shape of which `rows_of` returns these rows."""
    if transposed:
        return rows.reshape(shape[1], shape[0]).mT.contiguous()
    return rows.reshape(shape)


def moments_fit(shape: tuple[int, ...], moments: tuple[int, ...], *, transposed: bool) -> bool:
    """Return whether second moments of a shape can be those of the inputs of a weight."""
    if len(shape) < 2 or len(moments) not in (2, 3) or moments[-1] != moments[-2]:
        return False
    groups = moments[0] if len(moments) == 3 else 1
    if transposed:
        return len(shape) == 2 and groups == 1 and moments[-1] == shape[0]
    return groups > 0 and shape[0] % groups == 0 and moments[-1] == math.prod(shape[1:])


def mean_outputs(weight: Tensor, means: Tensor, *, transposed: bool) -> Tensor:
    """Return the mean outputs of a layer without bias, float64 (rows,).

    Padding counts as if the mean of the channel were there.

    Args:
        weight: (rows, columns of a group, ...), or (columns, rows) if transposed.
    """
    weight, means = (weight.mT if transposed else weight).double(), means.double()
    groups = means.shape[0] // weight.shape[1]
    per_channel = weight.flatten(2).sum(2) if weight.dim() > 2 else weight
    outputs: Tensor = torch.unflatten(per_channel, 0, (groups, -1)) @ means.view(groups, -1, 1)
    return outputs.flatten()


def means_fit(shape: tuple[int, ...], means: tuple[int, ...], *, transposed: bool) -> bool:
    """Return whether means of a shape can be those of the input channels of a weight."""
    if len(shape) < 2 or len(means) != 1:
        return False
    rows, columns = (shape[1], shape[0]) if transposed else shape[:2]
    groups, rest = divmod(means[0], columns)
    return rest == 0 and groups > 0 and rows % groups == 0
