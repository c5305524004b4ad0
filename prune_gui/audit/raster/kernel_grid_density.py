"""The density of pruned entries in a picture of any layout."""

from __future__ import annotations

import numpy as np

from prune_gui.audit.raster import value_kernels
from prune_gui.audit.raster.cell_grid import CellGrid, Tile
from prune_gui.audit.raster.code_index import CodeIndex
from prune_gui.audit.raster.density import Density, density
from prune_gui.audit.raster.slice_layout import ParameterLayout, SliceLayout
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.recipe import Resolution


def density_of(
    resolution: Resolution,
    name: str,
    layout: ParameterLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    monitor: Monitor,
) -> Density:
    """Return the density of pruned entries in a rectangle of a parameter's picture.

    A cell between kernels, of no entries, has the share NaN.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        layout: where the entries lie.
        rows: of the picture; not empty, step 1.
        columns: likewise.
        cells: how many down and across, at most. Never more than one per line. Cells differ by one
            row or column at most.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    if isinstance(layout, SliceLayout):
        return density(resolution, name, layout, rows, columns, cells, monitor)
    slots = CodeIndex.of(resolution, name)
    codes = np.array(slots.codes, np.uint8)
    grid = CellGrid.over(layout, rows, columns, cells)
    share, step = np.zeros(grid.shape, np.float32), np.zeros(grid.shape, np.uint8)

    def fill(tile: Tile) -> None:
        counts = np.zeros((len(codes), *share[tile].shape), np.int64)
        for piece in grid.pieces(tile):
            monitor.advance(len(piece.rows) * len(piece.columns))
            value_kernels.add_codes(
                resolution.pruned_by_within(name, piece.start, piece.stop),
                slots.lookup,
                piece.rows,
                piece.columns,
                piece.down,
                piece.across,
                counts,
            )
        entries, pruned = counts.sum(0), counts[1:].sum(0)
        with np.errstate(invalid="ignore"):
            share[tile] = pruned / entries
        if len(codes) > 1:
            step[tile] = np.where(pruned > 0, codes[1 + counts[1:].argmax(0)], 0)

    monitor.expect(grid.size)
    for _ in run(fill, grid.tiles()):
        pass
    share.flags.writeable = step.flags.writeable = False
    return Density(rows, columns, share, step)
