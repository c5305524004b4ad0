"""Compiled loops over the elements in the cells of a grid.

``lines`` are those of a `GridChunk`, (rows, columns, down, across): the element of row i and column
j has the index ``rows[i] + columns[j]`` in the chunk, and is in the cell (``down[i]``,
``across[j]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prune_gui.pruning.kernels.loop import compiled, compiled_unless_small

if TYPE_CHECKING:
    from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints, Key, Numbers, Values

    Lines = tuple[Ints, Ints, Ints, Ints]
    Pair = tuple[int, int]
    Edges = tuple[Ints, Ints]
    Spans = tuple[Pair, Pair]


BLOCK_ELEMENTS = 1024  # this many columns are processed per block, which fits the L1 cache


MAX_PASSES = 4  # up to this many codes are counted in one pass each; more codes, element by element


@compiled
def _count_by_columns(
    codes: Codes,
    code: np.uint8,
    strides: Pair,
    rows: int,
    ends: Ints,
    in_columns: Codes,
    counts: Ints,
) -> None:
    """Count a code in up to 255 rows: first per column, which is vectorized, then per cell."""
    in_columns[:] = 0
    for row in range(rows):
        line = codes[row * strides[0] :]
        for k in range(in_columns.size):
            in_columns[k] += line[np.uint64(k * strides[1])] == code
    begin = 0
    for j in range(ends.size):
        total, of_cell = np.uint32(0), in_columns[begin : ends[j]]
        for k in range(of_cell.size):
            total += of_cell[k]
        counts[j] += total
        begin = ends[j]


def _count_cells_in_numpy(
    codes: Codes,
    known: Codes,
    slots: Codes,
    strides: Pair,
    edges: Edges,
    spans: Spans,
    counts: Ints,
) -> None:
    lines = np.ogrid[slice(*spans[0]), slice(*spans[1])]
    i, j = (
        np.searchsorted(e, line, side="right") - 1 for e, line in zip(edges, lines, strict=True)
    )
    down, across = (line - first for line, (first, _) in zip(lines, spans, strict=True))
    slot_of_each = slots[codes[down * strides[0] + across * strides[1]]]
    cells = np.ravel_multi_index((slot_of_each, i, j), counts.shape)
    added = np.bincount(cells.ravel(), minlength=counts.size).reshape(counts.shape)
    counts[1:] += added[1:].astype(counts.dtype)


@compiled_unless_small(_count_cells_in_numpy)
def count_cells(
    codes: Codes,
    known: Codes,
    slots: Codes,
    strides: Pair,
    edges: Edges,
    spans: Spans,
    counts: Ints,
) -> None:
    """Add the pruned elements of a rectangle to the counts of their cells.

    It has a start and a stop of rows and of columns. ``strides`` are those of a row and
    of a column in ``codes``. Cell (i, j) begins with row ``edges[0][i]`` and column
    ``edges[1][j]``.
    """
    row_edges, column_edges = edges
    (row, end), (left, right) = spans
    i = np.searchsorted(row_edges, row, side="right") - 1
    first = np.searchsorted(column_edges, left, side="right") - 1
    last = np.searchsorted(column_edges, right)
    ends = np.minimum(column_edges[first + 1 : last + 1], right) - left
    in_columns = np.empty(right - left, np.uint8)
    while row < end:
        while row >= row_edges[i + 1]:
            i += 1
        row_codes, cells = codes[(row - spans[0][0]) * strides[0] :], counts[:, i, first:last]
        height = min(row_edges[i + 1] - row, end - row, 255)
        if known.size - 1 <= min(height, MAX_PASSES):
            for slot in range(1, known.size):
                code, of_slot = known[slot], cells[slot]
                _count_by_columns(row_codes, code, strides, height, ends, in_columns, of_slot)
        else:
            height, begin = 1, 0
            for j in range(ends.size):
                for k in range(begin, ends[j]):
                    slot = slots[row_codes[np.uint64(k * strides[1])]]
                    cells[slot, j] += slot != 0
                begin = ends[j]
        row += height


@compiled
def _add_band(
    values: Values,
    rows: Ints,
    columns: int,
    across: Ints,
    sums: Numbers,
    ends: Numbers,
    counts: Ints,
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
    lines: Lines,
    total: Numbers,
    farthest: Numbers,
    finite: Ints,
    non_finite: Flags,
) -> None:
    """Add values to the statistics of their cells. The outputs are (cells down, cells across)."""
    rows, columns, down, across = lines
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


def _add_codes_in_numpy(codes: Codes, slots: Codes, lines: Lines, counts: Ints) -> None:
    rows, columns, down, across = lines
    slot_of_each = slots[codes[rows[:, None] + columns]]
    cells = np.ravel_multi_index((slot_of_each, down[:, None], across), counts.shape)
    counts += np.bincount(cells.ravel(), minlength=counts.size).reshape(counts.shape)


@compiled_unless_small(_add_codes_in_numpy)
def add_codes(codes: Codes, slots: Codes, lines: Lines, counts: Ints) -> None:
    """Count elements by the step that pruned them, and by cell."""
    rows, columns, down, across = lines
    for i in range(rows.size):
        row_counts = counts[:, down[i]]
        line = codes[rows[i] :]
        for j in range(columns.size):
            row_counts[slots[line[np.uint64(columns[j])]], across[j]] += 1


@compiled
def add_lines(
    values: Values | Flags, defined: Flags, lines: Lines, by_row: Numbers, by_column: Numbers
) -> None:
    """Sum and count the finite values of each row and of each column.

    ``down`` and ``across`` are the indices in ``by_row`` (2, rows) and ``by_column`` (2, columns),
    which get the sums and the numbers.
    """
    rows, columns, down, across = lines
    defined_bytes, complete = defined.view(np.uint8), 0
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
            column, is_defined = np.uint64(columns[j]), np.uint8(1)
            value = np.float64(line[column])
            if defined.size > 0:
                is_defined = defined_bytes[np.uint64(rows[i]) + column]
            if np.isfinite(value):
                by_row[0, row] += value * is_defined
                by_row[1, row] += is_defined
                by_column[0, across[j]] += value * is_defined
                by_column[1, across[j]] += is_defined
    for j in range(columns.size):
        by_column[1, across[j]] += complete


@compiled
def highest_key(bits: Bits, magnitude: Key, end: Key) -> int:
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
    codes, line, flags = np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros((1, 1), np.bool_)
    lines, edges, span = (line, line, line, line), np.array([0, 1]), (0, 1)
    slots, counts = np.zeros(256, np.uint8), np.zeros((1, 1, 1), np.int64)
    count_cells(codes, codes, slots, span, (edges, edges), (span, span), counts)
    add_codes(codes, slots, lines, counts)
    cells, sums = np.zeros((1, 1)), np.zeros((2, 1))
    add_lines(flags[0], flags[0], lines, sums, sums.copy())
    for values in (np.zeros(1, np.float32), np.zeros(1, np.float64)):
        add_lines(values, flags[0], lines, sums, sums.copy())
        add_values(values, flags[0], lines, cells, cells.copy(), counts[0], flags)
    for width in (np.uint8, np.uint16, np.uint32, np.uint64):
        highest_key(np.zeros(1, width), width(1), width(1))
