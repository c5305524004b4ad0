"""Compiled loops over the elements in the cells of a grid.

``rows`` and ``columns`` are offsets as in `GridChunk`: the element of row i and column j has the
index ``rows[i] + columns[j]`` in the chunk, and is in the cell (``down[i]``, ``across[j]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.loop import compiled, compiled_unless_small

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Codes = NDArray[np.uint8]
    Counts = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.float64]
    Values = NDArray[np.floating[Any]]


BLOCK_ELEMENTS = 1024
"""This many columns are processed per block, which fits the L1 cache."""


@compiled
def _add_band(
    values: Values,
    rows: Counts,
    columns: int,
    across: Counts,
    sums: Numbers,
    ends: Numbers,
    counts: Counts,
) -> bool:
    """Add rows of consecutive values to a row of cells: first per column, which is vectorized."""
    total = np.zeros(columns, np.float64)
    high, low = np.zeros(columns, values.dtype), np.zeros(columns, values.dtype)
    for start in range(0, columns, BLOCK_ELEMENTS):
        stop = min(start + BLOCK_ELEMENTS, columns)
        totals, highs, lows = total[start:stop], high[start:stop], low[start:stop]
        for i in range(rows.size):
            line = values[rows[i] + start : rows[i] + stop]
            for j in range(totals.size):
                totals[j] += line[j]
                highs[j] = max(highs[j], line[j])
                lows[j] = min(lows[j], line[j])
    non_finite = 0
    for j in range(columns):
        non_finite += total[j] - total[j] != 0  # true if and only if the total is non-finite
    if non_finite > 0:
        return False
    first = 0
    while first < columns:
        cell, cell_sum = across[first], 0.0
        highest, lowest, last = high[first], low[first], first
        while last < columns and across[last] == cell:
            cell_sum += total[last]
            highest, lowest = max(highest, high[last]), min(lowest, low[last])
            last += 1
        end = np.float64(highest) if highest >= -lowest else np.float64(lowest)
        sums[cell] += cell_sum
        counts[cell] += rows.size * (last - first)
        if abs(end) > abs(ends[cell]) or (end == -ends[cell] and end > 0):
            ends[cell] = end
        first = last
    return True


@compiled
def add_values(
    values: Values,
    defined: Flags,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    total: Numbers,
    farthest: Numbers,
    finite: Counts,
    non_finite: Flags,
) -> None:
    """Add values to the statistics of their cells. The outputs are (cells down, cells across)."""
    contiguous = defined.size == 0 and columns[-1] == columns.size - 1
    first = 0
    while first < rows.size:
        last = first + 1
        while last < rows.size and down[last] == down[first]:
            last += 1
        sums, ends = total[down[first]], farthest[down[first]]
        counts, cell_non_finite = finite[down[first]], non_finite[down[first]]
        if (
            contiguous
            and last > first + 1
            and _add_band(values, rows[first:last], columns.size, across, sums, ends, counts)
        ):
            first = last
            continue
        for i in range(first, last):
            line = values[rows[i] :]
            for j in range(columns.size):
                column = np.uint64(columns[j])
                if defined.size > 0 and not defined[np.uint64(rows[i]) + column]:
                    continue
                value = np.float64(line[column])
                cell = np.uint64(across[j])
                if np.isfinite(value):
                    sums[cell] += value
                    counts[cell] += 1
                    end = ends[cell]
                    if abs(value) > abs(end) or (value == -end and value > 0):
                        ends[cell] = value
                else:
                    cell_non_finite[cell] = True
        first = last


def _add_codes_in_numpy(
    codes: Codes,
    slots: Codes,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    counts: Counts,
) -> None:
    slot_of_each = slots[codes[rows[:, None] + columns]]
    cells = np.ravel_multi_index((slot_of_each, down[:, None], across), counts.shape)
    counts += np.bincount(cells.ravel(), minlength=counts.size).reshape(counts.shape)


@compiled_unless_small(_add_codes_in_numpy)
def add_codes(
    codes: Codes,
    slots: Codes,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    counts: Counts,
) -> None:
    """Count elements by the step that pruned them, and by cell."""
    for i in range(rows.size):
        row_counts = counts[:, down[i]]
        line = codes[rows[i] :]
        for j in range(columns.size):
            row_counts[slots[line[np.uint64(columns[j])]], across[j]] += 1


@compiled
def add_lines(
    values: Values | Flags,
    defined: Flags,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    by_row: Numbers,
    by_column: Numbers,
) -> None:
    """Sum and count the finite values of each row and of each column.

    Args:
        down: the index of each row in ``by_row``.
        across: the index of each column in ``by_column``.
        by_row: (2, rows), the sum and the number of finite values.
        by_column: (2, columns), in the same way.
    """
    complete = 0
    for i in range(rows.size):
        line, row, total = values[rows[i] :], down[i], 0.0
        for j in range(columns.size):
            total += np.float64(line[np.uint64(columns[j])])
        if defined.size == 0 and np.isfinite(total):
            by_row[0, row] += total
            by_row[1, row] += columns.size
            complete += 1
            for j in range(columns.size):
                by_column[0, across[j]] += np.float64(line[np.uint64(columns[j])])
            continue
        for j in range(columns.size):
            column = np.uint64(columns[j])
            value = np.float64(line[column])
            if np.isfinite(value) and (defined.size == 0 or defined[np.uint64(rows[i]) + column]):
                by_row[0, row] += value
                by_row[1, row] += 1
                by_column[0, across[j]] += value
                by_column[1, across[j]] += 1
    for j in range(columns.size):
        by_column[1, across[j]] += complete


@compiled
def highest_key(
    bits: Bits, magnitude: np.unsignedinteger[Any], end: np.unsignedinteger[Any]
) -> int:
    """Return the highest ``bits & magnitude`` below ``end``; 0 if there is none."""
    maxima = np.zeros(BLOCK_ELEMENTS, bits.dtype)  # an array of maxima, so that it is vectorized
    for start in range(0, bits.size, BLOCK_ELEMENTS):
        block = bits[start : start + BLOCK_ELEMENTS]
        for i in range(block.size):
            key = block[i] & magnitude
            maxima[i] = max(maxima[i], key if key < end else magnitude - magnitude)
    return int(maxima.max())


def warm_up() -> None:
    """Compile every loop, or load it from the cache, for all dtypes that it is called with."""
    codes, lines = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    slots, counts = np.zeros(256, np.uint8), np.zeros((1, 1, 1), np.int64)
    add_codes(codes, slots, lines, lines, lines, lines, counts)
    cells, flags = np.zeros((1, 1)), np.zeros((1, 1), np.bool_)
    sums = np.zeros((2, 1))
    for numbers in (np.zeros(1, np.float32), np.zeros(1, np.float64), flags[0]):
        add_lines(numbers, flags[0], lines, lines, lines, lines, sums, sums.copy())
    for values in (np.zeros(1, np.float32), np.zeros(1, np.float64)):
        add_values(
            values, flags[0], lines, lines, lines, lines, cells, cells.copy(), counts[0], flags
        )
    for width in (np.uint8, np.uint16, np.uint32, np.uint64):
        highest_key(np.zeros(1, width), width(1), width(1))
