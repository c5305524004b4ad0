"""Compiled loops over entries that lie in the cells of a picture.

``rows`` and ``columns`` are the offsets of lines: the entry of row i and column j is number
``rows[i] + columns[j]`` of its stretch, and lies in the cell (``down[i]``, ``across[j]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Codes = NDArray[np.uint8]
    Counts = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.float64]
    Values = NDArray[np.floating[Any]]


WIDE = 1024
"""So many columns are added together, to fit a processor's nearest cache."""


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
    """Add rows of consecutive values to a row of cells: in each column first, many at once.

    Returns:
        Whether all values are finite. If not, nothing is added.
    """
    total = np.zeros(columns, np.float64)
    most, least = np.zeros(columns, values.dtype), np.zeros(columns, values.dtype)
    for start in range(0, columns, WIDE):
        stop = min(start + WIDE, columns)
        totals, mosts, leasts = total[start:stop], most[start:stop], least[start:stop]
        for i in range(rows.size):
            line = values[rows[i] + start : rows[i] + stop]
            for j in range(totals.size):
                totals[j] += line[j]
                mosts[j] = max(mosts[j], line[j])
                leasts[j] = min(leasts[j], line[j])
    odd = 0
    for j in range(columns):
        odd += total[j] - total[j] != 0  # as it is where any value is not finite
    if odd > 0:
        return False
    first = 0
    while first < columns:
        cell, here = across[first], 0.0
        highest, lowest, last = most[first], least[first], first
        while last < columns and across[last] == cell:
            here += total[last]
            highest, lowest = max(highest, most[last]), min(lowest, least[last])
            last += 1
        end = np.float64(highest) if highest >= -lowest else np.float64(lowest)
        sums[cell] += here
        counts[cell] += rows.size * (last - first)
        if abs(end) > abs(ends[cell]) or (end == -ends[cell] and end > 0):
            ends[cell] = end
        first = last
    return True


@compiled
def add_values(
    values: Values,
    here: Flags,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    total: Numbers,
    farthest: Numbers,
    finite: Counts,
    odd: Flags,
) -> None:
    """Add values to the cells they lie in.

    Args:
        values: of a stretch.
        here: which of them count; if empty, all.
        rows: see above.
        columns: likewise.
        down: likewise.
        across: likewise.
        total: (cells down, cells across), the sum of the finite values.
        farthest: likewise, the finite value that is the farthest from zero; of two the positive.
        finite: likewise, how many there are.
        odd: likewise, whether a value is NaN or infinite.
    """
    side_by_side = here.size == 0 and columns[-1] == columns.size - 1
    first = 0
    while first < rows.size:
        last = first + 1
        while last < rows.size and down[last] == down[first]:
            last += 1
        sums, ends = total[down[first]], farthest[down[first]]
        counts, strange = finite[down[first]], odd[down[first]]
        if (
            side_by_side
            and last > first + 1
            and _add_band(values, rows[first:last], columns.size, across, sums, ends, counts)
        ):
            first = last
            continue
        for i in range(first, last):
            line = values[rows[i] :]
            for j in range(columns.size):
                place = np.uint64(columns[j])
                if here.size > 0 and not here[np.uint64(rows[i]) + place]:
                    continue
                value = np.float64(line[place])
                cell = np.uint64(across[j])
                if np.isfinite(value):
                    sums[cell] += value
                    counts[cell] += 1
                    end = ends[cell]
                    if abs(value) > abs(end) or (value == -end and value > 0):
                        ends[cell] = value
                else:
                    strange[cell] = True
        first = last


@compiled
def add_codes(
    codes: Codes,
    slots: Codes,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    counts: Counts,
) -> None:
    """Count entries by the step that pruned them, and by the cell they lie in.

    Args:
        codes: of a stretch.
        slots: one per code.
        rows: see above.
        columns: likewise.
        down: likewise.
        across: likewise.
        counts: (slots, cells down, cells across).
    """
    for i in range(rows.size):
        here = counts[:, down[i]]
        line = codes[rows[i] :]
        for j in range(columns.size):
            here[slots[line[np.uint64(columns[j])]], across[j]] += 1


@compiled
def add_lines(
    values: Values | Flags,
    here: Flags,
    rows: Counts,
    columns: Counts,
    down: Counts,
    across: Counts,
    by_row: Numbers,
    by_column: Numbers,
) -> None:
    """Add the finite values of each row and of each column up.

    Args:
        values: of a stretch.
        here: which of them count; if empty, all.
        rows: see above.
        columns: likewise.
        down: here the place of each row in ``by_row``.
        across: likewise of the columns.
        by_row: (2, rows), the sum, and how many values it is of.
        by_column: likewise.
    """
    complete = 0
    for i in range(rows.size):
        line, row, total = values[rows[i] :], down[i], 0.0
        for j in range(columns.size):
            total += np.float64(line[np.uint64(columns[j])])
        if here.size == 0 and np.isfinite(total):
            by_row[0, row] += total
            by_row[1, row] += columns.size
            complete += 1
            for j in range(columns.size):
                by_column[0, across[j]] += np.float64(line[np.uint64(columns[j])])
            continue
        for j in range(columns.size):
            place = np.uint64(columns[j])
            value = np.float64(line[place])
            if np.isfinite(value) and (here.size == 0 or here[np.uint64(rows[i]) + place]):
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
    """Return the highest ``bits & magnitude`` that lies below ``end``; 0 if there is none."""
    found = np.zeros(WIDE, bits.dtype)  # many at once, in the type that they have
    for start in range(0, bits.size, WIDE):
        block = bits[start : start + WIDE]
        for i in range(block.size):
            key = block[i] & magnitude
            found[i] = max(found[i], key if key < end else magnitude - magnitude)
    return int(found.max())


def warm_up() -> None:
    """Compile every loop, or load it from the cache, for all types that it meets."""
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
