"""The mean of each row and of each column of a layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.raster import value_kernels
from prune_gui.raster.cell_grid import CellGrid, Tile, turned
from prune_gui.raster.slice_layout import ParameterLayout
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT
from prune_gui.statistics.score_blocks import ALL, Flags
from prune_gui.statistics.values import Values


@dataclass(frozen=True, slots=True)
class Profiles:
    """The means of the rows and columns of a layout; NaN for gaps. The arrays are read-only.

    Attributes:
        rows: float64 (rows,).
        columns: float64 (columns,).
    """

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]


def pruned_shares(
    resolution: Resolution, name: str, layout: ParameterLayout, monitor: Monitor
) -> Profiles:
    """Return the pruned share of each row and of each column of a whole layout."""

    def pruned(start: int, stop: int) -> tuple[Flags, Flags]:
        return resolution.pruned_by_within(name, start, stop) != KEPT, ALL

    return means(pruned, layout, monitor)


def means(
    measure: Callable[[int, int], tuple[Values | Flags, Flags]],
    layout: ParameterLayout,
    monitor: Monitor,
) -> Profiles:
    """Return the mean of the finite numbers of each row and of each column of a whole layout."""
    transposed = turned(layout)
    if transposed is not None:
        profiles = means(measure, transposed, monitor)
        return Profiles(profiles.columns, profiles.rows)
    rows, columns = range(layout.rows), range(layout.columns)
    grid = CellGrid.over(layout, rows, columns, (len(rows), len(columns)))  # one cell per element

    def add(tile: Tile) -> tuple[Tile, NDArray[np.float64], NDArray[np.float64]]:
        by_row, by_column = (np.zeros((2, part.stop - part.start)) for part in tile)
        for chunk in grid.chunks(tile):
            monitor.advance(len(chunk.rows) * len(chunk.columns))
            value_kernels.add_lines(
                *measure(chunk.start, chunk.stop),
                chunk.rows,
                chunk.columns,
                chunk.down,
                chunk.across,
                by_row,
                by_column,
            )
        return tile, by_row, by_column

    monitor.expect(grid.size)
    of_rows, of_columns = np.zeros((2, len(rows))), np.zeros((2, len(columns)))
    for (down, across), by_row, by_column in run(add, grid.tiles()):
        of_rows[:, down] += by_row
        of_columns[:, across] += by_column
    return Profiles(_means_of(of_rows), _means_of(of_columns))


def _means_of(lines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means, given an array (2, lines) of sums and counts."""
    total, count = lines
    means = np.full(len(total), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    means.flags.writeable = False
    return means
