"""Compiled loops that count entries. They hold no lock of Python's, so threads run side by side.

``codes`` is a stretch of `Resolution.pruned_by`; ``slots`` turns a code into a row of the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint8]
    Counts = NDArray[np.int64]
    Values = NDArray[np.floating[Any]]


@compiled
def _count_columns(
    codes: Codes, code: np.uint8, row_stride: int, column_stride: int, counts: Codes, rows: int
) -> None:
    """Count how often a code occurs in each column of up to 255 rows."""
    counts[:] = 0
    for row in range(rows):
        line = codes[row * row_stride :]
        for k in range(counts.size):
            counts[k] += line[np.uint64(k * column_stride)] == code


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
        counts: (cells down, cells across, slots); nothing is added in slot 0.
    """
    first = np.searchsorted(column_edges, columns[0], side="right") - 1
    i = np.searchsorted(row_edges, rows[0], side="right") - 1
    in_columns = np.empty(columns[1] - columns[0], np.uint8)
    row = rows[0]
    while row < rows[1]:
        while row >= row_edges[i + 1]:
            i += 1
        here = codes[(row - rows[0]) * row_stride :]
        height = min(row_edges[i + 1] - row, rows[1] - row, 255)
        # Column by column is fast, many at a time, but one code after the other.
        slot, by_column = 1, known.size <= height
        if not by_column:
            height = 1
        while slot < known.size:
            if by_column:
                _count_columns(here, known[slot], row_stride, column_stride, in_columns, height)
            column, j = columns[0], first
            while column < columns[1]:
                end = min(column_edges[j + 1], columns[1])
                for k in range(column - columns[0], end - columns[0]):
                    if by_column:
                        counts[i, j, slot] += in_columns[k]
                    else:
                        other = slots[here[np.uint64(k * column_stride)]]
                        counts[i, j, other] += other != 0
                column = end
                j += 1
            slot = slot + 1 if by_column else known.size
        row += height


@compiled
def _bin_of(value: float, guess: float, edges: NDArray[np.float64]) -> int:
    """Return the bin in which a value lies, from a guess that may be wrong or no number."""
    last = edges.size - 2
    found = int(guess) if 0 <= guess <= last else last
    while found > 0 and value < edges[found]:
        found -= 1
    while found < last and value >= edges[found + 1]:
        found += 1
    return found


@compiled
def count_bins(
    values: Values,
    codes: Codes,
    slots: Codes,
    edges: NDArray[np.float64],
    counts: Counts,
    non_finite: Counts,
) -> None:
    """Add finite values to the bins they lie in; count the others.

    Args:
        values: as long as ``codes``.
        codes: which step pruned each.
        slots: one per code.
        edges: equally spaced, ascending; a bin holds its lower edge, the last one also its upper.
        counts: (slots, bins); every finite value lies in one of the bins.
        non_finite: how many are (NaN, infinite).
    """
    bins, low = counts.shape[1], edges[0]
    width = edges[bins] - low
    per_unit = bins / width
    # How far rounding can have moved a place, or an edge, generously.
    doubt = 2.0**-48 * bins * (1 + max(abs(low), abs(edges[bins])) / width)
    for i in range(values.size):
        value = np.float64(values[i])
        place = (value - low) * per_unit
        bin_ = np.int64(place)
        within = place - np.float64(bin_)
        if 0 <= bin_ < bins and doubt < within < 1 - doubt:
            counts[slots[codes[i]], np.uint64(bin_)] += 1
        elif np.isfinite(value):
            counts[slots[codes[i]], _bin_of(value, place, edges)] += 1
        else:
            non_finite[0 if np.isnan(value) else 1] += 1


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
    alive: NDArray[np.bool_],
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
        alive: set where a channel keeps an entry other than zero.
    """
    channel, channels = np.uint64(0), np.uint64(alive.size)
    for i in range(codes.size):
        slot = slots[codes[i]]
        counts[slot, channel] += 1
        alive[channel] |= (slot == 0) & (values[i] != 0)
        place += 1
        if place == inner:
            place = 0
            channel += np.uint64(1)
            if channel == channels:
                channel = np.uint64(0)


@compiled
def count_at_most(values: Values, codes: Codes, threshold: float) -> int:
    """Count the entries still there whose absolute value is ``threshold`` or less."""
    found = 0
    for i in range(values.size):
        found += codes[i] == 0 and abs(values[i]) <= threshold
    return found


def warm_up() -> None:
    """Compile every loop, or load it from the cache, for all types that it meets."""
    codes, edges, stretch = np.zeros(1, np.uint8), np.array([0, 1]), (0, 1)
    slots, alive = np.zeros(256, np.uint8), np.zeros(1, np.bool_)
    count_cells(codes, codes, 1, 1, edges, edges, stretch, stretch, np.zeros((1, 1, 1), np.int64))
    for values in (np.zeros(1, np.float32), np.zeros(1, np.float64)):
        counts = np.zeros((1, 1), np.int64)
        count_bins(values, codes, slots, np.array([0.0, 1.0]), counts, np.zeros(2, np.int64))
        widen_range(values, np.zeros(2))
        count_channel_steps(codes, values, slots, 1, 0, counts, alive)
        count_at_most(values, codes, 0.0)
