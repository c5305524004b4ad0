"""A view of a parameter of any size that pans and zooms like a map."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from prune_gui.gui.views.axes import IndexAxis, axis_scales, dim_names_of, layout_labels
from prune_gui.gui.views.legend_text import SEPARATOR
from prune_gui.gui.views.maps.canvas import MapCanvas, extent
from prune_gui.gui.views.maps.cell_texts import CellTextWriter
from prune_gui.gui.views.maps.element_reader import ElementReader
from prune_gui.gui.views.maps.head_reader import HeadReader
from prune_gui.gui.views.maps.icon_toggle import IconToggle
from prune_gui.gui.views.maps.map_content import MapContent, Profiler
from prune_gui.gui.views.maps.map_navigation import add_pan_shortcuts, zoom_buttons
from prune_gui.gui.views.maps.profile_margins import ProfileMargins
from prune_gui.gui.views.maps.slice_chooser import LayoutChooser
from prune_gui.gui.views.maps.tile_pipeline import RenderedView, TilePipeline
from prune_gui.gui.views.maps.tiles import Pixels, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import SETTLE_MS, View
from prune_gui.gui.widgets.spacing import TIGHT_PX
from prune_gui.language import tr
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.raster.slice_layout import ParameterLayout
    from prune_gui.session.changes import Changes

BACKGROUND_DELAY_MS = 200
"""Delay between the last change and the rendering of the overview and the profiles."""


class MapView(View[Subject]):
    """Shows a parameter as rendered by the painter of a content.

    The wheel zooms at the cursor, and dragging pans. F fits, 1 shows an element per pixel, plus and
    minus zoom, and the arrow keys pan. A click pins an element, and Escape releases it.

    Attributes:
        content: what is shown of the parameter.
    """

    def __init__(
        self,
        workbench: Workbench,
        viewport: Viewport,
        content: MapContent,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, parent)
        self.lane = lane = content.lane
        self.content = content
        content.setParent(self)
        self.setAccessibleName(content.name)
        self._viewport = viewport
        self._chooser = LayoutChooser(viewport)
        self._chooser.changed.connect(self.refresh)
        self._plot = MapCanvas(viewport)
        self._plot.setAccessibleName(content.picture_name)
        add_pan_shortcuts(self._plot)
        self._pipeline = TilePipeline(
            lane,
            self._run_job,
            lambda subject, rendered: self._show_result(
                subject, rendered, partial(self._show, subject)
            ),
            self._show_overview,
        )
        self._texts = CellTextWriter(
            self._plot, f"{lane}.texts", self._run_job, lambda part: self._pixels(part, (1, 1))
        )
        self._overview: RenderedView | None = None
        self._profiles = ProfileMargins(
            self._plot, f"{lane}.profiles", self._run_job, content.profiles_tip
        )
        self._profiles.box.toggled.connect(self._complete_picture)
        self._heads = HeadReader(self._plot, viewport, f"{lane}.heads", self._run_job)
        self._square = IconToggle(
            "square-cells", tr("Square cells"), tr("Show rows as high as columns are wide")
        )
        self._square.clicked.connect(self._set_square_cells)
        self._elements = ElementReader(
            self._plot, viewport, lane, self._run_job, lambda: self.subject
        )
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setMargin(24)
        self._picture_or_reason = QStackedWidget()
        self._picture_or_reason.addWidget(self._plot)
        self._picture_or_reason.addWidget(self._reason)
        self._share = QLabel()
        self._share.setAccessibleName(tr("Share drawn"))
        self._lay_out_parts()
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self.refresh)
        self._background_timer = QTimer(self, singleShot=True, interval=BACKGROUND_DELAY_MS)
        self._background_timer.timeout.connect(self._complete_picture)
        self._plot.view.sigRangeChanged.connect(self._moved)
        self._plot.view.sigResized.connect(self._moved)
        content.changed.connect(self.refresh)
        content.recoloured.connect(self._repaint)
        self._recolour()

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        if changes.file:
            self._pipeline.tiles.clear()
            self.content.clear_caches()

    def _lay_out_parts(self) -> None:
        scale = QWidget()
        scale_layout = QHBoxLayout(scale)
        scale_layout.setContentsMargins(0, TIGHT_PX, 0, TIGHT_PX)
        for widget in self.content.scale:
            scale_layout.addWidget(widget, widget is self.content.scale[-1])
        self._lay_out(
            [
                *self.content.controls,
                self._profiles.box,
                self._square,
                *zoom_buttons(self._plot, self),
                self._heads.box,
                self._chooser,
            ],  # last, so that the others do not move when it is hidden
            self._picture_or_reason,
            [scale, self._share],
        )
        below = self._picture_page.layout()
        assert isinstance(below, QVBoxLayout)
        index = below.indexOf(self._picture_or_reason)
        below.insertWidget(index + 1, self._elements.inspector)
        below.insertWidget(index, self._chooser.sliders)

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while a message replaces it."""
        shown = self._picture_or_reason.currentWidget() is self._plot
        return self._plot if shown and super().picture() is not None else None

    def legend(self) -> str:
        """Return the colour bar, unless it is disabled, and the legend as rich text."""
        return SEPARATOR.join(filter(None, (self.content.bar.html, super().legend())))

    @property
    def cached_bytes(self) -> int:
        """Number of bytes of cached tiles."""
        return self._pipeline.tiles.nbytes

    def limit_memory(self, nbytes: int) -> None:
        """Limit the cached tiles to a number of bytes."""
        self._pipeline.tiles.limit(nbytes)

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

    def _painter(self, subject: Subject) -> Profiler:
        return self.content.painter(subject, self.colours())

    def _request_picture(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        layout = self._chooser.layout_chosen
        tile_grid = TileGrid.over(self._plot.frame_of(layout))
        self.content.prepare(subject, is_whole=tile_grid.is_whole)
        painter = self._painter(subject)
        self._pipeline.request(
            painter,
            tile_grid,
            keep_previous=layout == self._plot.layout_shown
            and subject.same_parameter(self._pictured),
        )
        if self._pipeline.is_current and self._pipeline.shown is not None:
            self._pictured = subject
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
        self._picture_or_reason.setCurrentWidget(self._plot)
        tile_grid, painted = rendered.tile_grid, rendered.painted
        has_overview = self._pipeline.has_overview(rendered)
        self._plot.whole.setVisible(has_overview)
        if tile_grid.layout != self._plot.layout_shown or not subject.same_parameter(
            self._pictured
        ):
            self._show_layout(subject, tile_grid.layout)
        self._heads.show(subject, tile_grid.layout)
        self._fit_colours(rendered)
        self._draw(subject, rendered)
        self._plot.show_undrawn(on=not (rendered.is_complete or has_overview))
        self._share.setText(
            ""
            if rendered.is_complete
            else tr("{share} % drawn", share=math.floor(100 * rendered.share))
        )
        self._plot.show_marks(painted.marks)
        self._texts.write(self._painter(subject), rendered)
        self._elements.update()
        if rendered.is_complete:
            self._background_timer.start()

    def _fit_colours(self, rendered: RenderedView) -> bool:
        """Fit the colours to the visible part of a picture; return whether they have changed."""
        tile_grid, sight = rendered.tile_grid, self._plot.frame_of(rendered.tile_grid.layout)
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
        return self.content.fit_colours(visible, tile_grid.cell, self.colours())

    def _pixels(self, picture: Pixels, cell: tuple[int, int]) -> Pixels:
        return self.content.pixels(picture, cell, self.colours())

    def _draw(self, subject: Subject, rendered: RenderedView) -> None:
        """Show the images and the legend of a picture in the current colours."""
        tile_grid = rendered.tile_grid
        if tile_grid.is_whole and rendered.is_complete:
            self._show_overview(rendered)
            self._plot.part.hide()
        else:
            if self._overview is not None and self._pipeline.has_overview(rendered):
                self._show_overview(self._overview)
            pixels = self._pixels(rendered.painted.pixels, tile_grid.cell)
            self._plot.show_part(pixels, tile_grid.rows, tile_grid.columns)
        self._legend.setText(self.content.legend(subject, self.colours(), rendered))
        self.content.update_bar(subject, self.colours())

    def _show_overview(self, overview: RenderedView) -> None:
        self._overview = overview
        self._plot.show_whole(self._pixels(overview.painted.pixels, overview.tile_grid.cell))

    def _repaint(self) -> None:
        """Show the picture on the screen in other colours."""
        subject, shown = self._pictured, self._pipeline.shown
        if subject is not None and shown is not None:
            self._fit_colours(shown)
            self._draw(subject, shown)
            self._texts.forget()
            self._texts.write(self._painter(subject), shown)
            self.pictured.emit()

    def _show_layout(self, subject: Subject, layout: ParameterLayout) -> None:
        """Show another parameter, or another layout of it."""
        previous = self._plot.layout_shown
        if previous is None or extent(layout) != extent(previous):
            self._elements.forget_cursor()
        self._plot.take(layout)
        names = dim_names_of(self._workbench, subject)
        labels = layout_labels(names, layout, self._chooser.dims)
        for side, text, (scale, end) in zip(
            ("left", "bottom"), labels, axis_scales(layout), strict=True
        ):
            axis = self._plot.plotItem.getAxis(side)
            assert isinstance(axis, IndexAxis)
            axis.end = end
            axis.setScale(scale)
            self._plot.label(side, text)
        self._profiles.clear()

    def _show_message(self, message: str) -> None:
        """Show a message in place of the picture."""
        self._pipeline.shown = None
        super()._show_message(message)

    def _complete_picture(self) -> None:
        """Compute what belongs to the picture on the screen: its profiles and its overview."""
        if self.subject is None or not self._pipeline.is_current:
            return  # a newer picture is being rendered; this is called again after it
        layout, painter = self._plot.layout_shown, self._painter(self.subject)
        if layout is not None and not painter.is_part:
            self._profiles.request(painter, layout, self.content.profile_titles(self.subject))
        if layout is not None:
            self._heads.request()
        if not painter.is_part:
            self._pipeline.request_overview(painter)

    def _set_square_cells(self, on: bool) -> None:
        self._viewport.keep_square_cells(on=on)
        self._plot.set_square_cells(on=on)

    def _moved(self) -> None:
        if not self._settle_timer.isActive():
            self._settle_timer.start()

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
        self._pipeline.forget_pictures()
        self._texts.forget()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Update what another view may have changed: square cells, and the pinned element."""
        super().showEvent(event)
        if self._square.isChecked() != self._viewport.square_cells:
            self._square.setChecked(self._viewport.square_cells)
            self._plot.set_square_cells(on=self._viewport.square_cells)
        self._elements.update()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timers."""
        super().hideEvent(event)
        self._elements.stop()
        self._settle_timer.stop()
        self._background_timer.stop()
