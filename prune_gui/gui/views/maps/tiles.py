"""A picture cut into tiles at levels of detail, and the tiles that were made. No Qt."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.gui.views.maps.mask_picture import Frame

SIDE = 128
"""Cells along each side of a tile."""
FEW = 200
"""Cells that stand out are marked as long as there are fewer of them in the picture."""
RARE = 20
"""One in so many cells, at most, stands out."""
ROOM = 64 << 20
"""Bytes of all tiles together."""
STRIP = 1 << 26
"""Entries that are painted at once, unless one row of tiles has more."""

Pixels = NDArray[np.uint8]
Places = NDArray[np.float64]
"""(places, 2): the row and the column of each."""
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RasterBlock:
    """What a painter makes of a rectangle.

    Attributes:
        pixels: (cells down, cells across, 4): red, green, blue, opaque.
        rare: kinds of cells that are worth a mark where they are few: boolean, one per cell.
    """

    pixels: Pixels
    rare: tuple[NDArray[np.bool_], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """The picture of a tile, or of several.

    Attributes:
        pixels: (cells down, cells across, 4): red, green, blue, opaque.
        rare: where the cells of each kind are that may be marked, or None if there are `FEW` or
            more of them.
    """

    pixels: Pixels
    rare: tuple[Places | None, ...] = ()

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.pixels.nbytes + sum(found.nbytes for found in self.rare if found is not None)

    @property
    def marks(self) -> Places:
        """Where to put marks: at the cells of the first kind that stands out."""
        most = self.pixels.shape[0] * self.pixels.shape[1] // RARE
        few = (found for found in self.rare if found is not None and 0 < len(found) <= most)
        return next(few, np.zeros((0, 2)))


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of a picture, and the cells over it.

    Attributes:
        rows: of the picture.
        columns: likewise.
        cells: how many down and across.
    """

    rows: range
    columns: range
    cells: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TileGrid:
    """The tiles that cover a frame. Tiles of a level lie where they lie, whatever is in sight.

    Attributes:
        layout: of the picture.
        cell: rows and columns of the picture per cell, powers of two.
        down: numbers of the tiles.
        across: likewise.
    """

    layout: ParameterLayout
    cell: tuple[int, int]
    down: range
    across: range

    @classmethod
    def over(cls, frame: Frame) -> TileGrid:
        """Return the tiles that cover a frame; no cell is smaller than those asked for."""
        lines = (frame.rows, frame.columns)
        high, wide = (
            1 << max(0, -(-len(part) // cells) - 1).bit_length()
            for part, cells in zip(lines, frame.cells, strict=True)
        )
        down, across = (
            range(part.start // (cell * SIDE), -(-part.stop // (cell * SIDE)))
            for part, cell in zip(lines, (high, wide), strict=True)
        )
        return cls(frame.plane, (high, wide), down, across)

    @classmethod
    def whole(cls, mosaic: TileGrid, most: int) -> TileGrid:
        """Return the tiles of the whole picture of which another shows a part.

        Args:
            mosaic: the other.
            most: how many cells along each side, at most.
        """
        sides = (mosaic.layout.rows, mosaic.layout.columns)
        return cls.over(
            Frame(
                mosaic.layout,
                range(sides[0]),
                range(sides[1]),
                (min(most, sides[0]), min(most, sides[1])),
            )
        )

    @property
    def rows(self) -> range:
        """Of the picture, that are covered."""
        return _lines(self.down, self.cell[0] * SIDE, self.layout.rows)

    @property
    def columns(self) -> range:
        """Likewise."""
        return _lines(self.across, self.cell[1] * SIDE, self.layout.columns)

    @property
    def is_whole(self) -> bool:
        """Whether all of the picture is covered."""
        return (len(self.rows), len(self.columns)) == (self.layout.rows, self.layout.columns)

    @property
    def places(self) -> list[Place]:
        """The tiles, row by row."""
        return list(product(self.down, self.across))

    def keys(self, look: Hashable) -> dict[Place, Hashable]:
        """Return what tells each tile from all others, given what tells the picture."""
        return {place: (look, self.layout, self.cell, place) for place in self.places}

    def paint(
        self, missing: Sequence[Place], paint: Callable[[Part], RasterBlock]
    ) -> Iterator[dict[Place, Tile]]:
        """Paint tiles, as many at once as make a rectangle of few entries.

        Args:
            missing: which tiles.
            paint: makes the picture of a rectangle whose sides are multiples of the cell's.

        Yields:
            Some of them, as soon as they are finished.
        """
        for down, across in _rectangles(missing):
            one = TileGrid(self.layout, self.cell, _only(down.start), across)
            high = max(1, STRIP // (self.cell[0] * SIDE * len(one.columns)))
            for first in range(down.start, down.stop, high):
                strip = range(first, min(first + high, down.stop))
                part = TileGrid(self.layout, self.cell, strip, across)
                yield part._cut(paint_evenly(part.rows, part.columns, self.cell, paint))

    def _cut(self, whole: RasterBlock) -> dict[Place, Tile]:
        tiles = {}
        for place in self.places:
            top, left = (place[0] - self.down.start) * SIDE, (place[1] - self.across.start) * SIDE
            here = slice(top, top + SIDE), slice(left, left + SIDE)
            one = TileGrid(self.layout, self.cell, _only(place[0]), _only(place[1]))
            tiles[place] = Tile(
                np.ascontiguousarray(whole.pixels[here]),
                tuple(one._places_of(cells[here]) for cells in whole.rare),
            )
        return tiles

    def _places_of(self, cells: NDArray[np.bool_]) -> Places | None:
        """Return the row and the column of the middle of each cell that is set, if they are few."""
        if np.count_nonzero(cells) >= FEW:
            return None
        first = self.rows.start - 0.5, self.columns.start - 0.5
        last = self.rows.stop - 1, self.columns.stop - 1
        found: Places = np.minimum(first + (np.argwhere(cells) + 0.5) * self.cell, last)
        return found

    def join(self, tiles: dict[Place, Tile]) -> Tile:
        """Put tiles together; where one is missing, the picture can be seen through."""
        sides = zip((self.rows, self.columns), self.cell, strict=True)
        pixels = np.zeros((*(-(-len(part) // cell) for part, cell in sides), 4), np.uint8)
        for (row, column), tile in tiles.items():
            top, left = (row - self.down.start) * SIDE, (column - self.across.start) * SIDE
            high, wide, _ = tile.pixels.shape
            pixels[top : top + high, left : left + wide] = tile.pixels
        kinds = zip(*(tile.rare for tile in tiles.values()), strict=True)
        return Tile(pixels, tuple(_joined(kind) for kind in kinds))


def paint_evenly(
    rows: range, columns: range, cell: tuple[int, int], paint: Callable[[Part], RasterBlock]
) -> RasterBlock:
    """Paint a rectangle in cells of one size; what is left over at its ends makes smaller ones."""
    bands = []
    for some_rows in _whole_cells(rows, cell[0]):
        band = []
        for some_columns in _whole_cells(columns, cell[1]):
            cells = -(-len(some_rows) // cell[0]), -(-len(some_columns) // cell[1])
            band.append(paint(Part(some_rows, some_columns, cells)))
        bands.append(band)
    kinds = range(len(bands[0][0].rare))
    return RasterBlock(
        _block([[part.pixels for part in band] for band in bands]),
        tuple(_block([[part.rare[kind] for part in band] for band in bands]) for kind in kinds),
    )


class Tiles:
    """Remembers tiles up to a number of bytes; those used longest ago go first.

    Any thread may use it.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._known: OrderedDict[Hashable, Tile] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0

    def get(self, keys: Iterable[Hashable]) -> dict[Hashable, Tile]:
        """Return those tiles that are known."""
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
            for key in found:
                self._known.move_to_end(key)
            return found

    def of(self, look: Hashable, mosaic: TileGrid) -> dict[Place, Tile]:
        """Return those tiles of a mosaic that are known, given what tells the picture."""
        keys = mosaic.keys(look)
        known = self.get(keys.values())
        return {place: known[key] for place, key in keys.items() if key in known}

    def put(self, tiles: dict[Hashable, Tile]) -> None:
        """Remember tiles."""
        with self._lock:
            for key, tile in tiles.items():
                before = self._known.pop(key, None)
                self.nbytes += tile.nbytes - (before.nbytes if before else 0)
                self._known[key] = tile
            self._forget()

    def limit(self, room: int) -> None:
        """Remember up to another number of bytes."""
        with self._lock:
            self._room = room
            self._forget()

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._known.clear()
            self.nbytes = 0

    def _forget(self) -> None:
        """Forget what there is no room for."""
        while self.nbytes > self._room:
            self.nbytes -= self._known.popitem(last=False)[1].nbytes


def _block(bands: Sequence[Sequence[NDArray[Any]]]) -> NDArray[Any]:
    return np.concatenate([np.concatenate(band, axis=1) for band in bands])


def _lines(tiles: range, size: int, end: int) -> range:
    return range(tiles.start * size, min(tiles.stop * size, end))


def _only(number: int) -> range:
    return range(number, number + 1)


def _rectangles(places: Sequence[Place]) -> list[tuple[range, range]]:
    """Return rectangles of tiles that make up exactly those places."""
    by_row: dict[int, list[int]] = {}
    for row, column in places:
        by_row.setdefault(row, []).append(column)
    found: list[tuple[range, range]] = []
    for row in sorted(by_row):
        for across in _runs(sorted(by_row[row])):
            above = next(
                (i for i, (down, wide) in enumerate(found) if (down.stop, wide) == (row, across)),
                None,
            )
            if above is None:
                found.append((_only(row), across))
            else:
                found[above] = (range(found[above][0].start, row + 1), across)
    return found


def _runs(numbers: Sequence[int]) -> list[range]:
    """Return the stretches of consecutive numbers."""
    breaks = [i for i, (a, b) in enumerate(pairwise(numbers), start=1) if b != a + 1]
    starts = [0, *breaks, len(numbers)]
    return [range(numbers[a], numbers[b - 1] + 1) for a, b in pairwise(starts)]


def _whole_cells(lines: range, cell: int) -> list[range]:
    """Cut lines into those of whole cells, and the rest."""
    middle = lines.start + len(lines) // cell * cell
    parts = (range(lines.start, middle), range(middle, lines.stop))
    return [part for part in parts if part]


def _joined(parts: Iterable[Places | None]) -> Places | None:
    """Return all places together, or None if they are many."""
    found: list[Places] = []
    for part in parts:
        if part is None or sum(map(len, found)) + len(part) >= FEW:
            return None
        found.append(part)
    return np.concatenate(found)
