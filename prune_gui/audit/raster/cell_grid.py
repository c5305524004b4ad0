"""Cutting a picture into work: cells, tiles of cells, and stretches of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import GAP, ParameterLayout, SliceLayout
from prune_gui.pruning.parallel import CHUNK_ELEMENTS

_SKIP = 1 << 13
"""Asking once more costs as much as reading about this many entries; shorter gaps are read too."""
_WIDE = 16
"""A piece of work may be so many times larger if that keeps rows whole."""

Lines = NDArray[np.int64]
Tile = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class GridChunk:
    """Some rows and columns whose entries lie near each other in memory.

    Attributes:
        start: flat index of the first entry.
        stop: the one after the last.
        rows: offset of each row from `start`; lines without entries are left out.
        columns: offset of each column from those.
        down: the cell in which each row lies.
        across: likewise of the columns.
    """

    start: int
    stop: int
    rows: Lines
    columns: Lines
    down: Lines
    across: Lines


@dataclass(frozen=True, slots=True)
class CellGrid:
    """A grid of cells over a rectangle of a picture.

    Attributes:
        layout: of the picture.
        row_edges: the row with which each cell begins, and the one after the last.
        column_edges: likewise.
    """

    layout: ParameterLayout
    row_edges: Lines
    column_edges: Lines
    _runs: dict[tuple[int, int], list[tuple[int, Lines, Lines]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def over(
        cls, layout: ParameterLayout, rows: range, columns: range, cells: tuple[int, int]
    ) -> CellGrid:
        """Divide a rectangle into cells that differ by a row or a column at most.

        Args:
            layout: of the picture.
            rows: not empty, step 1.
            columns: likewise.
            cells: how many down and across, at most; never more than lines.
        """
        return cls(layout, _edges(rows, cells[0]), _edges(columns, cells[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """How many down and across."""
        return len(self.row_edges) - 1, len(self.column_edges) - 1

    @property
    def size(self) -> int:
        """How many places of the picture they cover."""
        rows, columns = self.row_edges[[0, -1]], self.column_edges[[0, -1]]
        return int((rows[1] - rows[0]) * (columns[1] - columns[0]))

    def tiles(self) -> Iterator[Tile]:
        """Cut the grid into pieces of work of few entries, but at least one cell each.

        They are as wide as they can be: what lies side by side is read at once.
        """
        down, across = self.shape
        cost = int(np.diff(self.row_edges).max() * np.diff(self.column_edges).max())
        wide = min(across, max(1, _WIDE * CHUNK_ELEMENTS // cost))
        high = max(1, CHUNK_ELEMENTS // (cost * wide))
        for i, j in product(range(0, down, high), range(0, across, wide)):
            yield slice(i, min(i + high, down)), slice(j, min(j + wide, across))

    def pieces(self, tile: Tile) -> Iterator[GridChunk]:
        """Cut a tile into stretches of memory of few entries."""
        rows, down = _lines(self.row_edges, tile[0], self.layout.row_offsets)
        for first, columns, across in self._columns(tile[1]):
            length = int(columns[-1]) + 1
            for few in _together(rows, length):
                start = int(rows[few][0]) + first
                yield GridChunk(
                    start,
                    int(rows[few][-1]) + first + length,
                    rows[few] - rows[few][0],
                    columns,
                    down[few],
                    across,
                )

    def _columns(self, part: slice) -> list[tuple[int, Lines, Lines]]:
        """Return the runs of columns of some cells that are read at once.

        Each is the offset of its first column, those of all from that, and the cells they lie in.
        Tiles below each other have them in common, and to find them takes as long as many a tile.
        """
        place = (part.start, part.stop)
        if place not in self._runs:
            columns, across = _lines(self.column_edges, part, self.layout.column_offsets)
            self._runs[place] = [
                (int(columns[some][0]), columns[some] - columns[some][0], across[some])
                for some in _together(columns, 1)
            ]
        return self._runs[place]


def turned(layout: ParameterLayout) -> ParameterLayout | None:
    """Return the picture with rows for columns if memory runs down it, else None."""
    if isinstance(layout, SliceLayout) and layout.row_stride < layout.column_stride:
        return layout.transposed
    return None


def _edges(span: range, cells: int) -> Lines:
    cells = max(1, min(cells, len(span)))
    return span.start + np.arange(cells + 1, dtype=np.int64) * len(span) // cells


def _lines(edges: Lines, part: slice, offsets: Callable[[range], Lines]) -> tuple[Lines, Lines]:
    """Return the offsets of the lines of some cells, and the cell of each, counted in the part."""
    edges = edges[part.start : part.stop + 1]
    found = offsets(range(int(edges[0]), int(edges[-1])))
    cell = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    there = found != GAP
    return found[there], cell[there]


def _together(lines: Lines, length: int) -> Iterator[slice]:
    """Cut ascending offsets of lines into runs that are read at once.

    Args:
        lines: the offsets.
        length: entries from the first of a line to its last, that one included.
    """
    if not lines.size:
        return
    apart = np.diff(lines) - length > _SKIP
    apart |= np.diff((lines - lines[0]) // CHUNK_ELEMENTS) > 0
    ends = [*(np.flatnonzero(apart) + 1).tolist(), lines.size]
    for first, last in zip([0, *ends], ends, strict=False):
        yield slice(first, last)
