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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from prune_gui.monitor import check_cancelled
from prune_gui.pruning.devices import (
    WORKING_BYTES,
    in_parts,
    residual_dtype,
    rounds_products,
    tensor_core_products,
    working_bytes,
)

FACTOR_COST: Final = 0.4
"""The cost of a Cholesky factorization of n columns, divided by n^3, in operations of a matrix
product. Of its n^3 / 3 operations, about 0.8 run in the time of one of a product (measured)."""
ITERATIONS: Final = 40
"""What conjugate gradients cost, in products of a row and H: 13 to 35 for layers of a Llama."""
MAX_ITERATIONS: Final = 500
CHECKED: Final = 4
"""Iterations between two looks at the result, for which the program waits for a graphics card."""
MAX_ROUNDS: Final = 8
TOLERANCE: Final = 1e-4
"""Rows are solved when the norm of their gradient, with columns scaled to a unit diagonal of H, is
this part of that without correction."""
FLOAT32_TOLERANCE: Final = 1e-5
"""What a round reaches at best in float32."""
ROUNDED_TOLERANCE: Final = 3e-3
"""The same where products are rounded. Two rounds then take 1.3 times the iterations of one in
float32 (measured), each a quarter to a fifth as long on an H100."""
SHARED_ROWS: Final = 8
"""Rows with one mask from which a factorization for all of them is considered."""
FACTORIZING: Final = frozenset({"cpu", "cuda", "xpu"})
"""The types of devices for which torch has `cholesky_solve`."""
ELEMENT_BYTES: Final = 64
"""Memory for each element of rows that are solved together: in float32 six, in float64 five."""
SMALLEST_DAMPING: Final = 1e-6  # the damping to try after 0
Solver = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of `fit_rows`.

    Attributes:
        delta: what to add to the kept weights, 0 elsewhere; of the shape of the weight, on the
            device that computed it, float32; float64 for such weights, where that is fast.
        damping: larger than asked for, if H was not positive definite.
        residual: the largest norm of the gradient that is left in a row, relative to that without
            correction; see `TOLERANCE`.
    """

    delta: Tensor
    damping: float
    residual: float = 0.0


class NotPositiveDefiniteError(Exception):
    """A principal submatrix of H is not positive definite in the arithmetic that is used."""


@torch.no_grad()
def fit_rows(
    weight: Tensor,
    kept: Tensor,
    moments: Tensor,
    damping: float,
    device: torch.device | None = None,
    guess: Tensor | None = None,
) -> Fit:
    """Return what to add to the kept elements of the rows of a dense weight, by least squares.

    It is 0 in rows without pruned elements and in columns whose input was always 0. Non-finite
    weights that are pruned count as 0.

    Rows are solved together in float32: by conjugate gradients, as products of matrices, which
    tensor cores may round, or, where many have one mask, by a Cholesky factorization. What is left
    of the gradient is computed anew from H and the solution in float64, and solved for again while
    it is above `TOLERANCE` (iterative refinement: Higham, "Accuracy and Stability of Numerical
    Algorithms", 2002, chapter 12). So the arithmetic of a device changes the number of rounds, not
    the error. Where float64 is slow or missing (`residual_dtype`), float32 has to do for the
    gradient, too; with a unit diagonal of H that adds about 1e-6, a hundredth of the tolerance.

    Args:
        weight, kept: (rows, columns) or (groups, rows, columns), any floating point dtype and bool.
        moments: X^T X, finite, (columns, columns) or (groups, columns, columns).
        damping: at least 0.
        device: where to compute; None: where the weight is. Groups and rows are solved in parts
            that fit its memory; the processor takes over where one row does not fit.
        guess: weights near the solution, of the shape of the weight, from which to begin, in rows
            where they are nearer than the dense ones.
    """
    device = device or weight.device
    dtype = residual_dtype(device) if weight.dtype == torch.float64 else torch.float32
    grouped = weight.detach().view(-1, *weight.shape[-2:]).to(device, dtype)
    kept, moments = kept.view(grouped.shape).to(device), moments.view(-1, *moments.shape[-2:])
    if residual_dtype(device) == torch.float32:
        moments = moments.float()
    try:
        while True:
            delta = torch.zeros(grouped.shape, dtype=dtype, device=device)
            if guess is not None:
                delta = guess.view(grouped.shape).to(device, dtype) - grouped
                unread = moments.diagonal(dim1=1, dim2=2)[:, None].to(device) == 0
                delta.masked_fill_(~kept | kept.all(2, keepdim=True) | unread, 0.0)
            try:
                with torch.autocast(device.type, enabled=False):
                    residual = _fill(delta, grouped, kept, moments, damping)
            except NotPositiveDefiniteError:
                damping = max(10 * damping, SMALLEST_DAMPING)
            else:
                return Fit(delta.view(weight.shape), damping, residual)
    except torch.OutOfMemoryError:
        guess = guess if guess is None else guess.cpu()
        return fit_rows(weight.cpu(), kept.cpu(), moments.cpu(), damping, guess=guess)


def _fill(delta: Tensor, weight: Tensor, kept: Tensor, moments: Tensor, damping: float) -> float:
    """Solve for `delta`, (groups, rows, columns), from what it is; return the largest residual."""
    groups, rows, columns = weight.shape
    # a product with H takes as long for few rows as for some hundreds
    room, residuals = max(working_bytes(delta.device), 4 * columns**2), [0.0]

    def solve_groups(start: int, stop: int) -> None:
        system = _System(moments[start:stop].to(delta.device), damping)
        if stop - start > 1:
            solve_rows(system, slice(start, stop), torch.arange(rows), system.iterate)
            return
        shared, others = _rows_by_mask(kept[start])
        solve_rows(system, slice(start, stop), others, system.iterate)
        for members in shared:
            solver = system.factorized(kept[start, members[0]])
            solve_rows(system, slice(start, stop), members, solver)

    def solve_rows(system: _System, group: slice, members: Tensor, solver: Solver) -> None:
        def solve(start: int, stop: int) -> None:
            block = group, members[start:stop]
            solved, residual = system.solve(weight[block], kept[block], delta[block], solver)
            delta[block] = solved.to(delta.dtype)
            residuals.append(residual)

        row_bytes = ELEMENT_BYTES * columns * (group.stop - group.start)
        in_parts(len(members), room // row_bytes, solve)

    group_bytes = columns * (ELEMENT_BYTES * rows + 12 * columns)
    in_parts(groups, room // group_bytes, solve_groups)
    return max(residuals)


def _rows_by_mask(kept: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the rows of each mask that is worth a factorization, and all others to solve.

    Args:
        kept: (rows, columns).
    """
    columns, changed = kept.shape[1], (~kept).any(1).nonzero().squeeze(1)
    if len(changed) < SHARED_ROWS or kept.device.type not in FACTORIZING:
        return [], changed
    key = torch.randint(-(2**62), 2**62, (columns,), generator=torch.Generator().manual_seed(0))
    key = key.to(kept.device)
    hashes = torch.cat([(kept[rows] * key).sum(1) for rows in torch.split(changed, 1024)])
    _, group, counts = torch.unique(hashes, return_inverse=True, return_counts=True)
    shared, others = [], torch.ones_like(group, dtype=torch.bool)
    for index in (counts >= SHARED_ROWS).nonzero().squeeze(1).tolist():
        members = changed[group == index]
        mask = kept[members[0]]
        is_cheap = FACTOR_COST * int(mask.sum()) ** 3 < 2 * ITERATIONS * columns**2 * len(members)
        if is_cheap and bool((kept[members] == mask).all()):  # else two masks have one hash
            shared.append(members)
            others &= group != index
    return shared, changed[others]


class _System:
    """The equations of groups of rows: D @ H = gradient inside of the mask of each row.

    Solvers get the gradient with columns scaled to a unit diagonal of H and rows of norm 1, and
    the tolerance of each row.

    Args:
        moments: (groups, columns, columns), without damping.
    """

    def __init__(self, moments: Tensor, damping: float) -> None:
        diagonal = moments.diagonal(dim1=1, dim2=2)[:, None]
        self._moments = moments
        # where an input was always 0, its diagonal element becomes 1
        self._shift = damping * diagonal.abs().mean(2, keepdim=True) + (diagonal == 0)
        damped = diagonal + self._shift
        if not bool((damped > 0).all()):
            raise NotPositiveDefiniteError
        self._scale = damped.rsqrt()
        self._unit = (moments * self._scale).mul_(self._scale.mT).float()
        self._unit.diagonal(dim1=1, dim2=2).fill_(1.0)

    def solve(
        self, weight: Tensor, kept: Tensor, guess: Tensor, solver: Solver
    ) -> tuple[Tensor, float]:
        """Return what to add to a weight, (groups, rows, columns), and the largest residual.

        `guess` is near that, or 0.
        """
        dtype = residual_dtype(weight.device)
        tiny = torch.finfo(torch.float32).tiny
        pruned = torch.nan_to_num(weight, 0.0, 0.0, 0.0).masked_fill_(kept, 0.0)
        inside, delta, residual = kept.float(), torch.zeros_like(pruned, dtype=dtype), 1.0
        is_rounded = solver == self.iterate and rounds_products(weight.device)
        least = ROUNDED_TOLERANCE if is_rounded else FLOAT32_TOLERANCE
        gradient = self._first_gradient(pruned, inside)
        start = norms = gradient.norm(dim=2, keepdim=True)
        if bool(guess.any()):
            guessed = self._first_gradient(pruned - guess, inside)
            is_nearer = guessed.norm(dim=2, keepdim=True) < start
            delta = torch.where(is_nearer, guess.to(dtype), delta)
            gradient = torch.where(is_nearer, guessed, gradient)
            norms = gradient.norm(dim=2, keepdim=True)
            residual = float((norms / start.clamp_min(tiny)).max())
        for _ in range(MAX_ROUNDS):
            check_cancelled()
            unit = (gradient / norms.clamp_min(tiny)).float()
            tolerance = (TOLERANCE / 2 * start / norms.clamp_min(tiny)).clamp_min(least)
            step = solver(unit, inside, tolerance.float()).to(dtype)
            better = delta.addcmul(step * norms, self._scale.to(dtype))
            gradient = self._gradient(pruned.to(dtype) - better, kept)
            norms = gradient.norm(dim=2, keepdim=True)
            left = float((norms / start.clamp_min(tiny)).max())
            if not left < residual:
                break
            delta, residual = better, left
            if residual <= TOLERANCE:
                break
        return delta, residual

    def _first_gradient(self, left: Tensor, inside: Tensor) -> Tensor:
        """Return a gradient, float32, that needs no more digits than the first step from it."""
        return ((left / self._scale).float() @ self._unit).mul_(inside)

    def _gradient(self, left: Tensor, kept: Tensor) -> Tensor:
        width = max(1, WORKING_BYTES // (8 * left.shape[2] * len(left)))
        parts = [left @ part.to(left.dtype) for part in torch.split(self._moments, width, dim=2)]
        total = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
        total.addcmul_(left, self._shift.to(left.dtype)).mul_(self._scale.to(left.dtype))
        return total.masked_fill_(~kept, 0.0)

    def factorized(self, mask: Tensor) -> Solver:
        """Return a solver for rows with one mask, (columns,); it needs a single group."""
        columns = mask.nonzero().squeeze(1)
        factor, failed = torch.linalg.cholesky_ex(self._unit[0][columns][:, columns])
        if bool(failed):
            raise NotPositiveDefiniteError

        def solve(gradient: Tensor, inside: Tensor, tolerance: Tensor) -> Tensor:
            step = torch.zeros_like(gradient)
            step[0, :, columns] = torch.cholesky_solve(gradient[0, :, columns].mT, factor).mT
            return step

        return solve

    @tensor_core_products()
    def iterate(self, gradient: Tensor, inside: Tensor, tolerance: Tensor) -> Tensor:
        """Solve by conjugate gradients, all rows until the last one has converged.

        Source: Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 6.18.
        """
        step = torch.zeros_like(gradient)
        direction, tiny = gradient, torch.finfo(gradient.dtype).tiny
        squares, limit = gradient.norm(dim=2, keepdim=True).square_(), tolerance.square()
        failed = torch.zeros((), dtype=torch.bool, device=gradient.device)
        for iteration in range(1, MAX_ITERATIONS + 1):
            product = (direction @ self._unit).mul_(inside)
            curvature = (direction * product).sum(2, keepdim=True)
            failed |= ((curvature <= 0) & (squares > limit)).any()
            length = squares / curvature.clamp_min(tiny)
            step.addcmul_(length, direction)
            gradient = gradient.addcmul(length, product, value=-1)
            previous, squares = squares, gradient.norm(dim=2, keepdim=True).square_()
            direction = gradient.addcmul(squares / previous.clamp_min(tiny), direction)
            if iteration % CHECKED == 0:
                check_cancelled()
                if bool(failed):
                    raise NotPositiveDefiniteError
                if bool((squares <= limit).all()):
                    break
        return step


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
