"""What the entries of each row and of each column of a picture come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster import value_kernels
from prune_gui.audit.raster.cell_grid import CellGrid, Tile, turned
from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.audit.statistics.score_blocks import ALL, Flags
from prune_gui.audit.statistics.values import Values
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT


@dataclass(frozen=True, slots=True)
class Profiles:
    """A mean for each line of a picture; NaN for those without entries. Read-only.

    Attributes:
        rows: float64, one per row.
        columns: likewise.
    """

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]


def pruned_shares(
    resolution: Resolution, name: str, layout: ParameterLayout, monitor: Monitor
) -> Profiles:
    """Return which share of each row and of each column of a whole picture is pruned.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        layout: where its entries lie.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """

    def pruned(start: int, stop: int) -> tuple[Flags, Flags]:
        return resolution.pruned_by_within(name, start, stop) != KEPT, ALL

    return means(pruned, layout, monitor)


def means(
    measure: Callable[[int, int], tuple[Values | Flags, Flags]],
    layout: ParameterLayout,
    monitor: Monitor,
) -> Profiles:
    """Return the mean of the finite numbers of each row and of each column of a whole picture.

    Args:
        measure: gives a number per entry; see `Measure`. A flag that is set is 1.
        layout: where the entries lie.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    other = turned(layout)
    if other is not None:
        found = means(measure, other, monitor)
        return Profiles(found.columns, found.rows)
    rows, columns = range(layout.rows), range(layout.columns)
    grid = CellGrid.over(layout, rows, columns, (len(rows), len(columns)))  # a cell per entry

    def add(tile: Tile) -> tuple[Tile, NDArray[np.float64], NDArray[np.float64]]:
        by_row, by_column = (np.zeros((2, part.stop - part.start)) for part in tile)
        for piece in grid.pieces(tile):
            monitor.advance(len(piece.rows) * len(piece.columns))
            value_kernels.add_lines(
                *measure(piece.start, piece.stop),
                piece.rows,
                piece.columns,
                piece.down,
                piece.across,
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
    """Return the mean of each line, given sums and how many numbers they are of."""
    total, count = lines
    means = np.full(len(total), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    means.flags.writeable = False
    return means
