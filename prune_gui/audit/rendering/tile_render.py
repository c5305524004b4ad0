"""Rendering of a picture in tiles, which may be partial. No Qt."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from prune_gui.audit.rendering.cell_labels import Texts
from prune_gui.audit.rendering.tiles import (
    RasterBlock,
    Tile,
    TileCache,
    TileGrid,
    TileIndex,
    TileRegion,
)
from prune_gui.audit.view_data.subject import Subject
from prune_gui.errors import Cancelled, PruneGuiError

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.parameter_layouts import ParameterLayout


class Painter(Protocol):
    """Paints pictures of a parameter, on the engine's thread."""

    @property
    def subject(self) -> Subject:
        """The parameter and its resolution."""

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal results."""

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle."""


class TextPainter(Painter, Protocol):
    """A painter that also has a text for each element."""

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return texts for the elements of a rectangle."""


@dataclass(frozen=True, slots=True, eq=False)
class RenderedView:
    """A picture, which may be incomplete, and what it shows.

    Attributes:
        key: key of the painter.
        tile_grid: positions of the tiles.
        tiles: the rendered tiles.
        painted: the rendered tiles, joined.
    """

    key: Hashable
    tile_grid: TileGrid
    tiles: dict[TileIndex, Tile]
    painted: Tile

    @classmethod
    def of(cls, key: Hashable, tile_grid: TileGrid, tiles: dict[TileIndex, Tile]) -> RenderedView:
        """Join tiles to a picture."""
        return cls(key, tile_grid, tiles, tile_grid.join(tiles))

    @property
    def share(self) -> float:
        """Share of the tiles that are rendered."""
        return len(self.tiles) / len(self.tile_grid.indices)

    @property
    def is_complete(self) -> bool:
        """Whether all tiles are rendered."""
        return self.share == 1

    def shows(self, key: Hashable, tile_grid: TileGrid) -> bool:
        """Return whether it is the complete picture of a painter on a tile grid."""
        return self.is_complete and (self.key, self.tile_grid) == (key, tile_grid)


def render_tiles(
    painter: Painter,
    tile_grid: TileGrid,
    tiles: TileCache,
    finished: dict[TileIndex, Tile],
    monitor: Monitor,
    time_limit_s: float | None = None,
) -> RenderedView | str:
    """Render the missing tiles of a picture, or some of them; on failure, return the message."""
    started, available = time.monotonic(), tiles.of(painter.key, tile_grid) | finished
    keys, elements = tile_grid.keys(painter.key), len(tile_grid.rows) * len(tile_grid.columns)
    missing = [index for index in keys if index not in available]
    paint = partial(painter.paint, tile_grid.layout, monitor=monitor)
    try:
        with monitor.plan(elements):
            monitor.advance(elements * len(available) // len(keys))
            for strip in tile_grid.paint(missing, paint):
                tiles.put({keys[index]: tile for index, tile in strip.items()})
                available |= strip
                if time_limit_s is not None and time.monotonic() - started > time_limit_s:
                    break
    except Cancelled:
        raise
    except PruneGuiError as error:
        return str(error)
    return RenderedView.of(painter.key, tile_grid, available)
