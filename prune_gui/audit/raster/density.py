"""The density of a mask at any size: the pruned share of each cell, and the step."""

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
"""One more call costs as much as computing this many codes, so that shorter gaps are computed."""


Within = Callable[[int, int, NDArray[np.uint8]], NDArray[np.uint8]]
"""Takes start, stop and an output of (stop - start) bytes; returns the codes of [start, stop)."""
Tile = tuple[slice, slice]
"""Some cells of a grid: slices down and across."""
Take = Callable[[Tile, NDArray[np.int64], NDArray[np.int64]], None]
"""Takes a tile, the elements per slot (slots, down, across), and all elements (down, across)."""


@dataclass(frozen=True, slots=True)
class Density:
    """A grid of cells over a rectangle of a parameter's layout. The arrays are read-only.

    Attributes:
        rows: the rows that the grid covers.
        columns: the columns that the grid covers.
        share: float32 (cells down, cells across), the pruned share of each cell.
        step: uint8 (cells down, cells across), the step that pruned the most elements of the cell
            (of equals the lowest number); 0 where none is pruned, 255 for "in the file".
    """

    rows: range
    columns: range
    share: NDArray[np.float32]
    step: NDArray[np.uint8]


def density(
    resolution: Resolution,
    name: str,
    layout: SliceLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    monitor: Monitor,
) -> Density:
    """Return the density of pruned elements in a rectangle of a parameter.

    Computes codes only for the rows that it covers; needs a few chunks of memory at any size.

    Args:
        resolution: the resolution.
        name: name of the parameter.
        layout: the two-dimensional layout of the parameter.
        rows: rows of the layout; not empty, step 1.
        columns: columns of the layout; not empty, step 1.
        cells: maximum number of cells (down, across); at most one per element. The sizes of cells
            differ by at most one row or column.
        monitor: receives the number of elements processed.

    Raises:
        Cancelled: the monitor was cancelled.
    """
    code_index = CodeIndex.of(resolution, name)
    codes = np.array(code_index.codes, np.uint8)
    shape = grid_shape(rows, columns, cells)
    share, step = np.zeros(shape, np.float32), np.zeros(shape, np.uint8)

    def take(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
        kernels.sum_up_cells(counts, codes, elements, share[tile], step[tile])

    if len(codes) > 1:
        within = partial(resolution.pruned_by_within, name)
        count_in_cells(within, code_index, layout, rows, columns, cells, take, monitor)
    share.flags.writeable = step.flags.writeable = False
    return Density(rows, columns, share, step)


def grid_shape(rows: range, columns: range, cells: tuple[int, int]) -> tuple[int, int]:
    """Return the number of cells (down, across), given the maximum number `cells`."""
    return len(_edges(rows, cells[0])) - 1, len(_edges(columns, cells[1])) - 1


def count_in_cells(
    within: Within,
    code_index: CodeIndex,
    layout: SliceLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    take: Take,
    monitor: Monitor,
) -> None:
    """Count the codes in every cell of a grid over a rectangle of a layout.

    Args:
        within: computes the codes of a span.
        code_index: the slot of each code; nothing is counted in slot 0.
        layout: the two-dimensional layout of the elements.
        rows: see `density`.
        columns: see `density`.
        cells: see `density`.
        take: receives the counts of one tile; called by several threads at once.
        monitor: receives the number of elements processed.

    Raises:
        Cancelled: the monitor was cancelled.
    """
    if layout.row_stride < layout.column_stride:

        def take_turned(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
            take(tile[::-1], counts.transpose(0, 2, 1).copy(), elements.T.copy())

        turned = cells[1], cells[0]
        count_in_cells(
            within, code_index, layout.transposed, columns, rows, turned, take_turned, monitor
        )
        return
    codes = np.array(code_index.codes, np.uint8)
    row_edges, column_edges = _edges(rows, cells[0]), _edges(columns, cells[1])
    free_buffers: list[NDArray[np.uint8]] = []  # reused: new memory for each tile is slower

    def count(tile: Tile) -> None:
        down, across = tile
        buffer = free_buffers.pop() if free_buffers else np.empty(CHUNK_ELEMENTS, np.uint8)
        tile_rows = row_edges[down.start : down.stop + 1]
        tile_columns = column_edges[across.start : across.stop + 1]
        counts = np.zeros((len(codes), len(tile_rows) - 1, len(tile_columns) - 1), np.int64)
        for part_rows, part_columns in _parts(layout, tile_rows, tile_columns):
            start = layout.flat(part_rows[0], part_columns[0])
            stop = layout.flat(part_rows[1] - 1, part_columns[1] - 1) + 1
            kernels.count_cells(
                within(start, stop, buffer[: stop - start]),
                codes,
                code_index.lookup,
                layout.row_stride,
                layout.column_stride,
                tile_rows,
                tile_columns,
                part_rows,
                part_columns,
                counts,
            )
            monitor.advance((part_rows[1] - part_rows[0]) * (part_columns[1] - part_columns[0]))
        free_buffers.append(buffer)
        take(tile, counts, np.outer(np.diff(tile_rows), np.diff(tile_columns)))

    monitor.expect(len(rows) * len(columns))
    for _ in run(count, _tiles(layout, row_edges, column_edges, len(codes))):
        pass


def _edges(span: range, cells: int) -> NDArray[np.int64]:
    """Return int64 (cells + 1), the start of each cell and the end of the last."""
    cells = max(1, min(cells, len(span)))
    return span.start + np.arange(cells + 1, dtype=np.int64) * len(span) // cells


def _tiles(
    layout: SliceLayout, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64], slots: int
) -> Iterator[Tile]:
    """Yield tiles of the grid, as units of work with few elements and few counts.

    A tile has at least one cell. It is as wide as the grid or as a chunk of memory, because many
    calls for short rows are slow.
    """
    high = int(np.diff(row_edges).max())
    wide = int(np.diff(column_edges).max())
    down, across = len(row_edges) - 1, len(column_edges) - 1
    across_tile = min(across, max(1, CHUNK_ELEMENTS // (wide * layout.column_stride)))
    down_tile = max(1, CHUNK_ELEMENTS // (max(high * wide, slots) * across_tile))
    for i, j in product(range(0, down, down_tile), range(0, across, across_tile)):
        yield slice(i, min(i + down_tile, down)), slice(j, min(j + across_tile, across))


def _parts(
    layout: SliceLayout, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Divide a tile into rectangles whose elements are within one chunk of memory.

    Yields:
        The rows (start, stop) and the columns (start, stop) of each rectangle.
    """
    first, last = int(row_edges[0]), int(row_edges[-1])
    left, right = int(column_edges[0]), int(column_edges[-1])
    length = (right - left - 1) * layout.column_stride + 1
    rows_at_once = (
        max(1, CHUNK_ELEMENTS // layout.row_stride) if layout.row_stride - length <= _GAP else 1
    )
    columns_at_once = (
        max(1, CHUNK_ELEMENTS // layout.column_stride) if length > CHUNK_ELEMENTS else right - left
    )
    for row, column in product(
        range(first, last, rows_at_once), range(left, right, columns_at_once)
    ):
        yield (row, min(row + rows_at_once, last)), (column, min(column + columns_at_once, right))
