"""The picture of a number per entry at any size: what lies in each cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.raster import value_kernels
from prune_gui.audit.raster.cell_grid import CellGrid, Tile, turned
from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.audit.statistics.element_values import Measure
from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.recipe.auxiliary_files import file_entries


@dataclass(frozen=True, slots=True)
class CellStatistics:
    """A grid of cells over a rectangle of a picture. The arrays are read-only.

    Attributes:
        rows: of the picture, that the grid covers.
        columns: likewise.
        mean: float64, per cell, the mean of its finite numbers; NaN where there is none.
        farthest: likewise, the one of them that lies farthest from zero;
            of two the positive one.
        odd: boolean, whether one of its numbers is NaN or infinite.
    """

    rows: range
    columns: range
    mean: NDArray[np.float64]
    farthest: NDArray[np.float64]
    odd: NDArray[np.bool_]


def cell_statistics(
    measure: Measure,
    layout: ParameterLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    monitor: Monitor,
) -> CellStatistics:
    """Return what lies in each cell of a rectangle of a parameter's picture; no entry is left out.

    Args:
        measure: gives a number per entry.
        layout: where the entries lie.
        rows: of the picture; not empty, step 1.
        columns: likewise.
        cells: how many down and across, at most. Never more than one per line. Cells differ by one
            row or column at most.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    other = turned(layout)
    if other is not None:
        found = cell_statistics(measure, other, columns, rows, (cells[1], cells[0]), monitor)
        return CellStatistics(rows, columns, found.mean.T, found.farthest.T, found.odd.T)
    grid = CellGrid.over(layout, rows, columns, cells)
    total, farthest = np.zeros(grid.shape), np.zeros(grid.shape)
    finite, odd = np.zeros(grid.shape, np.int64), np.zeros(grid.shape, np.bool_)

    def fill(tile: Tile) -> None:
        for piece in grid.pieces(tile):
            monitor.advance(len(piece.rows) * len(piece.columns))
            value_kernels.add_values(
                *measure(piece.start, piece.stop),
                piece.rows,
                piece.columns,
                piece.down,
                piece.across,
                total[tile],
                farthest[tile],
                finite[tile],
                odd[tile],
            )

    monitor.expect(grid.size)
    _all(run(fill, grid.tiles()))
    there = finite > 0
    mean = np.divide(total, finite, out=np.full(grid.shape, np.nan), where=there)
    farthest[~there] = np.nan
    for array in (mean, farthest, odd):
        array.flags.writeable = False
    return CellStatistics(rows, columns, mean, farthest, odd)


def reach_of(measure: Measure, size: int, monitor: Monitor) -> float:
    """Return the greatest distance from zero of a finite number; 0.0 if there is none.

    Args:
        measure: gives a number per entry.
        size: how many entries there are.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """

    def look(span: tuple[int, int]) -> float:
        monitor.advance(span[1] - span[0])
        numbers, there = measure(*span)
        found = np.zeros(2)
        kernels.widen_range(numbers if there.size == 0 else numbers[there], found)
        return float(max(-found[0], found[1]))

    monitor.expect(size)
    return max(run(look, chunks(size)), default=0.0)


def reach_of_weights(checkpoint: Checkpoint, name: str, monitor: Monitor) -> float:
    """Return what `reach_of` does of the weights in the file, by a look at their bits alone.

    Raises:
        Cancelled: the monitor said so.
    """
    keys = ScoreKeys.of(file_entries(checkpoint, checkpoint.tensors[name]))

    def look(span: tuple[int, int]) -> int:
        monitor.advance(span[1] - span[0])
        bits = keys.bits(*span)
        as_key = bits.dtype.type
        end = as_key(keys.first_non_finite)
        return value_kernels.highest_key(bits, as_key(keys.magnitude), end)

    monitor.expect(keys.size)
    return keys.value(max(run(look, chunks(keys.size)), default=0))


def _all(work: Iterator[None]) -> None:
    for _ in work:
        pass
