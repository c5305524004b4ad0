"""Rendering of pictures in tiles: painters, partial pictures, and what is rendered first. No Qt."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.gui.views.maps.text import Texts
from prune_gui.gui.views.maps.tiles import (
    RasterBlock,
    Tile,
    TileCache,
    TileGrid,
    TileIndex,
    TileRegion,
)
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.parameter_layouts import ParameterLayout

MAX_OVERVIEW_CELLS: Final = 700  # maximum number of cells of the overview along each side
RENDER_INTERVAL_S: Final = 0.1
"""Time after which a partial picture is shown; the rest is rendered in later jobs."""

Result = TypeVar("Result")


class Painter(Protocol):
    """Paints pictures of a parameter, on the engine's thread. Equal keys mean equal pictures."""

    @property
    def subject(self) -> Subject: ...

    @property
    def key(self) -> Hashable: ...

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle."""


class MapPainter(Painter, Protocol):
    """A painter that also has a text for each element, and profiles of a whole layout."""

    @property
    def is_part(self) -> bool:
        """Whether no more of the parameter is to be read than what is shown."""

    @property
    def profile_key(self) -> Hashable: ...

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts: ...

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles: ...


class RunJob(Protocol):
    """Runs jobs about a parameter on the engine's thread."""

    def __call__(
        self,
        lane: str,
        subject: Subject,
        work: Callable[[Monitor], Result],
        then: Callable[[Result], None],
        /,
    ) -> None:
        """Run `work`, and `then` on this thread if the subject is still shown."""


@dataclass(frozen=True, slots=True, eq=False)
class RenderedView:
    """A picture of a painter, which may be incomplete; `painted` has the tiles joined."""

    key: Hashable
    tile_grid: TileGrid
    tiles: dict[TileIndex, Tile]
    painted: Tile

    @classmethod
    def of(cls, key: Hashable, tile_grid: TileGrid, tiles: dict[TileIndex, Tile]) -> RenderedView:
        return cls(key, tile_grid, tiles, tile_grid.join(tiles))

    @property
    def share(self) -> float:
        return len(self.tiles) / len(self.tile_grid.indices)

    @property
    def is_complete(self) -> bool:
        return self.share == 1

    @property
    def is_overview(self) -> bool:
        return self.is_complete and self.tile_grid.is_whole

    @property
    def overview_key(self) -> tuple[Hashable, ParameterLayout]:
        """A key that is equal for pictures with the same overview."""
        return self.key, self.tile_grid.layout

    def shows(self, key: Hashable, tile_grid: TileGrid) -> bool:
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


@dataclass(eq=False)
class TilePipeline:
    """Renders requested pictures in tiles, and the overview after them. Keeps the tiles in a cache.

    The overview is the picture of the whole parameter, so that something is visible after every pan
    or zoom. `_show` gets a requested picture, which may be partial, or the message of an error;
    `_show_overview` the complete overview.

    Attributes:
        shown: the picture on the screen, which may be partial. The owner sets it to None when
            something else replaces the picture.
    """

    _lane: str
    _run_job: RunJob
    _show: Callable[[Subject, RenderedView | str], None]
    _show_overview: Callable[[RenderedView], None]
    tiles: TileCache = field(default_factory=TileCache)
    shown: RenderedView | None = None
    _wanted: tuple[Hashable, TileGrid] | None = None
    _overview_key: tuple[Hashable, ParameterLayout] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the requested picture is completely on the screen."""
        shown, wanted = self.shown, self._wanted
        return shown is not None and wanted is not None and shown.shows(*wanted)

    def has_overview(self, rendered: RenderedView) -> bool:
        return self._overview_key == rendered.overview_key

    def forget_pictures(self) -> None:
        """Forget what is on the screen, so that it is shown anew; the tiles stay cached."""
        self.shown = self._overview_key = None

    def request(self, painter: Painter, tile_grid: TileGrid, *, keep_previous: bool) -> None:
        """Show a picture, from the cache or rendered, unless it is on the screen.

        Partial pictures are shown as they arrive, unless a different picture is to stay on the
        screen until the new one is complete, so that it does not flicker while a step is edited.
        """
        self._wanted = (painter.key, tile_grid)
        if self.is_current:
            return
        cached = self.tiles.of(painter.key, tile_grid)
        if len(cached) == len(tile_grid.indices):
            self._arrive(painter.subject, RenderedView.of(painter.key, tile_grid, cached))
            return
        changed = self.shown is not None and self.shown.key != painter.key
        time_limit_s = None if changed and keep_previous else RENDER_INTERVAL_S

        def is_wanted() -> bool:
            return self._wanted == (painter.key, tile_grid) and not self.is_current

        def show(rendered: RenderedView | str) -> None:
            if not self.is_current:  # from the cache meanwhile
                self._arrive(painter.subject, rendered)

        self._render(self._lane, painter, tile_grid, time_limit_s, is_wanted, show)

    def request_overview(self, painter: Painter) -> None:
        """Render the overview of the picture on the screen in short jobs, unless it is there."""
        if self.shown is None:
            return
        layout = self.shown.tile_grid.layout
        key, overview = (painter.key, layout), TileGrid.whole(layout, MAX_OVERVIEW_CELLS)

        def is_wanted() -> bool:  # else the picture above has changed
            return self.shown is not None and self.shown.overview_key == key

        def show(rendered: RenderedView | str) -> None:
            if isinstance(rendered, RenderedView) and rendered.is_complete and is_wanted():
                self._show_overview(rendered)
                self._overview_key = key

        if self._overview_key != key:
            lane = f"{self._lane}.whole"
            self._render(lane, painter, overview, RENDER_INTERVAL_S, is_wanted, show)

    def _render(
        self,
        lane: str,
        painter: Painter,
        tile_grid: TileGrid,
        time_limit_s: float | None,
        is_wanted: Callable[[], bool],
        show: Callable[[RenderedView | str], None],
    ) -> None:
        """Render and show the missing tiles, in several jobs if they have a time limit."""

        def render(finished: dict[TileIndex, Tile]) -> None:
            work = partial(
                render_tiles, painter, tile_grid, self.tiles, finished, time_limit_s=time_limit_s
            )
            self._run_job(lane, painter.subject, work, then)

        def then(rendered: RenderedView | str) -> None:
            if isinstance(rendered, RenderedView) and not rendered.is_complete and is_wanted():
                render(rendered.tiles)
            show(rendered)

        render({})

    def _arrive(self, subject: Subject, rendered: RenderedView | str) -> None:
        self.shown = None if isinstance(rendered, str) else rendered
        if self.shown is not None and self.shown.is_overview:
            self._overview_key = self.shown.overview_key
        self._show(subject, rendered)
