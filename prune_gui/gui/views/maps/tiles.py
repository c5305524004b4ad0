"""Tile grids of a picture at levels of detail, and a cache of tiles. No Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from threading import Lock
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from prune_gui.gui.views.bars.data import visible_positions
from prune_gui.raster.parameter_layouts import ParameterLayout

MAX_PIXELS = 2_000_000
MIN_SHADE = 0.22
"""Minimum share of the step's colour in a cell with one pruned element; the same for kept ones."""
TILE_CELLS = 128  # cells along each side of a tile
MARK_LIMIT = 200  # rare cells are marked only if there are fewer than this in the picture
MIN_CELLS_PER_MARK = 20
"""Cells are rare only if there are at least this many cells for each of them."""
CACHE_LIMIT_BYTES = 64 << 20  # size limit of all cached tiles
STRIP_LIMIT_ELEMENTS = 1 << 26
"""Maximum number of elements that are painted at once, unless a single row of tiles has more."""

Pixels = NDArray[np.uint8 | np.uint16]
"""uint8 (cells down, cells across, 4): red, green, blue, opaque; or uint16 (cells down, cells
across): levels, whose colours are looked up when the picture is shown."""
CellCentres = NDArray[np.float64]  # float64 (cells, 2): the row and the column of each centre
TileIndex = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RasterBlock:
    """The painted picture of a rectangle; of several pictures, their channels one after another.

    Attributes:
        rare: bool (cells down, cells across) per kind of cells that are marked if they are rare.
    """

    pixels: Pixels
    rare: tuple[NDArray[np.bool_], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """The pixels of one tile, or of several joined ones; see `RasterBlock`.

    Attributes:
        rare: centres of the cells of each kind that may be marked; None if there are
            `MARK_LIMIT` or more of them.
    """

    pixels: Pixels
    rare: tuple[CellCentres | None, ...] = ()

    @property
    def nbytes(self) -> int:
        return self.pixels.nbytes + sum(rare.nbytes for rare in self.rare if rare is not None)

    @property
    def marks(self) -> CellCentres:
        """Centres of the cells to mark: those of the first kind that is rare."""
        max_cells = self.pixels.shape[0] * self.pixels.shape[1] // MIN_CELLS_PER_MARK
        known = (rare for rare in self.rare if rare is not None)
        return next((rare for rare in known if 0 < len(rare) <= max_cells), np.zeros((0, 2)))


@dataclass(frozen=True, slots=True)
class TileRegion:
    """A rectangle of a picture, and its number of cells down and across."""

    rows: range
    columns: range
    cells: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TileGrid:
    """The tiles that cover a region. Their boundaries do not depend on what is visible."""

    layout: ParameterLayout
    cell: tuple[int, int]  # rows and columns of the layout per cell; powers of two
    down: range  # vertical indices of the tiles
    across: range

    @classmethod
    def over(cls, layout: ParameterLayout, region: TileRegion) -> TileGrid:
        """Return the tiles that cover a region; no cell is smaller than a cell of the region."""
        lines = (region.rows, region.columns)
        high, wide = (
            1 << max(0, -(-len(part) // cells) - 1).bit_length()
            for part, cells in zip(lines, region.cells, strict=True)
        )
        down, across = (
            range(part.start // (cell * TILE_CELLS), -(-part.stop // (cell * TILE_CELLS)))
            for part, cell in zip(lines, (high, wide), strict=True)
        )
        return cls(layout, (high, wide), down, across)

    @classmethod
    def whole(cls, layout: ParameterLayout, max_cells: int) -> TileGrid:
        cells = min(max_cells, layout.rows), min(max_cells, layout.columns)
        return cls.over(layout, TileRegion(range(layout.rows), range(layout.columns), cells))

    @property
    def rows(self) -> range:
        return _lines(self.down, self.cell[0] * TILE_CELLS, self.layout.rows)

    @property
    def columns(self) -> range:
        return _lines(self.across, self.cell[1] * TILE_CELLS, self.layout.columns)

    @property
    def is_whole(self) -> bool:
        return (len(self.rows), len(self.columns)) == (self.layout.rows, self.layout.columns)

    @property
    def indices(self) -> list[TileIndex]:
        return list(product(self.down, self.across))

    def keys(self, picture_key: Hashable) -> dict[TileIndex, Hashable]:
        return {index: (picture_key, self.layout, self.cell, index) for index in self.indices}

    def paint(
        self, missing: Sequence[TileIndex], paint: Callable[[TileRegion], RasterBlock]
    ) -> Iterator[dict[TileIndex, Tile]]:
        """Yield painted tiles in strips of at most `STRIP_LIMIT_ELEMENTS` elements."""
        for down, across in _rectangles(missing):
            columns = replace(self, across=across).columns
            high = max(1, STRIP_LIMIT_ELEMENTS // (self.cell[0] * TILE_CELLS * len(columns)))
            for first in range(down.start, down.stop, high):
                strip = range(first, min(first + high, down.stop))
                grid = replace(self, down=strip, across=across)
                yield grid._cut(paint_evenly(grid.rows, grid.columns, self.cell, paint))

    def _cut(self, whole: RasterBlock) -> dict[TileIndex, Tile]:
        tiles = {}
        for index in self.indices:
            top, left = self._corner(index)
            here = slice(top, top + TILE_CELLS), slice(left, left + TILE_CELLS)
            down, across = (range(number, number + 1) for number in index)
            tile_area = replace(self, down=down, across=across)
            tiles[index] = Tile(
                np.ascontiguousarray(whole.pixels[here]),
                tuple(tile_area._centres_of(cells[here]) for cells in whole.rare),
            )
        return tiles

    def _corner(self, index: TileIndex) -> tuple[int, int]:
        """Return the row and the column of the first cell of a tile in the joined picture."""
        down, across = self.down.start, self.across.start
        return (index[0] - down) * TILE_CELLS, (index[1] - across) * TILE_CELLS

    def _centres_of(self, cells: NDArray[np.bool_]) -> CellCentres | None:
        if np.count_nonzero(cells) >= MARK_LIMIT:
            return None
        first = self.rows.start - 0.5, self.columns.start - 0.5
        last = self.rows.stop - 1, self.columns.stop - 1
        result: CellCentres = np.minimum(first + (np.argwhere(cells) + 0.5) * self.cell, last)
        return result

    def join(self, tiles: dict[TileIndex, Tile]) -> Tile:
        """Join tiles to one picture, at least one; missing tiles are transparent, or of level 0."""
        one = next(iter(tiles.values())).pixels
        shape = _cells(self.rows, self.columns, self.cell)
        pixels = np.zeros((*shape, *one.shape[2:]), one.dtype)
        for index, tile in tiles.items():
            top, left = self._corner(index)
            high, wide = tile.pixels.shape[:2]
            pixels[top : top + high, left : left + wide] = tile.pixels
        kinds = zip(*(tile.rare for tile in tiles.values()), strict=True)
        return Tile(pixels, tuple(_joined_centres(kind) for kind in kinds))


def paint_evenly(
    rows: range, columns: range, cell: tuple[int, int], paint: Callable[[TileRegion], RasterBlock]
) -> RasterBlock:
    """Paint a rectangle in cells of one size; the cells at its ends may be smaller."""
    bands = []
    for row_span in _split_at_cells(rows, cell[0]):
        band = []
        for column_span in _split_at_cells(columns, cell[1]):
            cells = _cells(row_span, column_span, cell)
            band.append(paint(TileRegion(row_span, column_span, cells)))
        bands.append(band)
    kinds = range(len(bands[0][0].rare))
    return RasterBlock(
        _block([[part.pixels for part in band] for band in bands]),
        tuple(_block([[part.rare[kind] for part in band] for band in bands]) for kind in kinds),
    )


class TileCache:
    """An LRU cache of tiles with a size limit in bytes. Thread-safe."""

    def __init__(self, limit_bytes: int = CACHE_LIMIT_BYTES) -> None:
        self._tiles = _lru_cache(limit_bytes)
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return int(self._tiles.currsize)

    def get(self, keys: Iterable[Hashable]) -> dict[Hashable, Tile]:
        with self._lock:
            return {key: self._tiles[key] for key in keys if key in self._tiles}

    def of(self, picture_key: Hashable, tile_grid: TileGrid) -> dict[TileIndex, Tile]:
        keys = tile_grid.keys(picture_key)
        known = self.get(keys.values())
        return {index: known[key] for index, key in keys.items() if key in known}

    def put(self, tiles: dict[Hashable, Tile]) -> None:
        """Cache tiles, except those that are larger than the limit."""
        with self._lock:
            for key, tile in tiles.items():
                if tile.nbytes <= self._tiles.maxsize:
                    self._tiles[key] = tile

    def limit(self, limit_bytes: int) -> None:
        """Change the size limit, in bytes; the least recently used tiles are removed first."""
        with self._lock:
            before, self._tiles = self._tiles, _lru_cache(limit_bytes)
            while before:
                key, tile = before.popitem()
                if tile.nbytes <= limit_bytes:
                    self._tiles[key] = tile

    def clear(self) -> None:
        with self._lock:
            self._tiles.clear()


def _lru_cache(limit_bytes: int) -> LRUCache[Hashable, Tile]:
    return LRUCache(limit_bytes, getsizeof=lambda tile: tile.nbytes)


def _block(bands: Sequence[Sequence[NDArray[Any]]]) -> NDArray[Any]:
    return np.concatenate([np.concatenate(band, axis=1) for band in bands])


def _lines(tiles: range, size: int, end: int) -> range:
    return range(tiles.start * size, min(tiles.stop * size, end))


def _cells(rows: range, columns: range, cell: tuple[int, int]) -> tuple[int, int]:
    """Return the number of cells of a size down and across; the last ones may be smaller."""
    return -(-len(rows) // cell[0]), -(-len(columns) // cell[1])


def _rectangles(indices: Sequence[TileIndex]) -> list[tuple[range, range]]:
    columns: dict[int, list[int]] = {}
    for row, column in sorted(indices):
        columns.setdefault(row, []).append(column)
    result = []
    for down in _runs(list(columns)):
        for _, same in groupby(down, columns.__getitem__):
            rows = list(same)
            rectangle_rows = range(rows[0], rows[-1] + 1)
            result += [(rectangle_rows, across) for across in _runs(columns[rows[0]])]
    return result


def _runs(numbers: list[int]) -> list[range]:
    breaks = [i for i, (a, b) in enumerate(pairwise(numbers), start=1) if b != a + 1]
    bounds = pairwise([0, *breaks, len(numbers)])
    return [range(numbers[start], numbers[stop - 1] + 1) for start, stop in bounds if start < stop]


def _split_at_cells(lines: range, cell: int) -> list[range]:
    middle = lines.start + len(lines) // cell * cell
    parts = (range(lines.start, middle), range(middle, lines.stop))
    return [part for part in parts if part]


def _joined_centres(parts: Iterable[CellCentres | None]) -> CellCentres | None:
    result: list[CellCentres] = []
    for part in parts:
        if part is None or sum(map(len, result)) + len(part) >= MARK_LIMIT:
            return None
        result.append(part)
    return np.concatenate(result)


def visible_region(
    layout: ParameterLayout,
    x: tuple[float, float],
    y: tuple[float, float],
    pixel: tuple[float, float],
) -> TileRegion:
    """Return the visible region of a layout, with about one cell per pixel.

    A cell is never smaller than a pixel. Each cell therefore covers at least one pixel, and every
    lone element is visible. Element (row, column) covers y from row - 0.5 to row + 0.5, and x from
    column - 0.5 to column + 0.5; a pixel has a width and a height in elements.
    """
    columns, rows = visible_positions(x, layout.columns), visible_positions(y, layout.rows)
    across = max(1, min(len(columns), int(len(columns) / pixel[0])))
    down = max(1, min(len(rows), int(len(rows) / pixel[1])))
    if across * down > MAX_PIXELS:
        shrink = (MAX_PIXELS / (across * down)) ** 0.5
        across, down = max(1, int(across * shrink)), max(1, int(down * shrink))
    return TileRegion(rows, columns, (down, across))


def grid_lines(
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    across: bool,
    down: bool,
    cells: tuple[int, int] = (1, 1),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lines between columns and rows of a rectangle, as x and y of pairs of points.

    They are between all rows and columns, or every `cells` of them.
    """
    vertical = _borders(x, cells[1]) if across else np.zeros(0)
    level = _borders(y, cells[0]) if down else np.zeros(0)
    return (
        np.concatenate([np.repeat(vertical, 2), np.tile(x, len(level))]),
        np.concatenate([np.tile(y, len(vertical)), np.repeat(level, 2)]),
    )


def _borders(span: tuple[float, float], size: int) -> NDArray[np.float64]:
    first, last = math.ceil((span[0] + 0.5) / size), math.floor((span[1] + 0.5) / size)
    return np.arange(first, last + 1, dtype=np.float64) * size - 0.5
