"""Compiled loops that count entries. They hold no lock of Python's, so threads run side by side.

``codes`` is a stretch of `Resolution.pruned_by`; ``slots`` turns a code into a row of the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint8]
    Counts = NDArray[np.int64]
    Bits = NDArray[np.unsignedinteger[Any]]
    Values = NDArray[np.floating[Any]]


BLOCK, STRETCH = 2048, 64
"""So many bins are guessed together, to fit a processor's nearest cache; then looked at."""
FEW = 4
"""So many codes are counted one after the other; more, entry by entry."""


@compiled
def _count_by_columns(
    codes: Codes,
    code: np.uint8,
    row_stride: int,
    column_stride: int,
    rows: int,
    ends: Counts,
    in_columns: Codes,
    counts: Counts,
) -> None:
    """Count a code in up to 255 rows: in each column first, which is done for many at once."""
    in_columns[:] = 0
    for row in range(rows):
        line = codes[row * row_stride :]
        for k in range(in_columns.size):
            in_columns[k] += line[np.uint64(k * column_stride)] == code
    begin = 0
    for j in range(ends.size):
        found, of_cell = np.uint32(0), in_columns[begin : ends[j]]
        for k in range(of_cell.size):
            found += of_cell[k]
        counts[j] += found
        begin = ends[j]


@compiled
def count_cells(
    codes: Codes,
    known: Codes,
    slots: Codes,
    row_stride: int,
    column_stride: int,
    row_edges: Counts,
    column_edges: Counts,
    rows: tuple[int, int],
    columns: tuple[int, int],
    counts: Counts,
) -> None:
    """Add the pruned entries of a rectangle to the cells they lie in.

    Args:
        codes: ``codes[0]`` belongs to the first row and column of the rectangle.
        known: the codes that occur, one per slot; the first one is that of kept entries.
        slots: one per code.
        row_stride: distance in ``codes`` from a row to the next.
        column_stride: likewise of columns.
        row_edges: cell (i, j) has the rows from ``row_edges[i]`` up to ``row_edges[i + 1]``.
        column_edges: likewise.
        rows: of the rectangle: the first, and the one after the last.
        columns: likewise.
        counts: (slots, cells down, cells across); nothing is added in slot 0.
    """
    i = np.searchsorted(row_edges, rows[0], side="right") - 1
    first = np.searchsorted(column_edges, columns[0], side="right") - 1
    last = np.searchsorted(column_edges, columns[1])
    ends = np.minimum(column_edges[first + 1 : last + 1], columns[1]) - columns[0]
    in_columns = np.empty(columns[1] - columns[0], np.uint8)
    row = rows[0]
    while row < rows[1]:
        while row >= row_edges[i + 1]:
            i += 1
        here, cells = codes[(row - rows[0]) * row_stride :], counts[:, i, first:last]
        height = min(row_edges[i + 1] - row, rows[1] - row, 255)
        if known.size - 1 <= min(height, FEW):
            for slot in range(1, known.size):
                _count_by_columns(
                    here,
                    known[slot],
                    row_stride,
                    column_stride,
                    height,
                    ends,
                    in_columns,
                    cells[slot],
                )
        else:
            height, begin = 1, 0
            for j in range(ends.size):
                for k in range(begin, ends[j]):
                    slot = slots[here[np.uint64(k * column_stride)]]
                    cells[slot, j] += slot != 0
                begin = ends[j]
        row += height


@compiled
def sum_up_cells(
    counts: Counts,
    known: Codes,
    entries: Counts,
    share: NDArray[np.float32],
    step: Codes,
) -> None:
    """Set the share of each cell that is pruned, and the code of most of that.

    Args:
        counts: from `count_cells`.
        known: as there.
        entries: (cells down, cells across), how many each cell has.
        share: likewise.
        step: likewise; of equals the lowest slot's, and that of kept entries where none is pruned.
    """
    for i in range(share.shape[0]):
        for j in range(share.shape[1]):
            pruned, most, winner = 0, 0, 0
            for slot in range(1, known.size):
                found = counts[slot, i, j]
                pruned += found
                if found > most:
                    most, winner = found, slot
            share[i, j] = pruned / entries[i, j]
            step[i, j] = known[winner]


@compiled
def find_bins(values: Values, edges: NDArray[np.float64], found: NDArray[np.uint32]) -> None:
    """Set ``found`` to the bin in which each value lies; after the last come NaN and infinity."""
    bins = edges.size - 1
    per_unit = bins / (edges[bins] - edges[0])
    for i in range(values.size):
        value = np.float64(values[i])
        if not np.isfinite(value):
            found[i] = bins if np.isnan(value) else bins + 1
            continue
        guess = (value - edges[0]) * per_unit
        bin_ = int(min(guess, bins - 1.0)) if guess > 0 else 0
        while bin_ > 0 and value < edges[bin_]:
            bin_ -= 1
        while bin_ < bins - 1 and value >= edges[bin_ + 1]:
            bin_ += 1
        found[i] = bin_


