"""A picture of tiles as it comes into being: what paints it, and what there is of it. No Qt."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.gui.views.maps.cell_labels import Texts
from prune_gui.gui.views.maps.tiles import Part, Place, RasterBlock, Tile, TileGrid, Tiles

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.monitor import Monitor


class Painter(Protocol):
    """Makes pictures of a parameter, on the engine's thread.

    Attributes:
        key: equal if all its pictures are.
    """

    @property
    def key(self) -> Hashable:
        """See above."""

    def paint(self, layout: ParameterLayout, part: Part, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle."""

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return what to write into the entries of a rectangle."""


@dataclass(frozen=True, slots=True, eq=False)
class RenderedView:
    """A picture, or as much of it as there is yet, and of what it is.

    Attributes:
        key: of the painter.
        mosaic: where its tiles lie.
        tiles: those that are made.
        painted: all of them together.
    """

    key: Hashable
    mosaic: TileGrid
    tiles: dict[Place, Tile]
    painted: Tile

    @classmethod
    def of(cls, key: Hashable, mosaic: TileGrid, tiles: dict[Place, Tile]) -> RenderedView:
        """Put tiles together."""
        return cls(key, mosaic, tiles, mosaic.join(tiles))

    @property
    def share(self) -> float:
        """How much of it there is."""
        return len(self.tiles) / len(self.mosaic.places)

    @property
    def is_complete(self) -> bool:
        """Whether no tile is missing."""
        return self.share == 1

    def shows(self, key: Hashable, mosaic: TileGrid) -> bool:
        """Tell whether it is all that this painter makes of this mosaic."""
        return self.is_complete and (self.key, self.mosaic) == (key, mosaic)


def drawn_by(
    painter: Painter,
    mosaic: TileGrid,
    tiles: Tiles,
    made: dict[Place, Tile],
    monitor: Monitor,
    patience: float | None = None,
) -> RenderedView | str:
    """Make the tiles of a picture that are missing, or some of them; say why if there are none.

    Args:
        painter: paints them.
        mosaic: where they lie.
        tiles: knows those of earlier pictures, and is to know these.
        made: those of this picture that are there already, whatever has been forgotten since.
        monitor: told of the work.
        patience: seconds after which no more are begun, but for the first; None: all are made.

    Raises:
        Cancelled: the monitor said so.
    """
    begun, there = time.monotonic(), tiles.of(painter.key, mosaic) | made
    keys, entries = mosaic.keys(painter.key), len(mosaic.rows) * len(mosaic.columns)
    missing = [place for place in keys if place not in there]
    paint = partial(painter.paint, mosaic.layout, monitor=monitor)
    try:
        with monitor.plan(entries):
            monitor.advance(entries * len(there) // len(keys))
            for strip in mosaic.paint(missing, paint):
                tiles.put({keys[place]: tile for place, tile in strip.items()})
                there |= strip
                if patience is not None and time.monotonic() - begun > patience:
                    break
    except Cancelled:
        raise
    except PruneGuiError as error:
        return str(error)
    return RenderedView.of(painter.key, mosaic, there)
