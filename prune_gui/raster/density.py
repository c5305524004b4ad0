"""The density of a mask at any size: the pruned share of each cell, and the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.parallel import CHUNK_ELEMENTS, run
from prune_gui.raster import cell_kernels
from prune_gui.raster.cell_grid import CellGrid, Layout, Tile
from prune_gui.raster.parameter_layouts import HeadBands, ParameterLayout, SliceLayout
from prune_gui.recipe import Resolution
from prune_gui.statistics.kernels import CodeIndex

_GAP = 1 << 16
"""One more call costs as much as computing this many codes, so that shorter gaps are computed."""


Within = Callable[[int, int, NDArray[np.uint8]], NDArray[np.uint8]]
"""Takes start, stop and an output of (stop - start) bytes; returns the codes of [start, stop)."""
Take = Callable[[Tile, NDArray[np.int64], NDArray[np.int64]], None]
"""Takes a tile, the elements per slot (slots, down, across), and all elements (down, across)."""


@dataclass(frozen=True, slots=True)
class Density:
    """What is pruned of each cell of a grid; read-only arrays (cells down, cells across).

    Attributes:
        share: float32, the pruned share of each cell.
        step: uint8, a step that pruned elements of the cell; 0 where none is pruned. Of cells that
            several steps prune, each step gets as many as its share of the pruned elements, so
            that the cells together show every step.
    """

    share: NDArray[np.float32]
    step: NDArray[np.uint8]


def density(resolution: Resolution, name: str, grid: CellGrid[Layout], monitor: Monitor) -> Density:
    """Return the density of pruned elements in each cell of a grid.

    Computes codes only for the rows that it covers; needs a few chunks of memory at any size. A
    cell without elements, between kernels, has the share NaN.
    """
    code_index = CodeIndex.of(resolution.layers.get(name, ()))
    codes = np.array(code_index.codes, np.uint8)
    share, step = np.zeros(grid.shape, np.float32), np.zeros(grid.shape, np.uint8)

    def take(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
        if len(codes) == 1:
            return
        pruned = counts[1]
        np.copyto(step[tile], codes[1], where=pruned > 0)
        if len(codes) > 2:
            _choose_steps(codes, counts, _noise(grid, tile), step[tile])
            pruned = counts[1:].sum(0)
        np.divide(pruned, elements, out=share[tile], casting="same_kind")

    def take_with_gaps(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
        take(tile, counts, np.maximum(elements, 1))
        share[tile][elements == 0] = np.nan

    within = partial(resolution.pruned_by_within, name)
    layout: ParameterLayout = grid.layout
    if not isinstance(layout, SliceLayout):
        _count_with_gaps(within, code_index, grid, take_with_gaps, monitor)
    elif len(codes) > 1:
        sliced = CellGrid(layout, grid.row_edges, grid.column_edges)
        count_in_cells(within, code_index, sliced, take, monitor)
    share.flags.writeable = step.flags.writeable = False
    return Density(share, step)


def _choose_steps(
    codes: NDArray[np.uint8],
    counts: NDArray[np.int64],
    noise: NDArray[np.float64],
    step: NDArray[np.uint8],
) -> None:
    """Set the step of each cell to that of one of its pruned elements, chosen by the noise."""
    chosen = (noise * counts[1:].sum(0)).astype(np.int64)
    before = np.zeros_like(chosen)
    for code, of_code in zip(codes[1:], counts[1:], strict=True):
        np.copyto(step, code, where=(before <= chosen) & (of_code > 0))
        before += of_code


def _noise(grid: CellGrid[Layout], tile: Tile) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each cell: always the same for its first row and column."""
    down, across = tile
    rows = grid.row_edges[down].astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
    columns = grid.column_edges[across].astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = rows ^ columns
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    noise: NDArray[np.float64] = (mixed >> np.uint64(32)) / 2.0**32
    return noise


def head_shares(
    resolution: Resolution, name: str, layout: ParameterLayout, bands: HeadBands, monitor: Monitor
) -> NDArray[np.float32]:
    """Return float32 (heads,), the pruned share of each head of a parameter."""
    count = len(bands.labels)
    cells = (count, 1) if bands.are_rows else (1, count)
    return density(resolution, name, CellGrid.over(layout, cells), monitor).share.reshape(-1)


def count_in_cells(
    within: Within, code_index: CodeIndex, grid: CellGrid[SliceLayout], take: Take, monitor: Monitor
) -> None:
    """Count the codes in every cell of a grid over a layout without gaps."""
    layout, turned = grid.layout, grid.turned
    if turned is not None:

        def take_turned(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
            take(tile[::-1], counts.transpose(0, 2, 1).copy(), elements.T.copy())

        count_in_cells(within, code_index, turned, take_turned, monitor)
        return
    codes, strides = np.array(code_index.codes, np.uint8), (layout.row_stride, layout.column_stride)
    free_buffers: list[NDArray[np.uint8]] = []  # reused: new memory for each tile is slower

    def count(tile: Tile) -> None:
        down, across = tile
        buffer = free_buffers.pop() if free_buffers else np.empty(CHUNK_ELEMENTS, np.uint8)
        tile_rows = grid.row_edges[down.start : down.stop + 1]
        tile_columns = grid.column_edges[across.start : across.stop + 1]
        counts = np.zeros((len(codes), len(tile_rows) - 1, len(tile_columns) - 1), np.int64)
        edges = tile_rows, tile_columns
        for rows, columns in _rectangles(layout, *edges):
            start = layout.flat(rows[0], columns[0])
            stop = layout.flat(rows[1] - 1, columns[1] - 1) + 1
            found, rectangle = within(start, stop, buffer[: stop - start]), (rows, columns)
            slots = code_index.lookup
            cell_kernels.count_cells(found, codes, slots, strides, edges, rectangle, counts)
            monitor.advance((rows[1] - rows[0]) * (columns[1] - columns[0]))
        free_buffers.append(buffer)
        take(tile, counts, np.outer(np.diff(tile_rows), np.diff(tile_columns)))

    monitor.expect(grid.size)
    for _ in run(count, grid.tiles(min_cost=len(codes))):
        pass


def _count_with_gaps(
    within: Within, code_index: CodeIndex, grid: CellGrid[Layout], take: Take, monitor: Monitor
) -> None:
    """Count the codes in every cell of a grid over any layout; see `count_in_cells`.

    Takes about three times as long, because the rows and columns are not at equal distances.
    """

    def count(tile: Tile) -> None:
        down, across = tile
        shape = down.stop - down.start, across.stop - across.start
        counts = np.zeros((len(code_index.codes), *shape), np.int64)
        for chunk in grid.chunks(tile):
            monitor.advance(chunk.size)
            buffer = np.empty(chunk.stop - chunk.start, np.uint8)
            cell_kernels.add_codes(
                within(chunk.start, chunk.stop, buffer), code_index.lookup, chunk.lines, counts
            )
        take(tile, counts, counts.sum(0))

    monitor.expect(grid.size)
    for _ in run(count, grid.tiles()):
        pass


def _rectangles(
    layout: SliceLayout, row_edges: NDArray[np.int64], column_edges: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Divide a tile into rectangles (of rows and columns) that are within one chunk of memory."""
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
