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

from prune_gui.gui.views.axes import IndexAxis, axis_scales, dim_names, layout_labels
from prune_gui.gui.views.maps.canvas import MapCanvas, Written, extent
from prune_gui.gui.views.maps.cell_labels import Texts
from prune_gui.gui.views.maps.element_text import describe, describe_pinned
from prune_gui.gui.views.maps.map_navigation import pan_by_arrows, zoom_buttons
from prune_gui.gui.views.maps.slice_chooser import PlaneChooser
from prune_gui.gui.views.maps.tile_render import Painter, RenderedView, drawn_by
from prune_gui.gui.views.maps.tiles import Place, Tile, TileGrid, Tiles
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.subject import Subject, kind_around
from prune_gui.gui.views.view import SETTLE, View
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.audit.statistics.element import Element
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe.explanation import Explanation

QUIET = 200
"""Milliseconds without a change after which the whole picture is made beside the part in sight."""
COARSE = 700
"""Cells along each side of that, at most."""
PIECE = 0.1
"""Seconds after which what there is of a picture is shown, and the rest made afterwards."""
BRIGHT = 140
"""Lightness of a colour from which text on it is black."""


class MapView(View):
    """Looks at a parameter through a painter.

    The wheel zooms at the cursor, dragging moves. F fits, 1 shows an entry per pixel, plus and
    minus zoom, the arrows move. A click pins an entry, Escape lets go of it.

    Args:
        workbench: has what there is to look at.
        controls: above the picture, beside those that all such views have.
        viewport: shared with other views of a parameter.
    """

    def __init__(
        self,
        workbench: Workbench,
        controls: Sequence[QWidget],
        viewport: Viewport,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(workbench, parent)
        self._whereabouts = viewport
        self._tiles = Tiles()
        self._layout: ParameterLayout | None = None
        self._wanted: tuple[Hashable, TileGrid] | None = None
        self._drawn: RenderedView | None = None
        self._written: tuple[Hashable, range, range] | None = None
        self._whole_of: tuple[Hashable, ParameterLayout] | None = None
        self._cursor: tuple[int, int] | None = None
        self._chooser = PlaneChooser(viewport)
        self._chooser.changed.connect(self.refresh)
        self._plot = MapCanvas(viewport)
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setMargin(24)
        self._picture_or_reason = QStackedWidget()
        self._picture_or_reason.addWidget(self._plot)
        self._picture_or_reason.addWidget(self._reason)
        self._entry, self._pin = (
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
            ],  # the others stay when it comes and goes
            self._picture_or_reason,
            [self._entry, self._share],
        )
        below = self._content.layout()
        assert isinstance(below, QVBoxLayout)
        place = below.indexOf(self._picture_or_reason)
        below.insertWidget(place + 1, self._pin)
        below.insertWidget(place, self._chooser.sliders)
        pan_by_arrows(self._plot)
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self.refresh)
        self._quiet = QTimer(self, singleShot=True, interval=QUIET)
        self._quiet.timeout.connect(self._complete_picture)
        self._plot.view.sigRangeChanged.connect(self._moved)
        self._plot.view.sigResized.connect(self._moved)
        self._plot.pointed.connect(self._set_cursor)
        self._plot.clicked.connect(self._set_pin)
        self._plot.escaped.connect(lambda: self._set_pin(None))
        workbench.opened.connect(self._tiles.clear)
        self._recolour()

    @abstractmethod
    def _painter(self, subject: Subject) -> Painter:
        """Return what paints the chosen parameter as the controls say."""

    @abstractmethod
    def _describe_colours(self, subject: Subject, drawn: RenderedView) -> None:
        """Show the legend of a picture."""

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is a reason for none."""
        shown = self._picture_or_reason.currentWidget() is self._plot
        return self._plot if shown and super().picture() is not None else None

    @property
    def held(self) -> int:
        """How many bytes of the picture are kept, in case they are looked at again."""
        return self._tiles.nbytes

    def limit_memory(self, nbytes: int) -> None:
        """Keep no more bytes of the picture than these."""
        self._tiles.limit(nbytes)

    def fit(self) -> None:
        """Show the whole picture."""
        self._plot.fit()

    def one_to_one(self) -> None:
        """Show one entry per pixel, around the same middle."""
        self._plot.one_to_one()

    def zoom(self, factor: float) -> None:
        """Show more entries (a factor above 1) or fewer, around the same middle."""
        self._plot.zoom(factor)

    def pan(self, across: float, down: float) -> None:
        """Move by shares of what is in sight."""
        self._plot.pan(across, down)

    def _look(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        layout, painter = self._chooser.layout_chosen, self._painter(subject)
        mosaic = TileGrid.over(self._plot.frame_of(layout))
        self._wanted = (painter.key, mosaic)
        if self._drawn is not None and self._is_shown():
            self._pictured = subject
            self._write(subject, self._drawn)
            return
        known = self._tiles.of(painter.key, mosaic)
        if len(known) == len(mosaic.places):
            drawn = RenderedView.of(painter.key, mosaic, known)
            self._arrive(subject, drawn, partial(self._show, subject))
        else:
            self._draw(subject, painter, mosaic, {})

    def _draw(
        self, subject: Subject, painter: Painter, mosaic: TileGrid, made: dict[Place, Tile]
    ) -> None:
        """Have the engine make the tiles that are missing, and show them.

        Piece by piece, so that there soon is something to see; but all at once if there is a
        picture of the same parameter, which stays until then: it is not to flicker while a step is
        changed.
        """
        before = self._drawn
        changed = before is not None and before.key != painter.key
        stays = changed and mosaic.layout == self._layout and subject.same_parameter(self._pictured)

        def arrived(drawn: RenderedView | str) -> None:
            if self._is_shown():
                return  # by a way that was shorter
            wanted = self._wanted == (painter.key, mosaic)
            if wanted and isinstance(drawn, RenderedView) and not drawn.is_complete:
                self._draw(subject, painter, mosaic, drawn.tiles)
            self._arrive(subject, drawn, partial(self._show, subject))

        patience = None if stays else PIECE
        self.ticket = self._ask(
            self.lane,
            subject,
            lambda monitor: drawn_by(painter, mosaic, self._tiles, made, monitor, patience),
            arrived,
        )

    def _is_shown(self) -> bool:
        """Tell whether all that is wanted is on the screen."""
        shown, wanted = self._drawn, self._wanted
        seen = self._pages.currentWidget() is self._content
        return seen and shown is not None and wanted is not None and shown.shows(*wanted)

    def _show(self, subject: Subject, drawn: RenderedView | str) -> None:
        if isinstance(drawn, str):
            self._drawn = None
            self._reason.setText(drawn)
            self._share.clear()
            self._picture_or_reason.setCurrentWidget(self._reason)
            self._legend.clear()
            return
        self._picture_or_reason.setCurrentWidget(self._plot)
        mosaic, painted = drawn.mosaic, drawn.painted
        beneath = self._whole_of == (drawn.key, mosaic.layout)
        self._plot.whole.setVisible(beneath)
        if mosaic.layout != self._layout or not subject.same_parameter(self._pictured):
            self._take(subject, mosaic.layout)
        if mosaic.is_whole and drawn.is_complete:
            self._plot.show_whole(painted.pixels)
            self._plot.part.hide()
            self._whole_of = (drawn.key, mosaic.layout)
        else:
            self._plot.show_part(painted.pixels, mosaic.rows, mosaic.columns)
        self._plot.show_undrawn(on=not (drawn.is_complete or beneath))
        self._share.setText(
            "" if drawn.is_complete else tr("{share} % drawn", share=math.floor(100 * drawn.share))
        )
        self._drawn = drawn
        self._plot.show_marks(painted.marks)
        self._describe_colours(subject, drawn)
        self._write(subject, drawn)
        self._ask_about_entry()
        self._ask_about_pin()
        if drawn.is_complete:
            self._quiet.start()

    def _take(self, subject: Subject, layout: ParameterLayout) -> None:
        """Put another parameter, or another layout of it, on the screen."""
        if self._layout is None or extent(layout) != extent(self._layout):
            self._cursor = None
        self._layout = layout
        self._plot.take(layout)
        names = dim_names(kind_around(self._workbench, subject), subject.name, subject.info.shape)
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
        """Make the whole picture too, so that there is something wherever one moves."""
        subject, layout = self.subject, self._layout
        if subject is None or layout is None or self._drawn is None:
            return
        if not self._is_shown():
            return  # a newer picture is on its way, and what belongs to it follows it
        self._look_beside(subject, layout)
        painter, whole = self._painter(subject), TileGrid.whole(self._drawn.mosaic, COARSE)
        if self._whole_of != (painter.key, layout):
            self._draw_beneath(subject, painter, whole, {})

    def _draw_beneath(
        self, subject: Subject, painter: Painter, whole: TileGrid, made: dict[Place, Tile]
    ) -> None:
        """Have the engine make the whole picture; other pictures may go between its pieces."""

        def show(drawn: RenderedView | str) -> None:
            above = self._drawn
            if isinstance(drawn, str) or above is None:
                return
            if (above.key, above.mosaic.layout) != (drawn.key, whole.layout):
                return  # it would lie under another picture
            if drawn.is_complete:
                self._plot.show_whole(drawn.painted.pixels)
                self._whole_of = (drawn.key, whole.layout)
            else:
                self._draw_beneath(subject, painter, whole, drawn.tiles)

        self._ask(
            f"{self.lane}.whole",
            subject,
            lambda monitor: drawn_by(painter, whole, self._tiles, made, monitor, PIECE),
            show,
        )

    def _look_beside(self, subject: Subject, layout: ParameterLayout) -> None:
        """Set out to make what goes with the picture, if anything does."""

    def _write(self, subject: Subject, drawn: RenderedView) -> None:
        """Write into the entries in sight if they are large enough."""
        mosaic = drawn.mosaic
        if not (drawn.is_complete and self._plot.readable and mosaic.cell == (1, 1)):
            self._written = None
            self._plot.write(None)
            return
        sight = self._plot.frame_of(mosaic.layout)
        rows, columns, painter = sight.rows, sight.columns, self._painter(subject)
        wanted = (drawn.key, rows, columns)
        if wanted == self._written:
            return
        self._written = wanted
        top, left = rows.start - mosaic.rows.start, columns.start - mosaic.columns.start
        pixels = drawn.painted.pixels[top : top + len(rows), left : left + len(columns), :3]
        bright = pixels @ np.array([0.299, 0.587, 0.114]) > BRIGHT

        def show(texts: Texts) -> None:
            if self._written == wanted:
                self._plot.write(Written(rows, columns, texts, bright))

        def read(_: Monitor) -> Texts:
            return painter.texts(mosaic.layout, rows, columns)

        self._ask(f"{self.lane}.texts", subject, read, show)

    def _moved(self) -> None:
        if not self._settled.isActive():
            self._settled.start()

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            self._ask_about_entry()

    def _ask_about_entry(self) -> None:
        subject, layout, cursor = self.subject, self._layout, self._cursor
        if subject is None or layout is None or cursor is None or not _about(layout, subject):
            self._entry.say("")
            return

        def read(_: Monitor) -> Element:
            from prune_gui.audit.statistics.element import element_at

            return element_at(subject.resolution, subject.name, layout, *cursor)

        def tell(weight: Element) -> None:
            if cursor == self._cursor:
                self._entry.say(describe(subject, weight))

        self._ask(f"{self.lane}.entry", subject, read, tell)

    def _set_pin(self, place: tuple[int, int] | None) -> None:
        self._whereabouts.pin(None if place == self._pinned else place)
        self._ask_about_pin()

    @property
    def _pinned(self) -> tuple[int, int] | None:
        place = self._whereabouts.within(self._layout) if self._layout is not None else None
        return place.pinned if place is not None else None

    def _ask_about_pin(self) -> None:
        subject, layout, pinned = self.subject, self._layout, self._pinned
        self._plot.pin(pinned)
        self._pin.setVisible(pinned is not None)
        if subject is None or layout is None or pinned is None or not _about(layout, subject):
            return
        index = layout.index(*pinned)

        def tell(found: Explanation) -> None:
            if pinned == self._pinned:
                self._pin.say(describe_pinned(subject, found))

        self._ask(
            f"{self.lane}.pin",
            subject,
            lambda _: subject.resolution.explain(subject.name, index),
            tell,
        )

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
        self._drawn = self._whole_of = self._written = None

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look where others have looked meanwhile."""
        super().showEvent(event)
        self._ask_about_pin()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settled.stop()
        self._quiet.stop()


def _about(layout: ParameterLayout, subject: Subject) -> bool:
    return layout.shape == subject.info.shape
