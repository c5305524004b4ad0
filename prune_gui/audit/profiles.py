"""Which share of each row and of each column of a picture is pruned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import value_kernels
from prune_gui.audit.cells import Cells, Lines, Tile, turned
from prune_gui.audit.plane import GAP, Layout
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Profiles:
    """Which share is pruned of each line of a picture; NaN for those without entries. Read-only.

    Attributes:
        rows: float64, one per row.
        columns: likewise.
    """

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]


def profiles(resolution: Resolution, name: str, layout: Layout, monitor: Monitor) -> Profiles:
    """Return which share of each row and of each column of a whole picture is pruned.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        layout: where its entries lie.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    other = turned(layout)
    if other is not None:
        found = profiles(resolution, name, other, monitor)
        return Profiles(found.columns, found.rows)
    rows, columns = range(layout.rows), range(layout.columns)
    grid = Cells.over(layout, rows, columns, (len(rows), len(columns)))  # a cell per entry

    def count(tile: Tile) -> tuple[Tile, Lines, Lines]:
        by_row, by_column = (np.zeros(part.stop - part.start, np.int64) for part in tile)
        for piece in grid.pieces(tile):
            monitor.advance(len(piece.rows) * len(piece.columns))
            value_kernels.add_lines(
                resolution.pruned_by_within(name, piece.start, piece.stop),
                piece.rows,
                piece.columns,
                piece.down,
                piece.across,
                by_row,
                by_column,
            )
        return tile, by_row, by_column

    monitor.expect(grid.size)
    pruned_of_rows = np.zeros(len(rows), np.int64)
    pruned_of_columns = np.zeros(len(columns), np.int64)
    for (down, across), by_row, by_column in run(count, grid.tiles()):
        pruned_of_rows[down] += by_row
        pruned_of_columns[across] += by_column
    of_row, of_column = layout.row_offsets(rows) != GAP, layout.column_offsets(columns) != GAP
    return Profiles(
        _share(pruned_of_rows, of_row, int(of_column.sum())),
        _share(pruned_of_columns, of_column, int(of_row.sum())),
    )


def _share(pruned: Lines, there: NDArray[np.bool_], entries: int) -> NDArray[np.float64]:
    share = np.where(there, pruned / entries, np.nan)
    share.flags.writeable = False
    return share
