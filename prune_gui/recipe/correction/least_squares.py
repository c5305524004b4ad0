"""Kept weights by least squares: the outputs of a pruned layer approach those of the dense layer.

For a row w of the dense weight, inputs X (one row per input vector) and the set S of kept columns,
the corrected row v minimizes |X (v - w)|^2 + damping * mean(diag X^T X) * |v - w|^2 with v = 0
outside of S. Its solution is v_S = H_SS^-1 H_S: w with H = X^T X + damping * mean(diag X^T X) * I,
computed here as v_S = w_S + H_SS^-1 H_SP w_P, where P are the pruned columns.

If P is one column, this is the update of Optimal Brain Surgeon (Hassibi and Stork, "Second order
derivatives for network pruning: Optimal Brain Surgeon", 1993). For a mask that is given, as here,
AdaPrune reconstructs layers so (Hubara et al., "Accelerated Sparse Neural Training", 2021), by
gradient descent. SparseGPT (Frantar and Alistarh, 2023) approximates it with one factorization.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from prune_gui.monitor import check_cancelled
from prune_gui.parallel import run

MAX_FLOAT64_COLUMNS: Final = 2048
"""Up to this size of H, everything is computed in float64; above, in float32."""
FACTOR_COST: Final = 0.4
"""The cost of a Cholesky factorization of n columns, divided by n^3, in operations of a matrix
product. Of its n^3 / 3 operations, about 0.8 run in the time of one of a product (measured)."""
ITERATIONS: Final = 130
"""The cost of conjugate gradients, in products of a row and H: about 80 iterations are usual, and
each also passes over the row several times."""
MAX_ITERATIONS: Final = 500
TOLERANCE: Final = 1e-4
"""Conjugate gradients stop where the preconditioned residual is this part of the first one."""
ROWS: Final = 1024
"""Rows that are solved together by conjugate gradients; these hold five matrices of that height."""
SMALLEST_DAMPING: Final = 1e-6  # the damping to try after 0


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of `fit_rows`.

    Attributes:
        delta: (rows, columns), float32 or float64; what to add to the kept weights, 0 elsewhere.
        damping: larger than asked for, if H was not positive definite.
        residual: the largest norm of the gradient that conjugate gradients left, relative to that
            without correction.
    """

    delta: Tensor
    damping: float
    residual: float = 0.0


class _NotPositiveDefiniteError(Exception):
    """A principal submatrix of H is not positive definite in the arithmetic that is used."""


def fit_rows(weight: Tensor, kept: Tensor, moments: Tensor, damping: float) -> Fit:
    """Return what to add to the kept elements of the rows of a dense weight, by least squares.

    It is 0 in rows without pruned elements and in columns whose input was always 0. Rows with the
    same mask are solved with one Cholesky factorization, other rows also, where that is cheap. The
    rest is solved at once by conjugate gradients with the diagonal as preconditioner, as products
    of matrices. Non-finite weights that are pruned count as 0.

    Args:
        weight, kept: (rows, columns), any floating point dtype and bool.
        moments: X^T X, (columns, columns).
    """
    dtype = torch.float64 if moments.shape[0] <= MAX_FLOAT64_COLUMNS else torch.float32
    delta = torch.zeros(weight.shape, dtype=dtype)
    changed = (~kept).any(1).nonzero().squeeze(1)
    if not changed.numel():
        return Fit(delta, damping)
    moments, kept = moments.to(dtype), kept[changed]
    pruned = torch.nan_to_num(weight[changed].to(dtype), 0.0, 0.0, 0.0).masked_fill_(kept, 0.0)
    gradient = (pruned @ moments).masked_fill_(~kept, 0.0)
    diagonal = moments.diagonal()
    while True:
        damped = moments.clone()  # where an input was always 0, its diagonal element is not 0
        damped.diagonal().add_(damping * diagonal.mean() + (diagonal == 0).to(dtype))
        try:
            delta[changed], residual = _solve(gradient, kept, damped)
        except _NotPositiveDefiniteError:
            damping = max(10 * damping, SMALLEST_DAMPING)
        else:
            return Fit(delta, damping, residual)


