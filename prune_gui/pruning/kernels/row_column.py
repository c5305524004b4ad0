"""Compiled loops of `prune_gui.pruning.selection.row_column_scores`; see `kernels.key_loops`."""

from __future__ import annotations

import math

import numpy as np

from prune_gui.pruning.arrays import Flags, Ints, Numbers, Values
from prune_gui.pruning.kernels.loop import compiled
from prune_gui.pruning.kernels.norm_loops import Elements
from prune_gui.pruning.kernels.powers import value

LANES = 8
"""Partial sums of a row: element j is added to number j % LANES, so that the loop is vectorized."""
TILE_COLUMNS = 32 * LANES
"""Columns worked on at once; the powers of four rows fit in the L1 cache."""


@compiled
def add_powers(
    rows: Elements, square: bool, scale: float, row_sums: Numbers, column_sums: Numbers
) -> None:
    """Add the absolute values of ``rows``, or their squares, to the sums of rows and of columns.

    Each value is multiplied by ``scale`` first. All sums are added up in the order of the
    elements, those of a row in `LANES` partial sums, which are then added in order.
    """
    powers, lanes = np.zeros((4, TILE_COLUMNS)), np.zeros((4, LANES))
    for i in range(0, rows.shape[0], 4):
        count = min(4, rows.shape[0] - i)
        lanes[:] = 0.0
        for first in range(0, rows.shape[1], TILE_COLUMNS):
            sums = column_sums[first : first + TILE_COLUMNS]
            if count == 4:
                _add_powers_of_four(rows[i : i + 4], first, square, scale, sums, powers)
            else:
                for k in range(count):
                    for j in range(sums.size):
                        absolute = np.float64(value(rows[i + k, first + j])) * scale
                        powers[k, j] = absolute * absolute if square else absolute
                        sums[j] += powers[k, j]
            for k in range(count):
                _add_to_lanes(powers[k, : sums.size], lanes[k])
        for k in range(count):
            for lane in range(LANES):
                row_sums[i + k] += lanes[k, lane]


@compiled
def _add_powers_of_four(
    rows: Elements, first: int, square: bool, scale: float, column_sums: Numbers, powers: Numbers
) -> None:
    """Store the powers of four rows from a column on; the sums of columns are read once for all."""
    last = first + column_sums.size
    row_a, row_b, row_c, row_d = (
        rows[0, first:last],
        rows[1, first:last],
        rows[2, first:last],
        rows[3, first:last],
    )
    powers_a, powers_b, powers_c, powers_d = powers[0], powers[1], powers[2], powers[3]
    for j in range(column_sums.size):
        a = np.float64(value(row_a[j])) * scale
        b = np.float64(value(row_b[j])) * scale
        c = np.float64(value(row_c[j])) * scale
        d = np.float64(value(row_d[j])) * scale
        a = a * a if square else a
        b = b * b if square else b
        c = c * c if square else c
        d = d * d if square else d
        powers_a[j], powers_b[j], powers_c[j], powers_d[j] = a, b, c, d
        column_sums[j] = column_sums[j] + a + b + c + d


@compiled
def _add_to_lanes(powers: Numbers, lanes: Numbers) -> None:
    """Add each power to the partial sum of its index; local names let these stay in registers."""
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    e, f, g, h = lanes[4], lanes[5], lanes[6], lanes[7]
    whole = powers.size // LANES * LANES
    for j in range(0, whole, LANES):
        a, b, c, d = a + powers[j], b + powers[j + 1], c + powers[j + 2], d + powers[j + 3]
        e, f, g, h = e + powers[j + 4], f + powers[j + 5], g + powers[j + 6], h + powers[j + 7]
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
    lanes[4], lanes[5], lanes[6], lanes[7] = e, f, g, h
    for j in range(whole, powers.size):
        lanes[j - whole] += powers[j]


@compiled
def add_remaining_powers(
    rows: Elements,
    remaining_mask: Flags | None,
    square: bool,
    scale: float,
    row_sums: Numbers,
    column_sums: Numbers,
    row_counts: Ints,
    column_counts: Ints,
) -> None:
    """Do the same for the finite remaining elements only, and count them."""
    columns = rows.shape[1]
    remaining_bytes = None if remaining_mask is None else remaining_mask.view(np.uint8)
    lanes = np.zeros(LANES)
    for i in range(rows.shape[0]):
        lanes[:] = 0.0
        for j in range(columns):
            counted = np.uint8(1) if remaining_bytes is None else remaining_bytes[i * columns + j]
            absolute = np.float64(value(rows[i, j])) * scale
            if math.isfinite(absolute):
                remaining = absolute * counted
                power = remaining * remaining if square else remaining
                lanes[j % LANES] += power
                column_sums[j] += power
                row_counts[i] += counted
                column_counts[j] += counted
        for lane in range(LANES):
            row_sums[i] += lanes[lane]


@compiled
def score(
    weights: Elements,
    line_factors: Values,
    factors: Values,
    start: int,
    add: bool,
    are_rows: bool,
    scores: Values,
) -> None:
    """Set scores to ``|w| * row factor * column factor``, in this order; or add the factors."""
    line, begin = 0, 0
    while begin < weights.size:
        end = min(begin + factors.size - start, weights.size)
        factor, across = line_factors[line], factors[start:]
        inputs, outputs = weights[begin:end], scores[begin:end]
        if add:
            for j in range(inputs.size):
                outputs[j] = value(inputs[j]) * (factor + across[j])
        elif are_rows:
            for j in range(inputs.size):
                outputs[j] = value(inputs[j]) * factor * across[j]
        else:
            for j in range(inputs.size):
                outputs[j] = value(inputs[j]) * across[j] * factor
        line, start, begin = line + 1, 0, end
