"""Statistics of the values in each cell of a grid, and the means of each row and column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prune_gui.monitor import Monitor
from prune_gui.parallel import run
from prune_gui.pruning.arrays import Flags, Numbers, Values
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.scores import TensorScores
from prune_gui.raster import cell_kernels
from prune_gui.raster.cell_grid import CellGrid, Layout, Tile
from prune_gui.raster.parameter_layouts import ParameterLayout
from prune_gui.recipe import Resolution
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.recipe.recipe import KEPT
from prune_gui.statistics import kernels
from prune_gui.statistics.dispatch import map_chunks
from prune_gui.statistics.element_scores import ALL
from prune_gui.statistics.element_values import Measure


@dataclass(frozen=True, slots=True)
class CellStatistics:
    """The numbers of each cell of a grid; read-only arrays (cells down, cells across).

    The mean and the farthest number from zero are of finite ones, NaN where there is none; of x and
    -x, x is the farther one. `non_finite` says whether a number is NaN or infinite.
    """

    mean: Numbers
    farthest: Numbers
    non_finite: Flags


def cell_statistics(measure: Measure, grid: CellGrid[Layout], monitor: Monitor) -> CellStatistics:
    """Return the statistics of each cell of a grid; every element counts."""
    if grid.turned is not None:
        result = cell_statistics(measure, grid.turned, monitor)
        return CellStatistics(result.mean.T, result.farthest.T, result.non_finite.T)
    total, farthest = np.zeros(grid.shape), np.zeros(grid.shape)
    finite, non_finite = np.zeros(grid.shape, np.int64), np.zeros(grid.shape, np.bool_)

    def fill(tile: Tile) -> None:
        for chunk in grid.chunks(tile):
            monitor.advance(chunk.size)
            read = measure(chunk.start, chunk.stop)
            cell_kernels.add_values(
                *read, chunk.lines, total[tile], farthest[tile], finite[tile], non_finite[tile]
            )

    monitor.expect(grid.size)
    for _ in run(fill, grid.tiles()):
        pass
    has_finite = finite > 0
    mean = np.divide(total, finite, out=np.full(grid.shape, np.nan), where=has_finite)
    farthest[~has_finite] = np.nan
    for array in (mean, farthest, non_finite):
        array.flags.writeable = False
    return CellStatistics(mean, farthest, non_finite)


def reach_of(measure: Measure, size: int, monitor: Monitor) -> float:
    """Return the largest magnitude of a finite number; 0.0 if there is none."""

    def max_magnitude(start: int, stop: int) -> float:
        numbers, defined = measure(start, stop)
        limits = np.zeros(2)
        kernels.widen_range(numbers if defined.size == 0 else numbers[defined], limits)
        return float(max(-limits[0], limits[1]))

    return max(map_chunks(max_magnitude, size, monitor), default=0.0)


def max_weight_magnitude(resolution: Resolution, name: str, monitor: Monitor) -> float:
    """Return `reach_of` for the weights, computed from their raw bits; see `values.shown`."""
    checkpoint = resolution.checkpoint
    if resolution.is_corrected(name):
        keys = ScoreKeys.of(TensorScores.of(resolution.values(name)))
    else:
        keys = ScoreKeys.of(weight_reader(checkpoint, checkpoint.tensors[name]))

    def max_key(start: int, stop: int) -> int:
        bits = keys.bits(start, stop)
        as_key = bits.dtype.type
        end = as_key(keys.first_non_finite)
        return cell_kernels.highest_key(bits, as_key(keys.magnitude), end)

    return keys.value(max(map_chunks(max_key, keys.size, monitor), default=0))


@dataclass(frozen=True, slots=True)
class Profiles:
    """The means of the rows and of the columns of a layout; NaN for gaps. Read-only."""

    rows: Numbers
    columns: Numbers


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
    grid = CellGrid.over(layout, (layout.rows, layout.columns))  # one cell per element
    if grid.turned is not None:
        profiles = means(measure, grid.turned.layout, monitor)
        return Profiles(profiles.columns, profiles.rows)

    def add(tile: Tile) -> tuple[Tile, Numbers, Numbers]:
        by_row, by_column = (np.zeros((2, part.stop - part.start)) for part in tile)
        for chunk in grid.chunks(tile):
            monitor.advance(chunk.size)
            read = measure(chunk.start, chunk.stop)
            cell_kernels.add_lines(*read, chunk.lines, by_row, by_column)
        return tile, by_row, by_column

    monitor.expect(grid.size)
    of_rows, of_columns = np.zeros((2, layout.rows)), np.zeros((2, layout.columns))
    for (down, across), by_row, by_column in run(add, grid.tiles()):
        of_rows[:, down] += by_row
        of_columns[:, across] += by_column
    return Profiles(_means_of(of_rows), _means_of(of_columns))


def _means_of(lines: Numbers) -> Numbers:
    total, count = lines
    means = np.full(len(total), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    means.flags.writeable = False
    return means
