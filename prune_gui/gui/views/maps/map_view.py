"""A view of a parameter of any size that pans and zooms like a map."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QWidget

from prune_gui.gui.views.controls import note
from prune_gui.gui.views.maps.canvas import MapCanvas, SquareCells, extent, zoom_buttons
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.readers import (
    CellTextWriter,
    ElementReader,
    HeadReader,
    ProfileReader,
)
from prune_gui.gui.views.maps.tile_pipeline import MapPainter, Painter, RenderedView, TilePipeline
from prune_gui.gui.views.maps.tiles import Pixels, TileGrid
from prune_gui.gui.views.maps.viewport import LayoutChooser, Viewport
from prune_gui.gui.views.plot import dim_names_of, layout_labels
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.raster.parameter_layouts import ParameterLayout
from prune_gui.session.changes import Changes
from prune_gui.session.subjects import Subject

BACKGROUND_DELAY_MS: Final = 200
"""Delay between the last change and the rendering of the overview and the profiles."""


class TiledView(View[Subject]):
    """A view whose pictures are rendered in tiles, and shown on one or more canvases."""

    _square: SquareCells

    @property
    @abstractmethod
    def _canvases(self) -> Sequence[MapCanvas]: ...

    @abstractmethod
    def _pictures(self, rendered: RenderedView) -> Sequence[Pixels]:
        """Return the RGBA pixels for each canvas, or for the first ones."""

    def __init__(
        self, workbench: Workbench, viewport: Viewport, name: str, *, kernel_grids: bool = True
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, name)
        self._viewport = viewport
        self._enter_file()
        self._chooser = LayoutChooser(viewport, kernel_grids=kernel_grids)
        self._chooser.changed.connect(self.refresh)
        self._overview: RenderedView | None = None

        def show(subject: Subject, rendered: RenderedView | str) -> None:
            self._show_result(subject, rendered, partial(self._show, subject))

        self._pipeline = TilePipeline(self.lane, self._run_job, show, self._show_overview)

    @property
    def cached_bytes(self) -> int:
        return self._pipeline.tiles.nbytes

    def limit_memory(self, nbytes: int) -> None:
        self._pipeline.tiles.limit(nbytes)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._pipeline.tiles.clear()
            self._enter_file()
            self._pipeline.forget_pictures()
            for canvas in self._canvases:
                canvas.layout_shown = None  # the next one is fitted into the view
        super()._on_changed(changes)

    def _enter_file(self) -> None:
        if (session := self._workbench.session) is not None:
            self._viewport.enter(session.checkpoint.path)

    def _request_tiles(self, painter: Painter, canvas: MapCanvas, tile_grid: TileGrid) -> bool:
        """Request a picture; return whether it is on the screen already."""
        is_same = painter.subject.same_parameter(self._pictured)
        keep_previous = is_same and tile_grid.layout == canvas.layout_shown
        self._pipeline.request(painter, tile_grid, keep_previous=keep_previous)
        if self._pipeline.is_current:
            self._pictured = painter.subject
        return self._pipeline.is_current

    @abstractmethod
    def _show(self, subject: Subject, rendered: RenderedView | str) -> None:
        """Show a picture, which may be partial, or the message of an error."""

    def _show_layout(self, subject: Subject, layout: ParameterLayout) -> None:
        labels = layout_labels(dim_names_of(self._workbench, subject), layout, self._chooser.dims)
        for canvas in reversed(self._canvases):
            canvas.take(layout, labels)
        self._square.follow()

    def _show_tiles(self, rendered: RenderedView) -> None:
        has_overview = self._pipeline.has_overview(rendered)
        if rendered.is_overview:
            self._overview = rendered
        for canvas, pixels in zip(self._canvases, self._pictures(rendered), strict=False):
            canvas.show_tiles(rendered, pixels, has_overview=has_overview)

    def _show_again(self, rendered: RenderedView) -> None:
        """Show a picture and its overview in other colours, or divided at another place."""
        self._show_tiles(rendered)
        overview, has_overview = self._overview, self._pipeline.has_overview
        if overview is None or rendered.is_overview:
            return
        if has_overview(rendered) and has_overview(overview):
            self._show_overview(overview)

    def _show_overview(self, overview: RenderedView) -> None:
        self._overview = overview
        for canvas, pixels in zip(self._canvases, self._pictures(overview), strict=False):
            canvas.show_whole(pixels)

    def _show_message(self, message: str) -> None:
        self._pipeline.shown = None
        super()._show_message(message)


class MapView(TiledView):
    """Shows a parameter in one picture with an overview, profiles, heads and texts.

    The wheel zooms at the cursor, and dragging pans. F fits, 1 shows an element per pixel, plus and
    minus zoom, and the arrow keys pan. A click pins an element, and Escape releases it. A subclass
    creates its controls, calls `_lay_out_map`, and says what is painted.
    """

    def __init__(
        self, workbench: Workbench, viewport: Viewport, name: str, picture: str, profiles_tip: str
    ) -> None:
        super().__init__(workbench, viewport, name)
        lane = self.lane
        self.canvas = canvas = MapCanvas(viewport)
        canvas.setAccessibleName(picture)
        run = self._run_job
        self._texts = CellTextWriter(
            canvas, f"{lane}.texts", run, lambda part: self._pixels(part, (1, 1))
        )
        self._profiles = ProfileReader(canvas, f"{lane}.profiles", run, profiles_tip)
        self._profiles.box.toggled.connect(self._complete_picture)
        self._heads = HeadReader(canvas, f"{lane}.heads", run, viewport)
        self._square = SquareCells(viewport, canvas)
        self._elements = ElementReader(canvas, lane, run, viewport, lambda: self.subject)
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setMargin(24)
        self._picture_or_reason = layouts.pages(canvas, self._reason)
        self._share = note(tr("Share drawn"))
        self._background_timer = self._timer(BACKGROUND_DELAY_MS, self._complete_picture)
        canvas.view.sigRangeChanged.connect(self._settle)
        canvas.view.sigResized.connect(self._settle)

    def _lay_out_map(self, controls: Sequence[QWidget], scale: Sequence[QWidget]) -> None:
        """Lay out controls above the picture, and below it the colour bar and what sets it up."""
        below_picture, margin = QWidget(), (0, TIGHT_PX, 0, TIGHT_PX)
        layouts.row(*scale[:-1], (scale[-1], 1), of=below_picture, margin=margin)
        heights = [widget.sizeHint().height() for widget in scale]
        below_picture.setMinimumHeight(max(heights) + 2 * TIGHT_PX)  # some may be hidden
        shared = [self._profiles.box, self._square, *zoom_buttons(self.canvas, self)]
        self._lay_out(  # the chooser is last, so that the others do not move when it is hidden
            [*controls, *shared, self._heads.box, self._chooser],
            self._picture_or_reason,
            [below_picture, self._share],
        )
        self._insert_below_picture(self._elements.inspector)
        self._column.insertWidget(1, self._chooser.sliders)  # above the picture

    def _insert_below_picture(self, widget: QWidget) -> None:
        self._column.insertWidget(self._column.indexOf(self._picture_or_reason) + 1, widget)

    @abstractmethod
    def _painter(self, subject: Subject) -> MapPainter:
        """Return a painter of a parameter, set up from the controls."""

    @abstractmethod
    def _picture_legend(self, subject: Subject, rendered: RenderedView) -> str:
        """Return the legend of a picture as rich text."""

    @abstractmethod
    def _profile_titles(self, subject: Subject) -> Titles:
        """Return the titles of the profiles of a parameter, according to the controls."""

    def _prepare(self, subject: Subject, *, is_whole: bool) -> None:
        """Fit the controls to a parameter, before all of it or a part is painted."""

    def _fit_visible(self, _visible: Pixels, _cell: tuple[int, int]) -> bool:
        """Fit the colours to the visible cells; return whether they have changed."""
        return False

    def _pixels(self, picture: Pixels, _cell: tuple[int, int]) -> Pixels:
        """Return the red, green, blue and opacity of a picture whose cells have a size."""
        return picture

    def picture(self) -> QWidget | None:
        shown = self._picture_or_reason.currentWidget() is self.canvas
        return self.canvas if shown and super().picture() is not None else None

    def _request_picture(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        layout = self._chooser.layout_chosen
        tile_grid = TileGrid.over(layout, self.canvas.region_of(layout))
        self._prepare(subject, is_whole=tile_grid.is_whole)
        painter = self._painter(subject)
        is_current = self._request_tiles(painter, self.canvas, tile_grid)
        shown = self._pipeline.shown
        if is_current and shown is not None:
            if self._fit_colours(shown):
                self._draw(subject, shown)
            self._texts.write(painter, shown)

    def _show(self, subject: Subject, rendered: RenderedView | str) -> None:
        if isinstance(rendered, str):
            self._reason.setText(rendered)
            self._share.clear()
            self._picture_or_reason.setCurrentWidget(self._reason)
            self._legend.clear()
            return
        self._picture_or_reason.setCurrentWidget(self.canvas)
        layout = rendered.tile_grid.layout
        if layout != self.canvas.layout_shown or not subject.same_parameter(self._pictured):
            self._show_layout(subject, layout)
        self._heads.show(subject, layout)
        self._fit_colours(rendered)
        self._draw(subject, rendered)
        share = tr("{share} % drawn", share=math.floor(100 * rendered.share))
        self._share.setText("" if rendered.is_complete else share)
        self._texts.write(self._painter(subject), rendered)
        self._elements.update()
        if rendered.is_complete:
            self._background_timer.start()

    def _fit_colours(self, rendered: RenderedView) -> bool:
        tile_grid, sight = rendered.tile_grid, self.canvas.region_of(rendered.tile_grid.layout)
        rows, columns = (
            slice(max(0, (seen.start - lines.start) // cell), -(-(seen.stop - lines.start) // cell))
            for seen, lines, cell in (
                (sight.rows, tile_grid.rows, tile_grid.cell[0]),
                (sight.columns, tile_grid.columns, tile_grid.cell[1]),
            )
        )
        visible = rendered.painted.pixels[rows, columns]
        return self._fit_visible(visible, tile_grid.cell)

    def _draw(self, subject: Subject, rendered: RenderedView) -> None:
        self._show_again(rendered)
        self._legend.setText(self._picture_legend(subject, rendered))

    @property
    def _canvases(self) -> Sequence[MapCanvas]:
        return [self.canvas]

    def _pictures(self, rendered: RenderedView) -> Sequence[Pixels]:
        return [self._pixels(rendered.painted.pixels, rendered.tile_grid.cell)]

    def _repaint(self) -> None:
        subject, shown = self._pictured, self._pipeline.shown
        if subject is not None and shown is not None:
            self._fit_colours(shown)
            self._draw(subject, shown)
            self._texts.forget()
            self._texts.write(self._painter(subject), shown)
            self.pictured.emit()

    def _show_layout(self, subject: Subject, layout: ParameterLayout) -> None:
        previous = self.canvas.layout_shown
        if previous is None or extent(layout) != extent(previous):
            self._elements.cursor = None
        super()._show_layout(subject, layout)
        self._profiles.clear()

    def _complete_picture(self) -> None:
        if self.subject is None or not self._pipeline.is_current:
            return  # a newer picture is being rendered; this is called again after it
        layout, painter = self.canvas.layout_shown, self._painter(self.subject)
        if layout is not None:
            if not painter.is_part:
                self._profiles.request(painter, layout, self._profile_titles(self.subject))
            self._heads.request()
        if not painter.is_part:
            self._pipeline.request_overview(painter)

    def show_selection(self, *, on: bool) -> None:
        if on:
            self._elements.update()
        else:
            self.canvas.pin(None)

    def _recolour(self) -> None:
        self._pipeline.forget_pictures()
        self._texts.forget()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Update what another view may have changed: square cells, and the pinned element."""
        super().showEvent(event)
        self._square.follow()
        self._elements.update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._elements.inspector.limit_rows(self.height())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._elements.rest_timer.stop()
