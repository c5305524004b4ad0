"""A view of a parameter of any size that pans and zooms like a map."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from prune_gui.gui.views.axes import IndexAxis, axis_scales, dim_names_of, layout_labels
from prune_gui.gui.views.controls import IconToggle, fill, note
from prune_gui.gui.views.legend_text import SEPARATOR
from prune_gui.gui.views.maps.canvas import MapCanvas, add_pan_shortcuts, extent, zoom_buttons
from prune_gui.gui.views.maps.element_inspector import ElementReader
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.readers import CellTextWriter, HeadReader, ProfileReader
from prune_gui.gui.views.maps.tile_pipeline import MapPainter, Painter, RenderedView, TilePipeline
from prune_gui.gui.views.maps.tiles import Pixels, TileGrid
from prune_gui.gui.views.maps.viewport import LayoutChooser, Viewport
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.theme import TIGHT_PX
from prune_gui.language import tr
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.raster.parameter_layouts import ParameterLayout
    from prune_gui.session.changes import Changes

BACKGROUND_DELAY_MS: Final = 200
"""Delay between the last change and the rendering of the overview and the profiles."""


class ColourBar(Protocol):
    """The colours of a picture and their numbers, below it."""

    @property
    def html(self) -> str:
        """The bar as rich text; "" if the picture does not have its colours."""


class TiledView(View[Subject]):
    """A view whose pictures are rendered in tiles."""

    def __init__(
        self, workbench: Workbench, viewport: Viewport, name: str, *, kernel_grids: bool = True
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, name)
        self._chooser = LayoutChooser(viewport, kernel_grids=kernel_grids)
        self._chooser.changed.connect(self.refresh)
        self._overview: RenderedView | None = None
        self._pipeline = TilePipeline(
            self.lane,
            self._run_job,
            lambda subject, rendered: self._show_result(
                subject, rendered, partial(self._show, subject)
            ),
            self._show_overview,
        )

    @property
    def cached_bytes(self) -> int:
        return self._pipeline.tiles.nbytes

    def limit_memory(self, nbytes: int) -> None:
        self._pipeline.tiles.limit(nbytes)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._pipeline.tiles.clear()
        super()._on_changed(changes)

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

    @abstractmethod
    def _show_overview(self, overview: RenderedView) -> None:
        """Show the complete overview below the picture."""

    def _show_message(self, message: str) -> None:
        self._pipeline.shown = None
        super()._show_message(message)


class MapView(TiledView):
    """Shows a parameter in one picture with an overview, profiles, heads and texts.

    The wheel zooms at the cursor, and dragging pans. F fits, 1 shows an element per pixel, plus and
    minus zoom, and the arrow keys pan. A click pins an element, and Escape releases it. A subclass
    creates its controls, calls `_lay_out_map`, and says what is painted.

    Attributes:
        canvas: the picture.
        bar: colour bar, which is before the legend in an exported picture.
    """

    bar: ColourBar

    def __init__(
        self,
        workbench: Workbench,
        viewport: Viewport,
        name: str,
        picture_name: str,
        profiles_tip: str,
    ) -> None:
        super().__init__(workbench, viewport, name)
        lane, self._viewport = self.lane, viewport
        self.canvas = canvas = MapCanvas(viewport)
        canvas.setAccessibleName(picture_name)
        add_pan_shortcuts(canvas)
        self._texts = CellTextWriter(
            canvas, f"{lane}.texts", self._run_job, lambda part: self._pixels(part, (1, 1))
        )
        self._profiles = ProfileReader(canvas, f"{lane}.profiles", self._run_job, profiles_tip)
        self._profiles.box.toggled.connect(self._complete_picture)
        self._heads = HeadReader(canvas, viewport, f"{lane}.heads", self._run_job)
        self._square = IconToggle(
            "square-cells", tr("Square cells"), tr("Show rows as high as columns are wide")
        )
        self._square.clicked.connect(self._set_square_cells)
        self._elements = ElementReader(canvas, viewport, lane, self._run_job, lambda: self.subject)
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setMargin(24)
        self._picture_or_reason = QStackedWidget()
        self._picture_or_reason.addWidget(canvas)
        self._picture_or_reason.addWidget(self._reason)
        self._share = note(tr("Share drawn"))
        self._background_timer = self._timer(BACKGROUND_DELAY_MS, self._complete_picture)
        canvas.view.sigRangeChanged.connect(self._settle)
        canvas.view.sigResized.connect(self._settle)

    def _lay_out_map(self, controls: Sequence[QWidget], scale: Sequence[QWidget]) -> None:
        """Lay out controls above the picture, and below it the colour bar and what sets it up."""
        below_picture, margins = QWidget(), (0, TIGHT_PX, 0, TIGHT_PX)
        row = QHBoxLayout(below_picture)
        fill(row, *scale, margins=margins, spacing=None, growing=scale[-1:])
        shared = [self._profiles.box, self._square, *zoom_buttons(self.canvas, self)]
        self._lay_out(  # the chooser is last, so that the others do not move when it is hidden
            [*controls, *shared, self._heads.box, self._chooser],
            self._picture_or_reason,
            [below_picture, self._share],
        )
        page = self._picture_page.layout()
        assert isinstance(page, QVBoxLayout)
        index = page.indexOf(self._picture_or_reason)
        page.insertWidget(index + 1, self._elements.inspector)
        page.insertWidget(index, self._chooser.sliders)
        self._recolour()

    @abstractmethod
    def _painter(self, subject: Subject) -> MapPainter:
        """Return a painter of a parameter, set up from the controls."""

    @abstractmethod
    def _picture_legend(self, subject: Subject, rendered: RenderedView) -> str:
        """Return the legend of a picture as rich text, without the colour bar."""

    @abstractmethod
    def _profile_titles(self, subject: Subject) -> Titles:
        """Return the titles of the profiles of a parameter, according to the controls."""

    def _prepare(self, subject: Subject, *, is_whole: bool) -> None:
        """Fit the controls to a parameter, before all of it or a part is painted."""

    def _update_bar(self, subject: Subject) -> None:
        """Show the colours of a new picture in the colour bar."""

    def _fit_bar(self, _visible: Pixels, _cell: tuple[int, int]) -> bool:
        """Fit the colours to the visible cells; return whether they have changed."""
        return False

    def _pixels(self, picture: Pixels, _cell: tuple[int, int]) -> Pixels:
        """Return the red, green, blue and opacity of a picture whose cells have a size."""
        return picture

    def picture(self) -> QWidget | None:
        shown = self._picture_or_reason.currentWidget() is self.canvas
        return self.canvas if shown and super().picture() is not None else None

    def legend(self) -> str:
        return SEPARATOR.join(filter(None, (self.bar.html, super().legend())))

    def _request_picture(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        layout = self._chooser.layout_chosen
        tile_grid = TileGrid.over(layout, self.canvas.region_of(layout))
        self._prepare(subject, is_whole=tile_grid.is_whole)
        painter = self._painter(subject)
        is_current = self._request_tiles(painter, self.canvas, tile_grid)
        if is_current and self._pipeline.shown is not None:
            if self._fit_colours(self._pipeline.shown):
                self._draw(subject, self._pipeline.shown)
            self._texts.write(painter, self._pipeline.shown)

    def _show(self, subject: Subject, rendered: RenderedView | str) -> None:
        if isinstance(rendered, str):
            self._reason.setText(rendered)
            self._share.clear()
            self._picture_or_reason.setCurrentWidget(self._reason)
            self._legend.clear()
            return
        self._picture_or_reason.setCurrentWidget(self.canvas)
        layout, is_complete = rendered.tile_grid.layout, rendered.is_complete
        has_overview = self._pipeline.has_overview(rendered)
        self.canvas.whole.setVisible(has_overview)
        if layout != self.canvas.layout_shown or not subject.same_parameter(self._pictured):
            self._show_layout(subject, layout)
        self._heads.show(subject, layout)
        self._fit_colours(rendered)
        self._draw(subject, rendered)
        self.canvas.show_undrawn(on=not (is_complete or has_overview))
        share = tr("{share} % drawn", share=math.floor(100 * rendered.share))
        self._share.setText("" if is_complete else share)
        self.canvas.show_marks(rendered.painted.marks)
        self._texts.write(self._painter(subject), rendered)
        self._elements.update()
        if is_complete:
            self._background_timer.start()

    def _fit_colours(self, rendered: RenderedView) -> bool:
        tile_grid, sight = rendered.tile_grid, self.canvas.region_of(rendered.tile_grid.layout)
        (top, bottom), (left, right) = (
            ((seen.start - lines.start) // cell, -(-(seen.stop - lines.start) // cell))
            for seen, lines, cell in zip(
                (sight.rows, sight.columns),
                (tile_grid.rows, tile_grid.columns),
                tile_grid.cell,
                strict=True,
            )
        )
        visible = rendered.painted.pixels[max(0, top) : bottom, max(0, left) : right]
        return self._fit_bar(visible, tile_grid.cell)

    def _draw(self, subject: Subject, rendered: RenderedView) -> None:
        tile_grid = rendered.tile_grid
        if tile_grid.is_whole and rendered.is_complete:
            self._show_overview(rendered)
            self.canvas.part.hide()
        else:
            if self._overview is not None and self._pipeline.has_overview(rendered):
                self._show_overview(self._overview)
            pixels = self._pixels(rendered.painted.pixels, tile_grid.cell)
            self.canvas.show_part(pixels, tile_grid.rows, tile_grid.columns)
        self._legend.setText(self._picture_legend(subject, rendered))
        self._update_bar(subject)

    def _show_overview(self, overview: RenderedView) -> None:
        self._overview = overview
        self.canvas.show_whole(self._pixels(overview.painted.pixels, overview.tile_grid.cell))

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
            self._elements.forget_cursor()
        self.canvas.take(layout)
        labels = layout_labels(dim_names_of(self._workbench, subject), layout, self._chooser.dims)
        sides = zip(("left", "bottom"), labels, axis_scales(layout), strict=True)
        for side, text, (scale, end) in sides:
            axis = self.canvas.plotItem.getAxis(side)
            assert isinstance(axis, IndexAxis)
            axis.end = end
            axis.setScale(scale)
            self.canvas.label(side, text)
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

    def _set_square_cells(self, on: bool) -> None:
        self._viewport.keep_square_cells(on=on)
        self.canvas.set_square_cells(on=on)

    def _recolour(self) -> None:
        self.canvas.recolour(self.colours())
        self._pipeline.forget_pictures()
        self._texts.forget()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Update what another view may have changed: square cells, and the pinned element."""
        super().showEvent(event)
        if self._square.isChecked() != self._viewport.square_cells:
            self._square.setChecked(self._viewport.square_cells)
            self.canvas.set_square_cells(on=self._viewport.square_cells)
        self._elements.update()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._elements.stop()