@compiled
def _guess_bins(
    values: Values,
    low: np.floating[Any],
    per_unit: np.floating[Any],
    doubt: np.floating[Any],
    bins: np.floating[Any],
    found: NDArray[np.uint32],
) -> None:
    """Set ``found`` to the bin of each value, or to ``bins`` where that is in doubt."""
    for i in range(values.size):
        place = (values[i] - low) * per_unit
        guess = np.uint32(min(max(place, bins - bins), bins))
        within = place - type(place)(guess)
        found[i] = guess if (doubt < within) & (within + doubt < bins / bins) else np.uint32(bins)


@compiled
def count_bins(
    values: Values, codes: Codes, slots: Codes, edges: NDArray[np.float64], counts: Counts
) -> None:
    """Add values to the bins they lie in.

    Args:
        values: as long as ``codes``; none that is finite lies outside the bins.
        codes: which step pruned each.
        slots: one per code.
        edges: equally spaced, ascending; a bin holds its lower edge, the last one also its upper.
        counts: (slots, bins and two more); in those NaN and infinity are counted.
    """
    as_value = values.dtype.type
    bins, low = edges.size - 1, edges[0]
    width = edges[bins] - low
    # How far rounding can have moved a place, or an edge, generously.
    rounding = 2.0**-48 if values.itemsize == 8 else 2.0**-22
    doubt = rounding * bins * (1 + max(abs(low), abs(edges[bins])) / width)
    found = np.empty(BLOCK, np.uint32)
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        _guess_bins(
            block, as_value(low), as_value(bins / width), as_value(doubt), as_value(bins), found
        )
        for first in range(0, block.size, STRETCH):
            some, unsure = found[first : min(first + STRETCH, block.size)], 0
            for i in range(some.size):
                unsure += some[i] == bins
            if unsure > 0:
                find_bins(block[first : first + STRETCH], edges, some)
        here = codes[start : start + BLOCK]
        for i in range(block.size):
            counts[slots[here[i]], found[i]] += 1


@compiled
def count_known_bins(
    bits: Bits, codes: Codes, slots: Codes, bins: NDArray[np.uint32], counts: Counts
) -> None:
    """Do as `count_bins`, where ``bins`` says in which bin the value of any bits lies."""
    for i in range(bits.size):
        counts[slots[codes[i]], bins[bits[i]]] += 1


@compiled
def widen_range(values: Values, found: NDArray[np.float64]) -> None:
    """Widen ``found``, a (least, greatest) pair, to the finite values."""
    low, high = found[0], found[1]
    for i in range(values.size):
        value = np.float64(values[i])
        if np.isfinite(value):
            low = min(low, value)
            high = max(high, value)
    found[0], found[1] = low, high


@compiled
def count_channel_steps(
    codes: Codes,
    values: Values,
    slots: Codes,
    inner: int,
    place: int,
    counts: Counts,
    remaining_mask: NDArray[np.bool_],
) -> None:
    """Count the entries of each channel by the step that pruned them.

    A channel's entries come in runs of ``inner``.

    Args:
        codes: the first belongs to channel 0.
        values: the weights.
        slots: one per code.
        inner: entries per run.
        place: how many entries of its run come before the first one.
        counts: (slots, channels); after the last channel comes the first again.
        remaining_mask: set where a channel keeps an entry other than zero.
    """
    channel, channels = np.uint64(0), np.uint64(remaining_mask.size)
    for i in range(codes.size):
        slot = slots[codes[i]]
        counts[slot, channel] += 1
        remaining_mask[channel] |= (slot == 0) & (values[i] != 0)
        place += 1
        if place == inner:
            place = 0
            channel += np.uint64(1)
            if channel == channels:
                channel = np.uint64(0)


@compiled
def add_squares(
    values: Values,
    kept: NDArray[np.bool_] | None,
    inner: int,
    place: int,
    sums: NDArray[np.float64],
    odd: Counts,
    remaining_mask: NDArray[np.bool_],
) -> None:
    """Add up the squares of all values and of those kept, and find the channels that are not zero.

    Args:
        values: the first belongs to channel 0.
        kept: as long as ``values``; None if all are.
        inner: entries per channel; a channel's entries lie side by side.
        place: how many entries of channel 0 come before the first one.
        sums: of all, and of those kept; what is no finite number is left out.
        odd: how many are NaN, and how many infinite.
        remaining_mask: (2, channels), set where an entry other than zero is, and where one is kept.
    """
    channel, start = 0, 0
    while start < values.size:
        stop = min(start + inner - place, values.size)
        place = 0
        every, left = 0.0, 0.0
        lives, stays = False, False
        for i in range(start, stop):
            value = np.float64(values[i])
            stay = kept is None or kept[i]
            lives |= value != 0
            stays |= stay & (value != 0)
            if np.isfinite(value):
                every += value * value
                left += value * value if stay else 0.0
            else:
                odd[0 if np.isnan(value) else 1] += 1
        sums[0] += every
        sums[1] += left
        remaining_mask[0, channel] |= lives
        remaining_mask[1, channel] |= stays
        channel += 1
        start = stop


