"""Compiled loops over groups of entries and over blocks of them; what holds of `kernels` holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prune_gui.pruning.kernels.keys import Bits, RemainingMask

BATCH = 256
"""Groups ranked side by side, so that each comparison is one vector instruction for several."""
BY_PAIRS = 128
"""Up to so many members a group is ranked by comparing all pairs of them."""


@compiled
def mark_groups(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    going: int,
    m: int,
    inner: int,
    slab: int,
    place: int,
    out: NDArray[np.bool_],
) -> None:
    """Set ``out`` at the ``going`` lowest of each group; of equal keys the lower index is lower.

    The members of a group lie ``inner`` apart. Groups fill each slab of ``slab`` entries from its
    start; what is left at its end is not marked. Entries that are not alive are the lowest.

    Args:
        bits: whole groups, and whole ends of slabs; ``magnitude`` leaves out their top bit.
        magnitude: as for all kernels.
        remaining_mask: as for all kernels.
        going: between 0 and ``m``.
        m: members of a group.
        inner: distance between them.
        slab: a multiple of ``inner``.
        place: of ``bits[0]`` within its slab.
        out: as long as ``bits``.
    """
    ranks = np.empty((m, BATCH if m <= BY_PAIRS else 1), bits.dtype)
    whole = slab // (m * inner) * (m * inner)
    step = m if inner == 1 else 1  # from a group to the next
    start = 0
    while start < bits.size:
        if place == whole:
            out[start : start + slab - whole] = False
            start, place = start + slab - whole, 0
            continue
        span = min(whole - place, bits.size - start) if inner == 1 else m * inner
        groups = span // m
        for group in range(0, groups, ranks.shape[1]):
            count = min(ranks.shape[1], groups - group)
            first = start + group * step
            _rank(bits, magnitude, remaining_mask, first, step, inner, count, ranks)
            if m <= BY_PAIRS:
                _mark_by_pairs(ranks, going, first, step, inner, count, out)
            else:
                _mark_by_cut(ranks[:, 0], going, first, inner, out)
        start, place = start + span, place + span


@compiled
def _rank(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    first: int,
    step: int,
    inner: int,
    count: int,
    ranks: Bits,
) -> None:
    """Fill ``ranks``, a row for each member and a column for each group; 0 if it is not alive."""
    top = bits.dtype.type(~magnitude)
    for i in range(len(ranks)):
        at = first + i * inner
        theirs, rank = bits[at : at + (count - 1) * step + 1], ranks[i]
        if step == 1:
            for t in range(count):
                rank[t] = theirs[t] | top
        else:
            for t in range(count):
                rank[t] = theirs[t * step] | top
        if remaining_mask is not None:
            there = remaining_mask[at : at + (count - 1) * step + 1]
            for t in range(count):
                rank[t] *= there[t * step]


@compiled
def _mark_by_pairs(
    ranks: Bits, going: int, first: int, step: int, inner: int, count: int, out: NDArray[np.bool_]
) -> None:
    m = len(ranks)
    before = np.zeros(ranks.shape, np.uint8)
    for j in range(m):
        for i in range(j):
            one, other, before_one, before_other = ranks[i], ranks[j], before[i], before[j]
            for t in range(count):
                ordered = one[t] <= other[t]
                before_other[t] += ordered
                before_one[t] += not ordered
    for i in range(m):
        at = first + i * inner
        marks, lower = out[at : at + (count - 1) * step + 1], before[i]
        for t in range(count):
            marks[t * step] = lower[t] < going


@compiled
def _mark_by_cut(ranks: Bits, going: int, first: int, inner: int, out: NDArray[np.bool_]) -> None:
    cut = np.partition(ranks, max(going - 1, 0))[max(going - 1, 0)]
    ties = going
    for i in range(ranks.size):
        ties -= ranks[i] < cut
    for i in range(ranks.size):
        tie = ranks[i] == cut and ties > 0
        ties -= tie
        out[first + i * inner] = going > 0 and (tie or ranks[i] < cut)


@compiled
def mark_blocks(
    pruned: NDArray[np.bool_],
    height: int,
    width: int,
    columns: int,
    start: int,
    out: NDArray[np.bool_],
) -> None:
    """Set ``out`` where the block of an entry is pruned; entries outside the blocks are not.

    Args:
        pruned: one per block, in two dimensions.
        height: rows of a block.
        width: columns of a block.
        columns: of the parameter, as a matrix.
        start: flat index of ``out[0]``.
        out: what is filled.
    """
    i = 0
    while i < out.size:
        row, column = divmod(start + i, columns)
        stop = min(out.size, i + columns - column)
        if row // height >= pruned.shape[0]:
            out[i:stop] = False
            i = stop
            continue
        blocks = pruned[row // height]
        while i < stop:
            block = column // width
            end = min(stop, i + (block + 1) * width - column)
            goes = block < blocks.size and blocks[block]
            for k in range(i, end):
                out[k] = goes
            column += end - i
            i = end


@compiled
def count_blocks(
    marked: NDArray[np.bool_],
    height: int,
    width: int,
    columns: int,
    start: int,
    counts: NDArray[np.int64],
) -> None:
    """Add to ``counts`` how many entries of each block are marked; as `mark_blocks`."""
    i = 0
    while i < marked.size:
        row, column = divmod(start + i, columns)
        stop = min(marked.size, i + columns - column)
        if row // height >= counts.shape[0]:
            i = stop
            continue
        blocks = counts[row // height]
        while i < stop:
            block = column // width
            end = min(stop, i + (block + 1) * width - column)
            if block < blocks.size:
                for k in range(i, end):
                    blocks[block] += marked[k]
            column += end - i
            i = end


@compiled
def moments(values: NDArray[np.float64]) -> tuple[int, float, float]:
    """Return how many values are finite, their mean, and the sum of their squared distances to it.

    Added up one after the other, so that the sums are the same on any processor.
    """
    count, total = 0, 0.0
    for i in range(values.size):
        if math.isfinite(values[i]):
            count += 1
            total += values[i]
    mean = total / max(count, 1)
    squares = 0.0
    for i in range(values.size):
        if math.isfinite(values[i]):
            squares += (values[i] - mean) ** 2
    return count, mean, squares