def _solve(gradient: Tensor, kept: Tensor, moments: Tensor) -> tuple[Tensor, float]:
    delta = torch.zeros_like(gradient)
    columns = kept.shape[1]
    factorized: list[Tensor] = []
    iterated: list[Tensor] = []
    packed = np.packbits(kept.numpy(), axis=1)
    _, group, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    order = torch.from_numpy(np.argsort(group.reshape(-1), kind="stable"))
    for members in torch.split(order, counts.tolist()):  # the rows of a mask
        size = int(kept[members[0]].sum())
        is_cheap = FACTOR_COST * size**3 < 2 * ITERATIONS * columns**2 * len(members)
        (factorized if is_cheap else iterated).append(members)

    threads = torch.get_num_threads()
    threads_per_task = 1 if len(factorized) > 1 else threads

    def factorize(members: Tensor) -> None:
        check_cancelled()
        inside = kept[members[0]].nonzero().squeeze(1)
        with _torch_threads(threads_per_task, afterwards=threads):
            factor, failed = torch.linalg.cholesky_ex(moments[inside][:, inside])
            if failed:
                raise _NotPositiveDefiniteError
            block = members[:, None], inside
            delta[block] = torch.cholesky_solve(gradient[block].T, factor).T

    for _ in run(factorize, factorized):
        pass
    residual = 0.0
    if iterated:
        for chunk in torch.split(torch.cat(iterated), ROWS):
            delta[chunk], left = _conjugate_gradients(gradient[chunk], kept[chunk], moments)
            residual = max(residual, left)
    return delta, residual


@contextmanager
def _torch_threads(count: int, *, afterwards: int) -> Iterator[None]:
    """Let the operations of the calling thread use `count` threads within a block.

    The last number that any thread sets is also that of threads which start later. So blocks that
    end in any order must all set the same number afterwards, not the one that each found.
    """
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(afterwards)


def _conjugate_gradients(gradient: Tensor, kept: Tensor, moments: Tensor) -> tuple[Tensor, float]:
    """Solve D @ H = gradient inside of the mask of each row; see `_solve`.

    Preconditioned conjugate gradients for each row (Saad, "Iterative Methods for Sparse Linear
    Systems", 2003, algorithm 9.1). Rows that have converged leave the products.
    """
    if not (moments.diagonal() > 0).all():
        raise _NotPositiveDefiniteError
    scale, tiny = moments.diagonal().reciprocal(), torch.finfo(moments.dtype).tiny
    solution = torch.zeros_like(gradient)
    active = torch.arange(len(gradient))
    delta, residual, inside = solution.clone(), gradient, kept.to(gradient.dtype)
    direction = residual * scale
    squares = (residual * direction).sum(1)  # of the preconditioned norm
    start = squares.clone()
    for _ in range(MAX_ITERATIONS):
        check_cancelled()
        product = (direction @ moments).mul_(inside)
        curvature = (direction * product).sum(1)
        if not (curvature[squares > 0] > 0).all():
            raise _NotPositiveDefiniteError
        step = (squares / curvature.clamp_min(tiny))[:, None]
        delta = delta.addcmul_(step, direction)
        residual = residual.addcmul(step, product, value=-1)
        preconditioned = residual * scale
        previous, squares = squares, (residual * preconditioned).sum(1)
        going = squares > TOLERANCE**2 * start
        if not going.all():
            solution[active[~going]] = delta[~going]
            if not going.any():
                return solution, float((squares / start.clamp_min(tiny)).max().sqrt())
            active, delta, residual, inside, direction, preconditioned = (
                one[going] for one in (active, delta, residual, inside, direction, preconditioned)
            )
            squares, previous, start = squares[going], previous[going], start[going]
        direction = preconditioned.addcmul_((squares / previous)[:, None], direction)
    solution[active] = delta
    return solution, float((squares / start).max().sqrt())


def rows_of(weight: Tensor, groups: int, *, transposed: bool) -> Tensor:
    """Return a weight, of `Linear` or `Conv` or transposed, as (groups, rows, columns)."""
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
