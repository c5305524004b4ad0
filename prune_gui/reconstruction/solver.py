"""The mask and the kept weights of one layer, for which its outputs change least.

For a dense weight W (rows, columns) and the second moments H = X^T X of its inputs, the pruned
weight V minimizes sum over rows of (v - w) H (v - w)^T under the pattern of its mask. H is damped
and scaled to a unit diagonal, with W scaled inversely; there, the first scores |w| are those of
Wanda (Sun et al., "A Simple and Effective Pruning Approach for Large Language Models", 2024).

The mask comes from the alternating direction method of multipliers, as in ALPS (Meng et al.,
"ALPS: Improved Optimization for Highly Sparse One-Shot Pruning for Large Language Models", 2024):
V is solved without a pattern but close to its pruned copy D, D is pruned to the pattern, and the
difference is carried on in the dual variable U; the penalty rho grows as the mask settles. Then
the kept weights are solved exactly, see `prune_gui.recipe.correction.least_squares`.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from prune_gui.monitor import check_cancelled
from prune_gui.reconstruction.patterns import Choose

ITERATIONS: Final = 60
FIRST_PENALTY: Final = 0.1
"""Of the mean diagonal of H, which is 1 after scaling."""
CHECK_EVERY: Final = 3
"""Iterations between two looks at how much the mask still changes."""
GROWTH: Final = ((0.1, 1.3), (0.005, 1.2), (0.0, 1.1))
"""The penalty grows by the second number while more than this share of the kept weights changes."""


def damped(moments: Tensor, damping: float) -> Tensor:
    """Return second moments (groups, columns, columns) that are positive definite.

    `damping` times the mean of the diagonal is added to it; and 1 where an input was always 0.
    """
    diagonal = moments.diagonal(dim1=-2, dim2=-1)
    added = damping * diagonal.mean(-1, keepdim=True) + (diagonal == 0).to(moments.dtype)
    return moments + torch.diag_embed(added)


def choose_mask(
    weight: Tensor, moments: Tensor, choose: Choose, iterations: int = ITERATIONS
) -> Tensor:
    """Return the mask of the pattern, (groups, rows, columns), True where kept.

    Args:
        weight: the dense weight, (groups, rows, columns), float32 or float64.
        moments: positive definite, (groups, columns, columns), of the same dtype.
        choose: see `Choose`; it sees the rows of all groups.
        iterations: an upper limit; the method ends when the mask no longer changes.
    """
    scale = moments.diagonal(dim1=-2, dim2=-1).rsqrt()[:, None]  # (groups, 1, columns)
    moments = moments * scale * scale.mT
    weight = weight / scale
    wanted = weight @ moments
    penalty = FIRST_PENALTY
    inverse = _inverse(moments, penalty)
    kept = last = _chosen(choose, weight)
    pruned, dual = weight * kept, torch.zeros_like(weight)
    for iteration in range(1, iterations + 1):
        check_cancelled()
        free = (wanted - dual + penalty * pruned) @ inverse
        shifted = free + dual / penalty
        kept = _chosen(choose, shifted)
        pruned = shifted * kept
        dual = dual + penalty * (free - pruned)
        if iteration % CHECK_EVERY == 0:
            changed = float((kept ^ last).sum() / (2 * kept.sum()).clamp_min(1))
            if not changed:
                break
            last = kept
            penalty *= next(factor for share, factor in GROWTH if changed > share)
            inverse = _inverse(moments, penalty)
    return kept


def _chosen(choose: Choose, values: Tensor) -> Tensor:
    return choose(values.abs().flatten(0, 1)).view(values.shape)


def _inverse(moments: Tensor, penalty: float) -> Tensor:
    shifted = moments.clone()
    shifted.diagonal(dim1=-2, dim2=-1).add_(penalty)
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))
