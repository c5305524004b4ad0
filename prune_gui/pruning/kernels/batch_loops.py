"""Compiled loops over many small concatenated tensors, and of LAMP scores; see `kernels.key_loops`.

``bounds`` is the start of each tensor and the end of the last one.
"""

from __future__ import annotations

import numpy as np

from prune_gui.pruning.arrays import Bits, Flags, Ints, Key, Numbers, Values
from prune_gui.pruning.kernels.loop import compiled


@compiled
def cut_each(
    keys: Bits,
    remaining_mask: Flags | None,
    ranked: Bits,
    bounds: Ints,
    units: Ints,
    thresholds: Bits,
    last_ties: Ints,
) -> None:
    """Find the cut of each tensor that prunes its ``units`` smallest elements.

    ``ranked`` has the same keys, sorted within each tensor. Where ``units`` is 0, nothing is
    written; where all ties are pruned, the last tie is the last element of the tensor.
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
                if wanted == 0:  # this tie is kept
                    break
                last_pruned, wanted = i - start, wanted - 1
        else:
            continue
        last_ties[tensor] = last_pruned


@compiled
def score_each(
    ranked: Bits,
    squares: Numbers,
    bounds: Ints,
    remaining: Ints,
    first_non_finite: Key,
    above_all: float,
    scores: Numbers,
) -> None:
    """Write the LAMP scores of the first ``remaining`` sorted keys of each tensor."""
    for tensor in range(remaining.size):
        start = bounds[tensor]
        sum_above, i = 0.0, start + remaining[tensor] - 1
        while i >= start:
            key, last = ranked[i], i
            while i >= start and ranked[i] == key:
                i -= 1
            score = above_all
            if key < first_non_finite:
                sum_above += (last - i) * squares[last]
                score = squares[last] / sum_above if sum_above > 0.0 else 0.0
            scores[i + 1 : last + 1] = score


@compiled
def count_leading_of_each(
    scores: Ints, bounds: Ints, prunable: Ints, shift: int, counts: Ints
) -> None:
    """Count each value of ``score >> shift`` among the first ``prunable`` scores of each tensor."""
    for tensor in range(prunable.size):
        start = bounds[tensor]
        for i in range(start, start + prunable[tensor]):
            counts[scores[i] >> shift] += 1


@compiled
def list_between(
    scores: Ints, bounds: Ints, prunable: Ints, min_score: int, max_score: int, rows: Ints
) -> int:
    """List the distinct scores in a range among the first ``prunable`` of each tensor.

    A row of ``rows``, of shape (elements, 3), is a score, the index of the tensor, and the number
    of its elements with that score. Returns the number of rows written.
    """
    count = 0
    for tensor in range(prunable.size):
        start = bounds[tensor]
        previous = np.int64(-1)
        for i in range(start, start + prunable[tensor]):
            if scores[i] > max_score:
                break
            if scores[i] >= min_score:
                if scores[i] != previous:
                    previous = scores[i]
                    rows[count, 0], rows[count, 1], rows[count, 2] = previous, tensor, 0
                    count += 1
                rows[count - 1, 2] += 1
    return count


@compiled
def count_up_to(
    scores: Ints, bounds: Ints, prunable: Ints, limit: int, tensor_of_limit: int, units: Ints
) -> None:
    """Add the numbers of scores below ``limit`` among the first ``prunable`` of each tensor.

    In tensors up to the index ``tensor_of_limit``, scores equal to ``limit`` count too.
    """
    for tensor in range(prunable.size):
        start = bounds[tensor]
        for i in range(start, start + prunable[tensor]):
            below = scores[i] < limit
            units[tensor] += below | ((scores[i] == limit) & (tensor <= tensor_of_limit))


@compiled
def add_squares(
    bits: Bits,
    values: Values,
    magnitude: Key,
    remaining_mask: Flags | None,
    min_key: Key,
    end_key: Key,
    scale: float,
    sums: Numbers,
) -> None:
    """Add the squares of ``value * scale`` for keys in [``min_key``, ``end_key``) to ``sums``.

    ``values`` are the numbers of the bits. That of index i is added to number i % size of ``sums``,
    so that the loop is vectorized.
    """
    for start in range(0, bits.size, sums.size):
        own, numbers = bits[start : start + sums.size], values[start : start + sums.size]
        for i in range(own.size):
            key = own[i] & magnitude
            counts = (key >= min_key) & (key < end_key)
            if remaining_mask is not None:
                counts &= remaining_mask[start + i]
            value = np.float64(numbers[i]) * scale if counts else 0.0
            sums[i] += value * value
