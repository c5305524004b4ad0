"""The picture of a mask at any size: what share of each cell is pruned, and by which step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.raster.code_index import CodeIndex
from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import CHUNK_ELEMENTS, run
from prune_gui.recipe import Resolution

_GAP = 1 << 16
"""Asking once more costs as much as deciding about this many entries; shorter gaps are included."""


Within = Callable[[int, int, NDArray[np.uint8]], NDArray[np.uint8]]
"""From flat indices [start, stop), and memory of as many bytes, to the codes there."""
Tile = tuple[slice, slice]
"""Some cells of a grid: those down, and those across."""
Take = Callable[[Tile, NDArray[np.int64], NDArray[np.int64]], None]
"""Given cells, how many entries of each slot they have, as (slots, down, across), and how many."""


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
    plane: SliceLayout,
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
    slots = CodeIndex.of(resolution, name)
    codes = np.array(slots.codes, np.uint8)
    shape = grid_shape(rows, columns, cells)
    share, step = np.zeros(shape, np.float32), np.zeros(shape, np.uint8)

    def take(tile: Tile, counts: NDArray[np.int64], entries: NDArray[np.int64]) -> None:
        kernels.sum_up_cells(counts, codes, entries, share[tile], step[tile])

    if len(codes) > 1:
        within = partial(resolution.pruned_by_within, name)
        count_in_cells(within, slots, plane, rows, columns, cells, take, monitor)
    share.flags.writeable = step.flags.writeable = False
    return Density(rows, columns, share, step)


def grid_shape(rows: range, columns: range, cells: tuple[int, int]) -> tuple[int, int]:
    """Return how many cells down and across there are if there may be at most so many."""
    return len(_edges(rows, cells[0])) - 1, len(_edges(columns, cells[1])) - 1


def count_in_cells(
    within: Within,
    slots: CodeIndex,
    plane: SliceLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    take: Take,
    monitor: Monitor,
) -> None:
    """Count the codes in every cell of a grid over a rectangle of a plane.

    Args:
        within: gives the codes.
        slots: where each is counted; nothing is counted in slot 0.
        plane: how the entries are laid flat.
        rows: see `density`.
        columns: likewise.
        cells: likewise.
        take: is given the counts, some cells at a time, by several threads at once.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    if plane.row_stride < plane.column_stride:

        def take_turned(tile: Tile, counts: NDArray[np.int64], entries: NDArray[np.int64]) -> None:
            take(tile[::-1], counts.transpose(0, 2, 1).copy(), entries.T.copy())

        turned = cells[1], cells[0]
        count_in_cells(within, slots, plane.transposed, columns, rows, turned, take_turned, monitor)
        return
    codes = np.array(slots.codes, np.uint8)
    row_edges, column_edges = _edges(rows, cells[0]), _edges(columns, cells[1])
    spare: list[NDArray[np.uint8]] = []  # what no thread uses; new memory for each tile is slower

    def count(tile: Tile) -> None:
        down, across = tile
        memory = spare.pop() if spare else np.empty(CHUNK_ELEMENTS, np.uint8)
        tile_rows = row_edges[down.start : down.stop + 1]
        tile_columns = column_edges[across.start : across.stop + 1]
        counts = np.zeros((len(codes), len(tile_rows) - 1, len(tile_columns) - 1), np.int64)
        for part_rows, part_columns in _parts(plane, tile_rows, tile_columns):
            start = plane.flat(part_rows[0], part_columns[0])
            stop = plane.flat(part_rows[1] - 1, part_columns[1] - 1) + 1
            kernels.count_cells(
                within(start, stop, memory[: stop - start]),
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
        take(tile, counts, np.outer(np.diff(tile_rows), np.diff(tile_columns)))

    monitor.expect(len(rows) * len(columns))
    for _ in run(count, _tiles(plane, row_edges, column_edges, len(codes))):
        pass


def _edges(span: range, cells: int) -> NDArray[np.int64]:
    """Return where each cell begins, and where the last one ends."""
    cells = max(1, min(cells, len(span)))
    return span.start + np.arange(cells + 1, dtype=np.int64) * len(span) // cells


def _tiles(
    plane: SliceLayout, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64], slots: int
) -> Iterator[Tile]:
    """Cut the grid into pieces of work: few entries and few counts, but at least one cell each.

    They are as wide as the grid, or as a chunk of memory: many short rows take long to ask for.
    """
    high = int(np.diff(row_edges).max())
    wide = int(np.diff(column_edges).max())
    down, across = len(row_edges) - 1, len(column_edges) - 1
    across_tile = min(across, max(1, CHUNK_ELEMENTS // (wide * plane.column_stride)))
    down_tile = max(1, CHUNK_ELEMENTS // (max(high * wide, slots) * across_tile))
    for i, j in product(range(0, down, down_tile), range(0, across, across_tile)):
        yield slice(i, min(i + down_tile, down)), slice(j, min(j + across_tile, across))


def _parts(
    plane: SliceLayout, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Cut a tile into rectangles whose entries lie within a chunk of memory.

    Yields:
        The rows and the columns of each, from the first to the one after the last.
    """
    first, last = int(row_edges[0]), int(row_edges[-1])
    left, right = int(column_edges[0]), int(column_edges[-1])
    length = (right - left - 1) * plane.column_stride + 1
    together = (
        max(1, CHUNK_ELEMENTS // plane.row_stride) if plane.row_stride - length <= _GAP else 1
    )
    step = (
        max(1, CHUNK_ELEMENTS // plane.column_stride) if length > CHUNK_ELEMENTS else right - left
    )
    for row, column in product(range(first, last, together), range(left, right, step)):
        yield (row, min(row + together, last)), (column, min(column + step, right))
