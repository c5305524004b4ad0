"""Compiled loops over groups of elements and over blocks of a matrix; see `kernels.key_loops`."""

from __future__ import annotations

import math

import numpy as np

from prune_gui.pruning.arrays import Bits, Flags, Key, Numbers
from prune_gui.pruning.kernels.loop import compiled

GROUPS_PER_BATCH = 256
"""Groups ranked at once: one vector instruction compares the members of several."""
QUADS = 4
"""Members of the groups that have a loop of their own."""
MAX_PAIRWISE_MEMBERS = 128
"""Groups of more members are ranked by a partition instead of comparing all pairs."""


@compiled
def mark_groups(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    prune_count: int,
    m: int,
    inner: int,
    slab: int,
    offset: int,
    out: Flags,
) -> None:
    """Set ``out`` to True at the ``prune_count`` lowest members of each group, else to False.

    The members of a group are ``inner`` elements apart. Groups fill each slab of ``slab`` elements
    from its start; the elements after its last whole group are in no group. Elements that are not
    remaining rank lowest; of equal keys the one of lower index. ``bits`` are whole groups, and
    whole ends of slabs, and begin at the index ``offset`` of a slab.
    """
    ranks = np.empty((m, GROUPS_PER_BATCH if m <= MAX_PAIRWISE_MEMBERS else 1), bits.dtype)
    whole = slab // (m * inner) * (m * inner)
    step = m if inner == 1 else 1  # from the first member of a group to that of the next
    start = 0
    while start < bits.size:
        if offset == whole:
            out[start : start + slab - whole] = False
            start, offset = start + slab - whole, 0
            continue
        span = min(whole - offset, bits.size - start) if inner == 1 else m * inner
        groups = span // m
        if m == QUADS and inner == 1:
            end = start + span
            mask = None if remaining_mask is None else remaining_mask[start:end]
            _mark_quads(bits[start:end], magnitude, mask, prune_count, out[start:end])
            groups = 0
        for group in range(0, groups, ranks.shape[1]):
            count = min(ranks.shape[1], groups - group)
            first = start + group * step
            _rank(bits, magnitude, remaining_mask, first, step, inner, count, ranks)
            if m <= MAX_PAIRWISE_MEMBERS:
                _mark_by_pairs(ranks, prune_count, first, step, inner, count, out)
            else:
                _mark_by_cut(ranks[:, 0], prune_count, first, inner, out)
        start, offset = start + span, offset + span


@compiled
def _mark_quads(
    bits: Bits, magnitude: Key, remaining_mask: Flags | None, prune_count: int, out: Flags
) -> None:
    """Mark the lowest of each four adjacent elements, the pattern of sparse tensor cores.

    With a constant number of members the loop becomes vector instructions.
    """
    key = bits.dtype.type
    top, least = key(~magnitude), np.uint8(prune_count)
    for group in range(bits.size // 4):
        i = 4 * group
        a, b, c, d = bits[i] | top, bits[i + 1] | top, bits[i + 2] | top, bits[i + 3] | top
        if remaining_mask is not None:
            a, b = a * key(remaining_mask[i]), b * key(remaining_mask[i + 1])
            c, d = c * key(remaining_mask[i + 2]), d * key(remaining_mask[i + 3])
        ab, ac, ad = np.uint8(a <= b), np.uint8(a <= c), np.uint8(a <= d)
        bc, bd, cd = np.uint8(b <= c), np.uint8(b <= d), np.uint8(c <= d)
        out[i] = np.uint8(3 - ab - ac - ad) < least
        out[i + 1] = np.uint8(2 + ab - bc - bd) < least
        out[i + 2] = np.uint8(1 + ac + bc - cd) < least
        out[i + 3] = np.uint8(ad + bd + cd) < least


@compiled
def _rank(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    first: int,
    step: int,
    inner: int,
    count: int,
    ranks: Bits,
) -> None:
    """Fill ``ranks``, a row per member and a column per group, with keys; 0 if not remaining."""
    top = bits.dtype.type(~magnitude)
    for i in range(len(ranks)):
        at = first + i * inner
        members, rank = bits[at : at + (count - 1) * step + 1], ranks[i]
        if step == 1:
            for t in range(count):
                rank[t] = members[t] | top
        else:
            for t in range(count):
                rank[t] = members[t * step] | top
        if remaining_mask is not None:
            is_remaining = remaining_mask[at : at + (count - 1) * step + 1]
            for t in range(count):
                rank[t] *= is_remaining[t * step]


@compiled
def _mark_by_pairs(
    ranks: Bits, prune_count: int, first: int, step: int, inner: int, count: int, out: Flags
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
            marks[t * step] = lower[t] < prune_count


@compiled
def _mark_by_cut(ranks: Bits, prune_count: int, first: int, inner: int, out: Flags) -> None:
    cut = np.partition(ranks, max(prune_count - 1, 0))[max(prune_count - 1, 0)]
    ties = prune_count
    for i in range(ranks.size):
        ties -= ranks[i] < cut
    for i in range(ranks.size):
        tie = ranks[i] == cut and ties > 0
        ties -= tie
        out[first + i * inner] = prune_count > 0 and (tie or ranks[i] < cut)


@compiled
def mark_blocks(
    pruned: Flags, height: int, width: int, columns: int, start: int, out: Flags
) -> None:
    """Set ``out`` to where the block of an element is pruned, from the flat index ``start`` on."""
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
            is_pruned = block < blocks.size and blocks[block]
            for k in range(i, end):
                out[k] = is_pruned
            column += end - i
            i = end


@compiled
def moments(values: Numbers) -> tuple[int, float, float]:
    """Return count, mean and sum of squared deviations of the finite values, added in order."""
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
