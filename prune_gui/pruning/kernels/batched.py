"""Compiled loops over many small tensors, one after the other; as those of `kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prune_gui.pruning.kernels.keys import Bits, RemainingMask


@compiled
def cut_each(
    keys: Bits,
    remaining_mask: RemainingMask,
    ranked: Bits,
    bounds: NDArray[np.int64],
    units: NDArray[np.int64],
    thresholds: Bits,
    last_ties: NDArray[np.int64],
) -> None:
    """Find for each tensor the key of its ``units``-th smallest entry, and the last tie that goes.

    ``ranked`` are the same keys with those of every tensor in order. Where all ties go, the last
    entry counts as one; where ``units`` is 0 nothing is written.
    """
    for tensor in range(units.size):
        start, stop, wanted = bounds[tensor], bounds[tensor + 1], units[tensor]
        if wanted == 0:
            continue
        threshold = ranked[start + wanted - 1]
        thresholds[tensor], last_ties[tensor] = threshold, stop - start - 1
        for i in range(start, start + wanted):
            wanted -= ranked[i] < threshold
        for i in range(start, stop):
            if keys[i] == threshold and (remaining_mask is None or remaining_mask[i]):
                if wanted == 0:  # it does not go
                    break
                last, wanted = i - start, wanted - 1
        else:
            continue
        last_ties[tensor] = last


@compiled
def score_each(
    ranked: Bits,
    squares: NDArray[np.float64],
    bounds: NDArray[np.int64],
    there: NDArray[np.int64],
    first_non_finite: np.unsignedinteger,
    above_all: float,
    scores: NDArray[np.float64],
) -> None:
    """Fill in the LAMP scores of the first ``there`` entries of each tensor, which are in order."""
    for tensor in range(there.size):
        start = bounds[tensor]
        rest, i = 0.0, start + there[tensor] - 1
        while i >= start:
            key, last = ranked[i], i
            while i >= start and ranked[i] == key:
                i -= 1
            score = above_all
            if key < first_non_finite:
                rest += (last - i) * squares[last]
                score = squares[last] / rest if rest > 0.0 else 0.0
            scores[i + 1 : last + 1] = score


@compiled
def count_leading_of_each(
    scores: NDArray[np.int64],
    bounds: NDArray[np.int64],
    going: NDArray[np.int64],
    shift: int,
    counts: NDArray[np.int64],
) -> None:
    """Count each value of ``score >> shift`` among the first ``going`` scores of each tensor."""
    for tensor in range(going.size):
        start = bounds[tensor]
        for i in range(start, start + going[tensor]):
            counts[scores[i] >> shift] += 1


@compiled
def list_between(
    scores: NDArray[np.int64],
    bounds: NDArray[np.int64],
    going: NDArray[np.int64],
    least: int,
    most: int,
    found: NDArray[np.int64],
) -> int:
    """List the scores from ``least`` to ``most`` among the first ``going`` of each tensor.

    Into ``found``, of shape (entries, 3): the score, the tensor, and how many of its entries have
    it. Returns how many rows that are.
    """
    rows = 0
    for tensor in range(going.size):
        start = bounds[tensor]
        before = np.int64(-1)
        for i in range(start, start + going[tensor]):
            if scores[i] > most:
                break
            if scores[i] >= least:
                if scores[i] != before:
                    before = scores[i]
                    found[rows, 0], found[rows, 1], found[rows, 2] = before, tensor, 0
                    rows += 1
                found[rows - 1, 2] += 1
    return rows


@compiled
def count_up_to(
    scores: NDArray[np.int64],
    bounds: NDArray[np.int64],
    going: NDArray[np.int64],
    limit: int,
    tensor_of_limit: int,
    units: NDArray[np.int64],
) -> None:
    """Count the scores below ``limit`` among the first ``going`` of each tensor.

    Up to ``tensor_of_limit``, those equal to it count too.
    """
    for tensor in range(going.size):
        start = bounds[tensor]
        for i in range(start, start + going[tensor]):
            below = scores[i] < limit
            units[tensor] += below | ((scores[i] == limit) & (tensor <= tensor_of_limit))
