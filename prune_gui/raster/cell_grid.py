"""A grid of cells over a layout, one per pixel of a picture; tiles of cells; chunks of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_gui.parallel import CHUNK_ELEMENTS
from prune_gui.raster.parameter_layouts import GAP, ParameterLayout, SliceLayout

_SKIP = 1 << 13
"""One more call costs as much as reading this many elements, so that shorter gaps are read."""
_MAX_WIDENING = 16
"""A tile may be up to this many times larger than a chunk if that keeps its rows whole."""

Lines = NDArray[np.int64]
Tile = tuple[slice, slice]  # some cells of a grid: slices down and across
Layout = TypeVar("Layout", bound=ParameterLayout)


@dataclass(frozen=True, slots=True)
class GridChunk:
    """Rows and columns of a tile whose elements are within the flat indices [start, stop).

    Its lines are the offsets of the rows from `start`, those of the columns from their row, and the
    cell of each row and of each column, as an index in the tile. Gaps are omitted.
    """

    start: int
    stop: int
    lines: tuple[Lines, Lines, Lines, Lines]

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.lines[0]) * len(self.lines[1])


@dataclass(frozen=True, slots=True)
class CellGrid(Generic[Layout]):
    """A grid of cells over a rectangle of a layout.

    The edges are the first row and column of each cell, and the ones after the last.
    """

    layout: Layout
    row_edges: Lines
    column_edges: Lines
    _runs: dict[tuple[int, int], list[tuple[int, Lines, Lines]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def over(
        cls,
        layout: Layout,
        cells: tuple[int, int],
        rows: range | None = None,
        columns: range | None = None,
    ) -> CellGrid[Layout]:
        """Divide a rectangle into cells whose sizes differ by at most one row or column.

        There are at most `cells` (down, across).
        """
        rows, columns = rows or range(layout.rows), columns or range(layout.columns)
        return cls(layout, _edges(rows, cells[0]), _edges(columns, cells[1]))

    @property
    def turned(self) -> CellGrid[SliceLayout] | None:
        """The transposed grid if consecutive elements run down the columns, else None."""
        layout = self.layout
        if isinstance(layout, SliceLayout) and layout.row_stride < layout.column_stride:
            return CellGrid(layout.transposed, self.column_edges, self.row_edges)
        return None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of cells (down, across)."""
        return len(self.row_edges) - 1, len(self.column_edges) - 1

    @property
    def size(self) -> int:
        """The number of (row, column) positions that the grid covers, gaps included."""
        rows, columns = self.row_edges[[0, -1]], self.column_edges[[0, -1]]
        return int((rows[1] - rows[0]) * (columns[1] - columns[0]))

    def tiles(self, min_cost: int = 1) -> Iterator[Tile]:
        """Yield tiles as units of work: few elements, but at least one cell each.

        A tile is as wide as possible, because elements of one row are read in one call.
        """
        down, across = self.shape
        largest = int(np.diff(self.row_edges).max() * np.diff(self.column_edges).max())
        cost = max(largest, min_cost)
        wide = min(across, max(1, _MAX_WIDENING * CHUNK_ELEMENTS // cost))
        high = max(1, CHUNK_ELEMENTS // (cost * wide))
        for i, j in product(range(0, down, high), range(0, across, wide)):
            yield slice(i, min(i + high, down)), slice(j, min(j + wide, across))

    def chunks(self, tile: Tile) -> Iterator[GridChunk]:
        """Divide a tile into chunks of memory of few elements."""
        rows, down = self._lines(0, self.row_edges, tile[0])
        for first, columns, across in self._columns(tile[1]):
            length = int(columns[-1]) + 1
            for run in _runs_of_lines(rows, length):
                start, stop = int(rows[run][0]) + first, int(rows[run][-1]) + first + length
                lines = rows[run] - rows[run][0], columns, down[run], across
                yield GridChunk(start, stop, lines)

    def _columns(self, part: slice) -> list[tuple[int, Lines, Lines]]:
        """Return the runs of columns of some cells: first column, offsets from it, and their cells.

        A run is read in one call. Runs are cached, because tiles with the same columns share them
        and computing them may take as long as a tile.
        """
        key = (part.start, part.stop)
        if key not in self._runs:
            columns, across = self._lines(1, self.column_edges, part)
            self._runs[key] = [
                (int(columns[run][0]), columns[run] - columns[run][0], across[run])
                for run in _runs_of_lines(columns, 1)
            ]
        return self._runs[key]

    def _lines(self, axis: int, edges: Lines, part: slice) -> tuple[Lines, Lines]:
        """Return the offsets of the lines of some cells without gaps, and the cell of each."""
        edges = edges[part.start : part.stop + 1]
        offsets = self.layout.offsets(axis, range(int(edges[0]), int(edges[-1])))
        cell = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        has_elements = offsets != GAP
        return offsets[has_elements], cell[has_elements]


def _edges(span: range, cells: int) -> Lines:
    cells = max(1, min(cells, len(span)))
    return span.start + np.arange(cells + 1, dtype=np.int64) * len(span) // cells


def _runs_of_lines(lines: Lines, length: int) -> Iterator[slice]:
    """Divide rows or columns, given their offsets, into runs, each of which is read in one call.

    A row or column has `length` flat indices from its first element to its last, inclusive.
    """
    if not lines.size:
        return
    is_split = np.diff(lines) - length > _SKIP
    is_split |= np.diff((lines - lines[0]) // CHUNK_ELEMENTS) > 0
    ends = [*(np.flatnonzero(is_split) + 1).tolist(), lines.size]
    for first, last in zip([0, *ends], ends, strict=False):
        yield slice(first, last)
