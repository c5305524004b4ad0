"""The picture of a mask at any size: what share of each cell is pruned, and by which step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.plane import Plane
from prune_gui.audit.slots import Slots
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import CHUNK, run
from prune_gui.recipe import Resolution

_GAP = 1 << 16
"""Asking once more costs as much as deciding about this many entries; shorter gaps are included."""


@dataclass(frozen=True, slots=True)
class Density:
    """A grid of cells over a rectangle of a plane. The arrays are read-only.

    Attributes:
        rows: of the plane, that the grid covers.
        columns: likewise.
        share: float32, per cell, the share of its entries that is pruned.
        step: uint8, per cell, the step that pruned most of its entries (of equals the lowest
            number); 0 where none is pruned, 255 for those pruned in the file.
    """

    rows: range
    columns: range
    share: NDArray[np.float32]
    step: NDArray[np.uint8]


def density(
    resolution: Resolution,
    name: str,
    plane: Plane,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    monitor: Monitor,
) -> Density:
    """Return the density of pruned entries in a rectangle of a parameter.

    Reads the rows it touches and no others; needs a few chunks of memory whatever the size.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        plane: how the parameter is laid flat.
        rows: of the plane; not empty, step 1.
        columns: likewise.
        cells: how many down and across, at most. Never more than one per entry. Cells differ by one
            row or column at most.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    if plane.row_stride < plane.column_stride:
        turned = density(
            resolution, name, plane.transposed, columns, rows, (cells[1], cells[0]), monitor
        )
        return Density(rows, columns, turned.share.T, turned.step.T)
    slots = Slots.of(resolution, name)
    codes = np.array(slots.codes, np.uint8)
    row_edges, column_edges = _edges(rows, cells[0]), _edges(columns, cells[1])
    shape = len(row_edges) - 1, len(column_edges) - 1
    share, step = np.zeros(shape, np.float32), np.zeros(shape, np.uint8)
    spare: list[NDArray[np.uint8]] = []  # what no thread uses; new memory for each tile is slower

    def fill(tile: tuple[slice, slice]) -> None:
        down, across = tile
        memory = spare.pop() if spare else np.empty(CHUNK, np.uint8)
        tile_rows = row_edges[down.start : down.stop + 1]
        tile_columns = column_edges[across.start : across.stop + 1]
        counts = np.zeros((len(codes), len(tile_rows) - 1, len(tile_columns) - 1), np.int64)
        for part_rows, part_columns in _parts(plane, tile_rows, tile_columns):
            start = plane.flat(part_rows[0], part_columns[0])
            stop = plane.flat(part_rows[1] - 1, part_columns[1] - 1) + 1
            kernels.count_cells(
                resolution.pruned_by_within(name, start, stop, memory[: stop - start]),
                codes,
                slots.lookup,
                plane.row_stride,
                plane.column_stride,
                tile_rows,
                tile_columns,
                part_rows,
                part_columns,
                counts,
            )
            monitor.advance((part_rows[1] - part_rows[0]) * (part_columns[1] - part_columns[0]))
        spare.append(memory)
        kernels.sum_up_cells(counts, codes, tile_rows, tile_columns, share[tile], step[tile])

    if len(codes) > 1:
        monitor.expect(len(rows) * len(columns))
        for _ in run(fill, _tiles(plane, row_edges, column_edges, len(codes))):
            pass
    share.flags.writeable = step.flags.writeable = False
    return Density(rows, columns, share, step)


def _edges(stretch: range, cells: int) -> NDArray[np.int64]:
    """Return where each cell begins, and where the last one ends."""
    cells = max(1, min(cells, len(stretch)))
    return stretch.start + np.arange(cells + 1, dtype=np.int64) * len(stretch) // cells


def _tiles(
    plane: Plane, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64], slots: int
) -> Iterator[tuple[slice, slice]]:
    """Cut the grid into pieces of work: few entries and few counts, but at least one cell each.

    They are as wide as the grid, or as a chunk of memory: many short rows take long to ask for.
    """
    high = int(np.diff(row_edges).max())
    wide = int(np.diff(column_edges).max())
    down, across = len(row_edges) - 1, len(column_edges) - 1
    across_tile = min(across, max(1, CHUNK // (wide * plane.column_stride)))
    down_tile = max(1, CHUNK // (max(high * wide, slots) * across_tile))
    for i, j in product(range(0, down, down_tile), range(0, across, across_tile)):
        yield slice(i, min(i + down_tile, down)), slice(j, min(j + across_tile, across))


def _parts(
    plane: Plane, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Cut a tile into rectangles whose entries lie within a chunk of memory.

    Yields:
        The rows and the columns of each, from the first to the one after the last.
    """
    first, last = int(row_edges[0]), int(row_edges[-1])
    left, right = int(column_edges[0]), int(column_edges[-1])
    length = (right - left - 1) * plane.column_stride + 1
    together = max(1, CHUNK // plane.row_stride) if plane.row_stride - length <= _GAP else 1
    step = max(1, CHUNK // plane.column_stride) if length > CHUNK else right - left
    for row, column in product(range(first, last, together), range(left, right, step)):
        yield (row, min(row + together, last)), (column, min(column + step, right))
