"""A view of a parameter of any size that pans and zooms like a map."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QStackedWidget, QVBoxLayout, QWidget

from prune_gui.audit.rendering.cell_labels import Texts
from prune_gui.audit.rendering.tile_render import Painter, RenderedView, render_tiles
from prune_gui.audit.rendering.tiles import Tile, TileCache, TileGrid, TileIndex
from prune_gui.audit.view_data.element_text import describe, describe_pinned
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.axes import IndexAxis, axis_scales, dim_names, layout_labels
from prune_gui.gui.views.maps.canvas import CellTexts, MapCanvas, extent
from prune_gui.gui.views.maps.map_navigation import add_pan_shortcuts, zoom_buttons
from prune_gui.gui.views.maps.slice_chooser import LayoutChooser
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import SETTLE_MS, View
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.audit.statistics.element import Element
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe.explanation import Explanation
    from prune_gui.session.changes import Changes

BACKGROUND_DELAY_MS = 200
"""Delay between the last change and the rendering of the overview, which is the whole picture."""
MAX_OVERVIEW_CELLS = 700
"""Maximum number of cells of the overview along each side."""
RENDER_INTERVAL_S = 0.1
"""Time after which a partial picture is shown; the rest is rendered in later jobs."""
DARK_TEXT_MIN_LIGHTNESS = 140
"""Lightness of a cell, 0 to 255, above which its text is black."""


class MapView(View):
    """Shows a parameter as rendered by a painter.

    The wheel zooms at the cursor, and dragging pans. F fits, 1 shows an element per pixel, plus and
    minus zoom, and the arrow keys pan. A click pins an element, and Escape releases it.

    Args:
        workbench: provides the parameter and its resolution.
        controls: widgets above the picture, before those that all map views have.
        viewport: shared with the other views of a parameter.
    """

    def __init__(
        self,
        workbench: Workbench,
        controls: Sequence[QWidget],
        viewport: Viewport,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(workbench, parent)
        self._viewport = viewport
        self._tiles = TileCache()
        self._layout: ParameterLayout | None = None
        self._wanted: tuple[Hashable, TileGrid] | None = None
        self._drawn: RenderedView | None = None
        self._texts_key: tuple[Hashable, range, range] | None = None
        self._overview_key: tuple[Hashable, ParameterLayout] | None = None
        self._cursor: tuple[int, int] | None = None
        self._chooser = LayoutChooser(viewport)
        self._chooser.changed.connect(self.refresh)
        self._plot = MapCanvas(viewport)
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setMargin(24)
        self._picture_or_reason = QStackedWidget()
        self._picture_or_reason.addWidget(self._plot)
        self._picture_or_reason.addWidget(self._reason)
        self._element_label, self._pin = (
            ElidedLabel(name, wrapped=wrapped)
            for name, wrapped in ((tr("Entry under the cursor"), False), (tr("Pinned entry"), True))
        )
        self._pin.setContentsMargins(8, 4, 8, 0)
        self._pin.hide()
        self._share = QLabel()
        self._share.setAccessibleName(tr("Share drawn"))
        self._lay_out(
            [
                *controls,
                *zoom_buttons(self._plot, self),
                self._chooser,
            ],  # last, so that the others do not move when it is hidden
            self._picture_or_reason,
            [self._element_label, self._share],
        )
        below = self._content.layout()
        assert isinstance(below, QVBoxLayout)
        index = below.indexOf(self._picture_or_reason)
        below.insertWidget(index + 1, self._pin)
        below.insertWidget(index, self._chooser.sliders)
        add_pan_shortcuts(self._plot)
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self.refresh)
        self._background_timer = QTimer(self, singleShot=True, interval=BACKGROUND_DELAY_MS)
        self._background_timer.timeout.connect(self._complete_picture)
        self._plot.view.sigRangeChanged.connect(self._moved)
        self._plot.view.sigResized.connect(self._moved)
        self._plot.pointed.connect(self._set_cursor)
        self._plot.clicked.connect(self._set_pin)
        self._plot.escaped.connect(lambda: self._set_pin(None))
        self._recolour()

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        if changes.file:
            self._tiles.clear()

    @abstractmethod
    def _painter(self, subject: Subject) -> Painter:
        """Return a painter of the chosen parameter, set up from the controls."""

    @abstractmethod
    def _describe_colours(self, subject: Subject, rendered: RenderedView) -> None:
        """Show the legend of a picture."""

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while a message replaces it."""
        shown = self._picture_or_reason.currentWidget() is self._plot
        return self._plot if shown and super().picture() is not None else None

    @property
    def cached_bytes(self) -> int:
        """Number of bytes of cached tiles."""
        return self._tiles.nbytes

    def limit_memory(self, nbytes: int) -> None:
        """Limit the cached tiles to a number of bytes."""
        self._tiles.limit(nbytes)

    def fit(self) -> None:
        """Show the whole picture."""
        self._plot.fit()

    def one_to_one(self) -> None:
        """Show one element per pixel, around the same centre."""
        self._plot.one_to_one()

    def zoom(self, factor: float) -> None:
        """Show more elements (factor above 1) or fewer (below 1), around the same centre."""
        self._plot.zoom(factor)

    def pan(self, across: float, down: float) -> None:
        """Pan by shares of the visible region."""
        self._plot.pan(across, down)

    def _request_picture(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        layout, painter = self._chooser.layout_chosen, self._painter(subject)
        tile_grid = TileGrid.over(self._plot.frame_of(layout))
        self._wanted = (painter.key, tile_grid)
        if self._drawn is not None and self._is_shown():
            self._pictured = subject
            self._write(subject, self._drawn)
            return
        cached = self._tiles.of(painter.key, tile_grid)
        if len(cached) == len(tile_grid.indices):
            rendered = RenderedView.of(painter.key, tile_grid, cached)
            self._show_result(subject, rendered, partial(self._show, subject))
        else:
            self._draw(subject, painter, tile_grid, {})

    def _draw(
        self,
        subject: Subject,
        painter: Painter,
        tile_grid: TileGrid,
        finished: dict[TileIndex, Tile],
    ) -> None:
        """Render the missing tiles on the engine, and show them.

        Partial pictures are shown as they arrive. If there is already a picture of the same
        parameter, it stays until the new one is complete, so that it does not flicker while a step
        is edited.
        """
        previous = self._drawn
        changed = previous is not None and previous.key != painter.key
        keep_old = (
            changed and tile_grid.layout == self._layout and subject.same_parameter(self._pictured)
        )

        def handle_result(rendered: RenderedView | str) -> None:
            if self._is_shown():
                return  # from the cache meanwhile
            wanted = self._wanted == (painter.key, tile_grid)
            if wanted and isinstance(rendered, RenderedView) and not rendered.is_complete:
                self._draw(subject, painter, tile_grid, rendered.tiles)
            self._show_result(subject, rendered, partial(self._show, subject))

        time_limit_s = None if keep_old else RENDER_INTERVAL_S
        self.ticket = self._run_job(
            self.lane,
            subject,
            lambda monitor: render_tiles(
                painter, tile_grid, self._tiles, finished, monitor, time_limit_s
            ),
            handle_result,
        )

    def _is_shown(self) -> bool:
        """Return whether the requested picture is completely on the screen."""
        shown, wanted = self._drawn, self._wanted
        in_front = self._pages.currentWidget() is self._content
        return in_front and shown is not None and wanted is not None and shown.shows(*wanted)

    def _show(self, subject: Subject, rendered: RenderedView | str) -> None:
        if isinstance(rendered, str):
            self._drawn = None
            self._reason.setText(rendered)
            self._share.clear()
            self._picture_or_reason.setCurrentWidget(self._reason)
            self._legend.clear()
            return
        self._picture_or_reason.setCurrentWidget(self._plot)
        tile_grid, painted = rendered.tile_grid, rendered.painted
        has_overview = self._overview_key == (rendered.key, tile_grid.layout)
        self._plot.whole.setVisible(has_overview)
        if tile_grid.layout != self._layout or not subject.same_parameter(self._pictured):
            self._show_layout(subject, tile_grid.layout)
        if tile_grid.is_whole and rendered.is_complete:
            self._plot.show_whole(painted.pixels)
            self._plot.part.hide()
            self._overview_key = (rendered.key, tile_grid.layout)
        else:
            self._plot.show_part(painted.pixels, tile_grid.rows, tile_grid.columns)
        self._plot.show_undrawn(on=not (rendered.is_complete or has_overview))
        self._share.setText(
            ""
            if rendered.is_complete
            else tr("{share} % drawn", share=math.floor(100 * rendered.share))
        )
        self._drawn = rendered
        self._plot.show_marks(painted.marks)
        self._describe_colours(subject, rendered)
        self._write(subject, rendered)
        self._request_element()
        self._request_pinned()
        if rendered.is_complete:
            self._background_timer.start()

    def _show_layout(self, subject: Subject, layout: ParameterLayout) -> None:
        """Show another parameter, or another layout of it."""
        if self._layout is None or extent(layout) != extent(self._layout):
            self._cursor = None
        self._layout = layout
        self._plot.take(layout)
        names = dim_names(
            self._workbench.module_type_of(subject.name), subject.name, subject.info.shape
        )
        labels = layout_labels(names, layout, self._chooser.dims)
        for side, text, (scale, end) in zip(
            ("left", "bottom"), labels, axis_scales(layout), strict=True
        ):
            axis = self._plot.plotItem.getAxis(side)
            assert isinstance(axis, IndexAxis)
            axis.end = end
            axis.setScale(scale)
            self._plot.label(side, text)

    def _complete_picture(self) -> None:
        """Render the overview too, so that something is visible after every pan or zoom."""
        subject, layout = self.subject, self._layout
        if subject is None or layout is None or self._drawn is None:
            return
        if not self._is_shown():
            return  # a newer picture is being rendered; this is called again after it
        self._request_profiles(subject, layout)
        painter, overview = (
            self._painter(subject),
            TileGrid.whole(self._drawn.tile_grid, MAX_OVERVIEW_CELLS),
        )
        if self._overview_key != (painter.key, layout):
            self._render_overview(subject, painter, overview, {})

    def _render_overview(
        self,
        subject: Subject,
        painter: Painter,
        overview: TileGrid,
        finished: dict[TileIndex, Tile],
    ) -> None:
        """Render the overview in several engine jobs, so that other pictures can come first."""

        def show(rendered: RenderedView | str) -> None:
            above = self._drawn
            if isinstance(rendered, str) or above is None:
                return
            if (above.key, above.tile_grid.layout) != (rendered.key, overview.layout):
                return  # the picture above has changed
            if rendered.is_complete:
                self._plot.show_whole(rendered.painted.pixels)
                self._overview_key = (rendered.key, overview.layout)
            else:
                self._render_overview(subject, painter, overview, rendered.tiles)

        self._run_job(
            f"{self.lane}.whole",
            subject,
            lambda monitor: render_tiles(
                painter, overview, self._tiles, finished, monitor, RENDER_INTERVAL_S
            ),
            show,
        )

    def _request_profiles(self, subject: Subject, layout: ParameterLayout) -> None:
        """Request data that is shown beside the picture, if there is any."""

    def _write(self, subject: Subject, rendered: RenderedView) -> None:
        """Write texts into the visible elements if they are large enough."""
        tile_grid = rendered.tile_grid
        if not (rendered.is_complete and self._plot.readable and tile_grid.cell == (1, 1)):
            self._texts_key = None
            self._plot.write(None)
            return
        sight = self._plot.frame_of(tile_grid.layout)
        rows, columns, painter = sight.rows, sight.columns, self._painter(subject)
        wanted = (rendered.key, rows, columns)
        if wanted == self._texts_key:
            return
        self._texts_key = wanted
        top, left = rows.start - tile_grid.rows.start, columns.start - tile_grid.columns.start
        pixels = rendered.painted.pixels[top : top + len(rows), left : left + len(columns), :3]
        bright = pixels @ np.array([0.299, 0.587, 0.114]) > DARK_TEXT_MIN_LIGHTNESS

        def show(texts: Texts) -> None:
            if self._texts_key == wanted:
                self._plot.write(CellTexts(rows, columns, texts, bright))

        def read(_: Monitor) -> Texts:
            return painter.texts(tile_grid.layout, rows, columns)

        self._run_job(f"{self.lane}.texts", subject, read, show)

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            self._request_element()

    def _request_element(self) -> None:
        subject, layout, cursor = self.subject, self._layout, self._cursor
        if subject is None or layout is None or cursor is None or not _matches(layout, subject):
            self._element_label.say("")
            return

        def read(_: Monitor) -> Element:
            from prune_gui.audit.statistics.element import element_at

            return element_at(subject.resolution, subject.name, layout, *cursor)

        def show(weight: Element) -> None:
            if cursor == self._cursor:
                self._element_label.say(describe(subject, weight))

        self._run_job(f"{self.lane}.entry", subject, read, show)

    def _set_pin(self, cell: tuple[int, int] | None) -> None:
        self._viewport.pin(None if cell == self._pinned else cell)
        self._request_pinned()

    @property
    def _pinned(self) -> tuple[int, int] | None:
        view_state = self._viewport.within(self._layout) if self._layout is not None else None
        return view_state.pinned if view_state is not None else None

    def _request_pinned(self) -> None:
        subject, layout, pinned = self.subject, self._layout, self._pinned
        self._plot.pin(pinned)
        self._pin.setVisible(pinned is not None)
        if subject is None or layout is None or pinned is None or not _matches(layout, subject):
            return
        index = layout.index(*pinned)

        def show(explanation: Explanation) -> None:
            if pinned == self._pinned:
                self._pin.say(describe_pinned(subject, explanation))

        self._run_job(
            f"{self.lane}.pin",
            subject,
            lambda _: subject.resolution.explain(subject.name, index),
            show,
        )

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
        self._drawn = self._overview_key = self._texts_key = None

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Update the pinned element, which another view may have changed."""
        super().showEvent(event)
        self._request_pinned()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timers."""
        super().hideEvent(event)
        self._settle_timer.stop()
        self._background_timer.stop()


def _matches(layout: ParameterLayout, subject: Subject) -> bool:
    return layout.shape == subject.info.shape
