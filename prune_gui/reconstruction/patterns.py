"""What a step leaves open: how many weights it keeps, and in which groups, but not which ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.layer_adaptive import Erk, Lamp
from prune_gui.pruning.methods.n_m import NM
from prune_gui.pruning.methods.structured import LnStructuredMethod
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.pruning.selection.radix_select import smallest

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution

Choose = Callable[[Tensor], Tensor]
"""Takes scores (rows, columns), at least 0, and returns the mask of what to keep, bool."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is decided of the mask of a weight.

    Attributes:
        mask: the mask of the recipe, of the shape of the weight, True where kept.
        choose: keeps as many weights as the recipe, in the same pattern, by other scores; None if
            the mask of the recipe counts as it is.
    """

    mask: Tensor
    choose: Choose | None


def pattern_of(resolution: Resolution, name: str, *, choose: bool) -> Pattern | None:
    """Return the pattern of a parameter; None if no step prunes it.

    The mask is open if a single step made it that ranks the absolute weights; a recipe that names
    other scores, or a file of masks, has chosen already.

    Args:
        choose: False to keep all masks of the recipe.
    """
    applied = resolution.layers.get(name, ())
    if not applied or not resolution.counts[name][0]:
        return None
    mask = resolution.mask(name)
    if not choose or len(applied) > 1 or applied[0].step < 1:
        return Pattern(mask, None)
    return Pattern(mask, _chooser(resolution.recipe.steps[applied[0].step - 1].method, mask))


def _chooser(method: Method, mask: Tensor) -> Choose | None:
    if not method.ranks_weights or mask.dim() < 2:
        return None
    matrix = mask.flatten(1)
    rows, columns = matrix.shape
    match method:
        case L1UnstructuredMethod(scope="row"):
            counts = matrix.sum(1)
            return partial(_in_rows, int(counts[0])) if bool((counts == counts[0]).all()) else None
        case L1UnstructuredMethod() | Lamp() | Erk():
            return partial(largest, int(mask.sum()))
        case NM(dim="input" | 1, flatten=flatten, n=n, m=m):
            is_along_rows = mask.dim() == 2 or flatten
            return partial(_in_groups, n, m) if is_along_rows and not columns % m else None
        case Block(height=height, width=width):
            if rows % height or columns % width:
                return None
            grid = matrix.view(rows // height, height, columns // width, width)
            return partial(_blocks, height, width, int(grid.any(3).any(1).sum()))
        case LnStructuredMethod(dim="output" | 0):
            return partial(_output_channels, int(matrix.any(1).sum()))
        case LnStructuredMethod(dim="input" | 1):
            kernel = math.prod(mask.shape[2:])
            kept = int(matrix.view(rows, -1, kernel).any(2).any(0).sum())
            return partial(_input_channels, kernel, kept)
    return None


def largest(count: int, scores: Tensor) -> Tensor:
    """Return the mask of the `count` largest scores of all; of equal ones, the last."""
    return ~smallest(scores.flatten(), scores.numel() - count).view(scores.shape)


def _in_rows(count: int, scores: Tensor) -> Tensor:
    order = scores.topk(count, dim=1, sorted=False).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True)


def _in_groups(n: int, m: int, scores: Tensor) -> Tensor:
    return _in_rows(n, scores.reshape(-1, m)).view(scores.shape)


def _blocks(height: int, width: int, count: int, scores: Tensor) -> Tensor:
    rows, columns = scores.shape
    grid = scores.view(rows // height, height, columns // width, width)
    kept = largest(count, grid.square().sum((1, 3)))
    return kept[:, None, :, None].expand(grid.shape).reshape(scores.shape)


def _output_channels(count: int, scores: Tensor) -> Tensor:
    return largest(count, scores.square().sum(1))[:, None].expand(scores.shape)


def _input_channels(kernel: int, count: int, scores: Tensor) -> Tensor:
    energies = scores.square().sum(0).view(-1, kernel).sum(1)
    return largest(count, energies).repeat_interleave(kernel).expand(scores.shape)