@compiled
def add_squares_of_each(
    values: Values,
    kept: NDArray[np.bool_] | None,
    bounds: Counts,
    inner: Counts,
    sums: NDArray[np.float64],
    odd: Counts,
    dead: Counts,
) -> None:
    """Do as `add_squares` for many parameters, and count the channels of each that are not alive.

    Args:
        values: of all parameters, one after the other.
        kept: likewise; None if all are.
        bounds: where each parameter begins, and where the last one ends.
        inner: entries per channel of each.
        sums: (parameters, 2), see `add_squares`.
        odd: likewise.
        dead: likewise; channels that keep nothing but zeros, and that hold nothing else.
    """
    for i in range(inner.size):
        start, stop = bounds[i], bounds[i + 1]
        remaining_mask = np.zeros((2, (stop - start) // inner[i]), np.bool_)
        part = values[start:stop]
        if kept is None:
            add_squares(part, None, inner[i], 0, sums[i], odd[i], remaining_mask)
        else:
            add_squares(part, kept[start:stop], inner[i], 0, sums[i], odd[i], remaining_mask)
        for channel in range(remaining_mask.shape[1]):
            dead[i, 0] += not remaining_mask[1, channel]
            dead[i, 1] += not remaining_mask[0, channel]


@compiled
def count_between(
    bits: Bits,
    remaining_mask: NDArray[np.bool_] | None,
    least: np.unsignedinteger[Any],
    threshold: np.unsignedinteger[Any],
    last_tie: int,
) -> int:
    """Count the entries whose bits lie from ``least`` to ``threshold``.

    Args:
        bits: of numbers of both signs; in those that are looked for the sign is a bit too.
        remaining_mask: where entries are still there; None if all are.
        least: the lowest bits that count.
        threshold: the highest; they count up to ``last_tie`` alone.
        last_tie: a position, -1 or less if there is none.
    """
    found, ties = 0, min(max(last_tie + 1, 0), bits.size)
    for i in range(ties):
        between = (bits[i] >= least) & (bits[i] <= threshold)
        found += between & (remaining_mask is None or remaining_mask[i])
    rest = bits[ties:]  # from 0 on, or the loop is not vectorized
    alive_rest = None if remaining_mask is None else remaining_mask[ties:]
    for i in range(rest.size):
        between = (rest[i] >= least) & (rest[i] < threshold)
        found += between & (alive_rest is None or alive_rest[i])
    return found


def warm_up() -> None:
    """Compile every loop, or load it from the cache, for all types that it meets."""
    codes, edges, span = np.zeros(1, np.uint8), np.array([0, 1]), (0, 1)
    slots, remaining_mask = np.zeros(256, np.uint8), np.zeros(1, np.bool_)
    counts, unit = np.zeros((1, 3), np.int64), np.array([0.0, 1.0])
    bins, both = np.zeros(1, np.uint32), np.zeros((2, 1), np.bool_)
    count_cells(codes, codes, slots, 1, 1, edges, edges, span, span, counts[None])
    picture, one_step = np.zeros((2, 2), np.float32), np.zeros((2, 2), np.uint8)
    ones = np.ones((1, 1), np.int64)
    sum_up_cells(counts[None], codes, ones, picture[:1, :1], one_step[:1, :1])
    for values in (np.zeros(1, np.float32), np.zeros(1, np.float64)):
        count_bins(values, codes, slots, unit, counts)
        widen_range(values, np.zeros(2))
        count_channel_steps(codes, values, slots, 1, 0, counts, remaining_mask)
        for kept in (None, remaining_mask):
            add_squares(values, kept, 1, 0, np.zeros(2), np.zeros(2, np.int64), both)
            pair = np.zeros((1, 2), np.int64)
            add_squares_of_each(values, kept, edges, ones[0], np.zeros((1, 2)), pair, pair.copy())
        find_bins(values, unit, bins)
    for bits in (np.zeros(1, np.uint8), np.zeros(1, np.uint16)):
        count_known_bins(bits, codes, slots, bins, counts)
    for kind in (np.uint16, np.uint32, np.uint64):
        for here in (None, remaining_mask):
            count_between(np.zeros(1, kind), here, kind(0), kind(0), 0)
