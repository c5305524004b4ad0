"""The density of pruned elements in any layout of a parameter."""

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
    """Return the density of pruned elements in a rectangle of a parameter's layout.

    A cell without elements, between kernels, has the share NaN.

    Args:
        resolution: the resolution.
        name: name of the parameter.
        layout: the layout of the parameter.
        rows: rows of the layout; not empty, step 1.
        columns: columns of the layout; not empty, step 1.
        cells: maximum number of cells (down, across); at most one per row and column. The sizes
            of cells differ by at most one row or column.
        monitor: receives the number of elements processed.

    Raises:
        Cancelled: the monitor was cancelled.
    """
    if isinstance(layout, SliceLayout):
        return density(resolution, name, layout, rows, columns, cells, monitor)
    code_index = CodeIndex.of(resolution, name)
    codes = np.array(code_index.codes, np.uint8)
    grid = CellGrid.over(layout, rows, columns, cells)
    share, step = np.zeros(grid.shape, np.float32), np.zeros(grid.shape, np.uint8)

    def fill(tile: Tile) -> None:
        counts = np.zeros((len(codes), *share[tile].shape), np.int64)
        for chunk in grid.chunks(tile):
            monitor.advance(len(chunk.rows) * len(chunk.columns))
            value_kernels.add_codes(
                resolution.pruned_by_within(name, chunk.start, chunk.stop),
                code_index.lookup,
                chunk.rows,
                chunk.columns,
                chunk.down,
                chunk.across,
                counts,
            )
        elements, pruned = counts.sum(0), counts[1:].sum(0)
        with np.errstate(invalid="ignore"):  # 0 / 0 in a cell without elements
            share[tile] = pruned / elements
        if len(codes) > 1:
            step[tile] = np.where(pruned > 0, codes[1 + counts[1:].argmax(0)], 0)

    monitor.expect(grid.size)
    for _ in run(fill, grid.tiles()):
        pass
    share.flags.writeable = step.flags.writeable = False
    return Density(rows, columns, share, step)
