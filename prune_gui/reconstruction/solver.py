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

Optimal Brain Surgeon (Hassibi and Stork, "Second order derivatives for network pruning: Optimal
Brain Surgeon", 1993) removes the weight of least loss and updates all others; SparseGPT (Frantar
and Alistarh, "SparseGPT: Massive Language Models Can Be Accurately Pruned in One-Shot", 2023) does
so column by column, with masks that never change again; RIA (Zhang et al., "Plug-and-Play: An
Efficient Post-training Pruning Method for Large Language Models", 2024) relates |w| to its row and
column. All of them decide on one weight at a time; here the mask is found as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from prune_gui.monitor import check_cancelled
from prune_gui.pruning.selection.scores import is_on_cpu
from prune_gui.reconstruction.patterns import Choose
from prune_gui.reconstruction.products import multiplies_bfloat16

ITERATIONS: Final = 150
"""A limit: the masks of a Llama settle after 60 to 80, with few inputs after up to 150."""
FIRST_PENALTY: Final = 0.2
"""Of the geometric mean of the eigenvalues of H, scaled to a unit diagonal. That is 0.4 to 0.9 for
layers of a Llama, and a few hundredths where inputs are fewer than columns: most eigenvalues are
then the damping, beside which a larger penalty would leave the mask where it begins."""
SMALLEST_PENALTY: Final = 1e-3
"""With it, H is positive definite in float32 also where the damping is next to nothing."""
CHECK_EVERY: Final = 6
"""Iterations between two looks at whether the mask still changes; then the penalty grows. Looks
every 3 iterations with a growth of 1.1 give losses that differ by 0.01 % in the mean of 24 (layers
of a Llama), every 12 give 0.3 % more."""
GROWTH: Final = 1.21
"""What the penalty grows by at each look. Slower growth finds better masks: for layers of a Llama,
losses are 0.7 to 2 % below those of the schedule of ALPS, and a growth of half as much gains 0.2 to
0.8 % more in twice the time."""
HELD: Final = 3
"""Penalties for which one inverse is taken, that at the first: losses are 0.01 % smaller in the
mean of 24 than with an inverse for each, for 2 they are 0.03 % smaller, for 4 0.3 % larger. With
the inverse at the middle of 2 penalties they are 0.1 % larger."""
PART: Final = 1 << 22
"""Weights that are solved for together: several copies of them stay in a cache. With the buffers
that this saves, rows that are four times as many as columns take a fifth less time."""
ROUNDED_FROM: Final = 1 << 30
"""Multiplications for all rows from which products of bfloat16 save more than the copies cost."""
SMALLEST_DAMPING: Final = 1e-6
"""The one to try after 0."""


def damped(moments: Tensor, damping: float) -> tuple[Tensor, Tensor]:
    """Return second moments (groups, columns, columns) with damping, and their Cholesky factor.

    `damping` times the mean of the diagonal is added to it, and 1 where an input was always 0; ten
    times as much until they are positive definite.
    """
    diagonal = moments.diagonal(dim1=-2, dim2=-1)
    mean = diagonal.mean(-1, keepdim=True)
    while True:
        added = damping * mean + (diagonal == 0).to(moments.dtype)
        system = moments.clone()
        system.diagonal(dim1=-2, dim2=-1).add_(added)
        factor, failed = torch.linalg.cholesky_ex(system)
        if not bool(failed.any()):
            return system, factor
        damping = max(10 * damping, SMALLEST_DAMPING)


def choose_masks(
    weights: Sequence[Tensor],
    moments: Tensor,
    chooses: Sequence[Choose],
    iterations: int = ITERATIONS,
) -> list[tuple[Tensor, Tensor]]:
    """Return the masks of layers with the same inputs, True: kept, and nearly solved kept weights.

    Both are (groups, rows, columns); what the weights are elsewhere has no meaning.

    Args:
        weights: the dense weights, each (groups, rows, columns), float32 or float64.
        moments: positive definite, (groups, columns, columns), of the same dtype; overwritten.
        chooses: the pattern of each; it sees the rows of all groups.
        iterations: an upper limit; the method ends when the masks no longer change.
    """
    if not weights:
        return []
    sizes, columns = [weight.shape[1] for weight in weights], moments.shape[-1]

    def chosen(values: Tensor) -> Tensor:
        parts = zip(chooses, torch.split(values, sizes, 1), strict=True)
        return torch.cat([one(part.abs().flatten(0, 1)).view(part.shape) for one, part in parts], 1)

    scale = moments.diagonal(dim1=-2, dim2=-1).rsqrt()[:, None]  # (groups, 1, columns)
    moments.mul_(scale).mul_(scale.mT)
    weight = torch.cat(list(weights), 1).div_(scale)
    wanted = weight @ moments
    factor, failed = torch.linalg.cholesky_ex(moments)
    log_mean = factor.diagonal(dim1=-2, dim2=-1).log().mul_(2).mean()  # of the eigenvalues
    mean = 0.0 if bool(failed.any()) else math.exp(float(log_mean))
    penalty = max(FIRST_PENALTY * mean, SMALLEST_PENALTY)
    del factor
    solve = _Solve(moments, weight)
    solve.set_penalty(penalty)
    kept = last = chosen(weight)
    dual = torch.zeros_like(weight)  # divided by the penalty
    values = weight.mul_(kept)  # the pruned copy, less the dual; between, the solution and the dual
    size = max(columns, PART // columns)
    parts = [slice(start, start + size) for start in range(0, weight.shape[1], size)]
    for iteration in range(1, iterations + 1):
        check_cancelled()
        for rows in parts:
            right = torch.add(wanted[:, rows], values[:, rows], alpha=penalty)
            torch.add(solve(right, rows), dual[:, rows], out=values[:, rows])
        before, kept = kept, chosen(values)
        for rows in parts:
            part = values[:, rows]
            part.sub_(dual[:, rows].copy_(part).masked_fill_(kept[:, rows], 0.0), alpha=2)
        if iteration % CHECK_EVERY == 0:
            if torch.equal(kept, last) and torch.equal(kept, before):  # else it may be a cycle
                break
            last = kept
            penalty *= GROWTH
            dual /= GROWTH
            torch.where(kept, values, values / GROWTH, out=values)
            solve.set_penalty(penalty)
    solved = values.mul_(scale)
    return [*zip(torch.split(kept, sizes, 1), torch.split(solved, sizes, 1), strict=True)]


class _Solve:
    """Solves V (H + penalty I) = B, (groups, rows, columns), for parts of the rows.

    The inverse is that at the first of `HELD` penalties; what the penalty has grown by since, times
    the last V, is taken from B.

    Where bfloat16 is faster, only the first B after each inverse is solved for in float32, and from
    then on its change: as the changes become small, so do the errors. For layers of a Llama, the
    method takes as many iterations, and losses are 0.005 % larger in the mean of 24; with B itself
    in bfloat16 a tenth more iterations, and 0.03 %.
    """

    def __init__(self, moments: Tensor, like: Tensor) -> None:
        self._moments = moments
        self._penalties = 0
        self._solved = torch.zeros_like(like)
        is_large = like.numel() * like.shape[-1] >= ROUNDED_FROM
        self._rounds = is_large and like.dtype == torch.float32 and multiplies_bfloat16(like.device)
        if self._rounds:
            self._right = torch.empty_like(like)

    def set_penalty(self, penalty: float) -> None:
        """Let the penalty be one larger than before."""
        if self._penalties % HELD == 0:
            self._inverse = self._rounded = torch.empty(0)  # before memory for the next is taken
            self._inverse = _inverse(self._moments, penalty)
            if self._rounds:
                self._rounded = self._inverse.bfloat16()
            self._first, self._begun = penalty, set[int]()
        self._penalties += 1
        self._grown = penalty - self._first

    def __call__(self, right: Tensor, rows: slice) -> Tensor:
        """Return V of some rows; B is overwritten, and V is, by the next call."""
        solved = self._solved[:, rows]
        right.sub_(solved, alpha=self._grown)
        if self._rounds and rows.start in self._begun:
            solved += (right - self._right[:, rows]).bfloat16() @ self._rounded
        else:
            self._begun.add(rows.start)
            solved.copy_(right @ self._inverse)
        if self._rounds:
            self._right[:, rows] = right
        return solved


def _inverse(moments: Tensor, penalty: float) -> Tensor:
    shifted = moments.clone()
    shifted.diagonal(dim1=-2, dim2=-1).add_(penalty)
    torch.linalg.cholesky(shifted, out=shifted)
    if is_on_cpu(shifted.device):
        return torch.cholesky_inverse(shifted, out=shifted)
    # not cholesky_inverse, which takes an H100 four times as long as the factorization
    ones = torch.eye(shifted.shape[-1], dtype=shifted.dtype, device=shifted.device)
    inverse: Tensor = torch.linalg.solve_triangular(shifted, ones.expand_as(shifted), upper=False)
    return inverse.mT @ inverse
