"""Compiled loops over entries that lie in the cells of a picture.

``rows`` and ``columns`` are the offsets of lines: the entry of row i and column j is number
``rows[i] + columns[j]`` of its stretch, and lies in the cell (``down[i]``, ``across[j]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint8]
    Counts = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.float64]
    Values = NDArray[np.floating[Any]]


@compiled
def _add_band(
    values: Values, rows: Counts, columns: int, across: Counts, sums: Numbers, ends: Numbers
) -> bool:
    """Add rows of consecutive values to a row of cells: in each column first, many at once.

    Returns:
        Whether all values are finite. If not, nothing is added.
    """
    total = np.zeros(columns, np.float64)
    most, least = np.zeros(columns, values.dtype), np.zeros(columns, values.dtype)
    for i in range(rows.size):
        line = values[rows[i] : rows[i] + columns]
        for j in range(columns):
            total[j] += line[j]
            most[j] = max(most[j], line[j])
            least[j] = min(least[j], line[j])
    check = 0.0
    for j in range(columns):
        check += total[j] - total[j]  # NaN if any value is not finite
    if not np.isfinite(check):
        return False
    for j in range(columns):
        cell = across[j]
        sums[cell] += total[j]
        end = np.float64(most[j]) if most[j] >= -least[j] else np.float64(least[j])
        if abs(end) > abs(ends[cell]) or (end == -ends[cell] and end > 0):
            ends[cell] = end
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
            and _add_band(values, rows[first:last], columns.size, across, sums, ends)
        ):
            for j in range(columns.size):
                counts[across[j]] += last - first
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
