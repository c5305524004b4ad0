"""A picture that pans and zooms like a map, and what is drawn over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QPainter, QShowEvent, QStaticText
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from prune_gui.gui.views.axes import IndexAxis
from prune_gui.gui.views.maps.margins import Margins, Titles
from prune_gui.gui.views.maps.mask_picture import Frame, frame, grid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.widgets.theme import Colours

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.gui.views.maps.tiles import Pixels, Places

GRID_FROM = 12
"""Pixels per entry from which lines tell entries apart."""
TEXT_FROM = (46, 17)
"""Width and height in pixels of an entry from which its number is written in it."""
MARK_BELOW = 8
"""Pixels per cell below which a lone cell is hard to see."""
MARK = 13
"""Diameter of a mark in pixels."""
STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
"""Rows and columns to the next entry."""
MARGIN = 0.01
"""Room on each side of a picture that is fitted, as a share of it."""

_BLACK, _WHITE = QColor("#101010"), QColor("#f6f6f6")


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Texts in the entries of a rectangle.

    Attributes:
        rows: of the picture.
        columns: likewise.
        texts: (rows, columns); "" where there is no entry.
        bright: boolean, likewise, where the picture is so light that black is read best on it.
    """

    rows: range
    columns: range
    texts: NDArray[np.str_]
    bright: NDArray[np.bool_]


class MapCanvas(Plot):
    """Shows images of a picture at the places where they belong.

    Args:
        viewport: told of what is in sight while the canvas is visible, and followed when it
            becomes that.

    Signals:
        pointed: (row, column) or None: the cursor is there.
        clicked: likewise, with the left button or by keys.
        escaped: the key was pressed.
    """

    pointed = Signal(object)
    clicked = Signal(object)
    escaped = Signal()

    def __init__(self, viewport: Viewport) -> None:
        super().__init__({"left": IndexAxis("left"), "bottom": IndexAxis("bottom")})
        self._whereabouts = viewport
        self.layout_shown: ParameterLayout | None = None
        self.view.invertY(True)
        # Under the part in sight lies the whole picture, if it is known: one may move over it.
        self.whole, self.part = (pg.ImageItem(axisOrder="row-major") for _ in range(2))
        self._undrawn = _Hatching()
        self._grid = pg.PlotCurveItem(connect="pairs")
        self._texts = _Texts()
        self._marks = pg.ScatterPlotItem(symbol="o", size=MARK, brush=None)
        self._pin = pg.PlotCurveItem()
        self._pin_ring = pg.ScatterPlotItem(symbol="s", size=MARK, brush=None)
        self._pinned: tuple[int, int] | None = None
        for item in (
            self._undrawn,
            self.whole,
            self.part,
            self._grid,
            self._texts,
            self._marks,
            self._pin,
            self._pin_ring,
        ):
            self.addItem(item, ignoreBounds=True)
        self.margins = Margins(self)
        self._places: Places = np.zeros((0, 2))
        self.scene().sigMouseMoved.connect(lambda at: self.pointed.emit(self._place(at)))
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self.pointed.emit(None))
        self.view.sigRangeChanged.connect(self._overlay)
        self.view.sigRangeChanged.connect(self._say_where)
        self.view.sigResized.connect(self._overlay)

    @property
    def sight(self) -> QRectF:
        """What is in sight, in rows and columns."""
        shown: QRectF = self.viewRect()
        return shown

    @property
    def pixel(self) -> tuple[float, float]:
        """The width and the height of a pixel on the screen, in columns and rows."""
        size, ratio = self.view.rect(), self.devicePixelRatioF()
        return (
            self.sight.width() / max(1.0, size.width() * ratio),
            self.sight.height() / max(1.0, size.height() * ratio),
        )

    def frame_of(self, layout: ParameterLayout) -> Frame:
        """Return what to draw: what is looked at, or all of a picture that was not."""
        shown, (across, down) = self._sight_of(layout), self.pixel
        return frame(
            layout,
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            (
                across * shown.width() / self.sight.width(),
                down * shown.height() / self.sight.height(),
            ),
        )

    def take(self, layout: ParameterLayout) -> None:
        """Get ready for a picture; keep what is in sight if it has the same rows and columns."""
        sight, before = self._sight_of(layout), self.layout_shown
        self.layout_shown = layout
        if before is None or extent(before) != extent(layout):
            self.view.setLimits(
                minXRange=2,
                minYRange=2,
                maxXRange=2 * layout.columns + 8000,
                maxYRange=2 * layout.rows + 8000,
            )
            self.setRange(sight, padding=0)
            self._say_where()

    def _sight_of(self, layout: ParameterLayout) -> QRectF:
        """Return what to show of a picture."""
        before, place = self.layout_shown, self._whereabouts.within(layout)
        if place is not None:
            return place.sight
        known = before is not None and extent(layout) == extent(before)
        return self.sight if known else fitted(layout)

    def _say_where(self) -> None:
        if self.layout_shown is not None and self.isVisible():
            self._whereabouts.look(self.layout_shown, self.sight)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look where others have looked meanwhile."""
        super().showEvent(event)
        if self.layout_shown is not None:
            self.setRange(self._sight_of(self.layout_shown), padding=0)

    def fit(self) -> None:
        """Show the whole picture."""
        if self.layout_shown is not None:
            self.setRange(fitted(self.layout_shown), padding=0)

    def one_to_one(self) -> None:
        """Show one entry per pixel, around the same middle."""
        shown = QRectF(QPointF(), self.view.rect().size() / self.devicePixelRatioF())
        shown.moveCenter(self.sight.center())
        self.setRange(shown, padding=0)

    def zoom(self, factor: float) -> None:
        """Show more entries (a factor above 1) or fewer, around the same middle."""
        self.view.scaleBy((factor, factor))

    def pan(self, across: float, down: float) -> None:
        """Move by shares of what is in sight."""
        shown = self.sight
        self.view.translateBy((across * shown.width(), down * shown.height()))

    def show_whole(self, pixels: Pixels) -> None:
        """Show the whole picture, on which the part in sight lies."""
        assert self.layout_shown is not None
        _show(self.whole, pixels, extent(self.layout_shown))

    def show_part(self, pixels: Pixels, rows: range, columns: range) -> None:
        """Show a part of the picture."""
        assert self.layout_shown is not None
        _show(self.part, pixels, extent(self.layout_shown, rows, columns))

    def show_undrawn(self, *, on: bool) -> None:
        """Hatch what no image covers: it is still to be drawn."""
        if on and self.layout_shown is not None:
            self._undrawn.set_extent(extent(self.layout_shown))
        self._undrawn.setVisible(on)

    def show_marks(self, places: Places) -> None:
        """Put a ring around each of a few cells, given the row and the column of their middle."""
        self._places = places
        self._overlay()

    def write(self, written: Written | None) -> None:
        """Write texts into entries, where these are large enough."""
        self._texts.set_texts(written)

    @property
    def readable(self) -> bool:
        """Whether the entries are large enough for texts."""
        size, sight = self.view.rect(), self.sight
        return bool(
            size.width() >= TEXT_FROM[0] * sight.width()
            and size.height() >= TEXT_FROM[1] * sight.height()
        )

    def pin(self, place: tuple[int, int] | None) -> None:
        """Put a frame around an entry, or around none."""
        self._pinned = place
        self._overlay()

    def show_profiles(self, profiles: Profiles, titles: Titles) -> None:
        """Show profiles along both axes."""
        self.margins.show_profiles(profiles, titles)

    def clear_profiles(self) -> None:
        """Leave the places of the profiles empty."""
        self.margins.clear()

    def recolour(self, colours: Colours) -> None:
        """Take other colours."""
        super().recolour(colours)
        self._undrawn.brush = QBrush(QColor(colours.grid), Qt.BrushStyle.BDiagPattern)
        self._grid.setPen(pen(colours.background))
        self._marks.setPen(pen(colours.foreground, width=1.5))
        for item in (self._pin, self._pin_ring):
            item.setPen(pen(colours.draft, width=2.5))
        self.margins.recolour(colours)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Click by Space on the entry that is pinned or in the middle, by Shift+arrow beside it."""
        key, shift = Qt.Key(event.key()), Qt.KeyboardModifier.ShiftModifier
        if key == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif key == Qt.Key.Key_Space:
            middle = self.view.mapViewToScene(self.sight.center())
            self.clicked.emit(self._pinned or self._place(middle))
        elif key in STEPS and event.modifiers() & shift and self._pinned is not None:
            self._click_beside(self._pinned, STEPS[key])
        else:
            super().keyPressEvent(event)

    def _click_beside(self, place: tuple[int, int], step: tuple[int, int]) -> None:
        row, column = place[0] + step[0], place[1] + step[1]
        if self.layout_shown is not None and self.layout_shown.holds(row, column):
            self.clicked.emit((row, column))
            shown, entry = self.sight, QRectF(column - 0.5, row - 0.5, 1, 1)
            if not shown.contains(entry):
                shown.translate(step[1] * shown.width() / 2, step[0] * shown.height() / 2)
                self.setRange(shown, padding=0)

    def _click(self, event: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not event.double():
            self.setFocus()
            self.clicked.emit(self._place(event.scenePos()))

    def _place(self, scene: QPointF) -> tuple[int, int] | None:
        """Return the row and the column of the entry at a place of the screen."""
        at = self.view.mapSceneToView(scene)
        row, column = round(at.y()), round(at.x())
        layout = self.layout_shown
        inside = self.view.sceneBoundingRect().contains(scene)
        return (row, column) if inside and layout and layout.holds(row, column) else None

    def _overlay(self) -> None:
        """Draw lines between large entries, and marks at small ones."""
        if self.layout_shown is None:
            return
        size, sight = self.view.rect(), self.sight
        shown = sight & extent(self.layout_shown)
        lines = grid(
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            across=size.width() > GRID_FROM * sight.width(),
            down=size.height() > GRID_FROM * sight.height(),
        )
        self._grid.setData(*lines)
        self._texts.setVisible(self.readable)
        small = min(size.width() / sight.width(), size.height() / sight.height()) < MARK_BELOW
        places = self._places if small else self._places[:0]
        self._marks.setData(x=places[:, 1], y=places[:, 0])
        pinned = [self._pinned] if self._pinned else []
        self._pin_ring.setData(
            x=[column for _, column in pinned if small], y=[row for row, _ in pinned if small]
        )
        corners = [(-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5), (-0.5, -0.5)]
        frame = [(row + y, column + x) for row, column in pinned for y, x in corners if not small]
        self._pin.setData(x=[x for _, x in frame], y=[y for y, _ in frame])
        self.margins.draw()


class _Hatching(pg.GraphicsObject):  # type: ignore[misc]
    """A rectangle filled with lines that are as far apart at any zoom."""

    def __init__(self) -> None:
        super().__init__()
        self.brush = QBrush()
        self._extent = QRectF()
        self.hide()

    def set_extent(self, where: QRectF) -> None:
        self.prepareGeometryChange()
        self._extent = where

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self._extent

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        onto = painter.worldTransform()
        painter.resetTransform()
        painter.fillRect(onto.mapRect(self._extent), self.brush)


class _Texts(pg.GraphicsObject):  # type: ignore[misc]
    """Texts within entries, black or white, whichever is read better on the picture."""

    def __init__(self) -> None:
        super().__init__()
        self._written: Written | None = None
        self._laid_out: dict[str, QStaticText] = {}

    def set_texts(self, written: Written | None) -> None:
        self.prepareGeometryChange()
        self._written = written
        unique = np.unique(written.texts).tolist() if written is not None else []
        self._laid_out = {text: self._laid_out.get(text) or _laid_out(text) for text in unique}
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        if self._written is None:
            return QRectF()
        return _around(self._written.rows, self._written.columns)

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        if self._written is None:
            return
        onto = painter.worldTransform()
        painter.resetTransform()
        for (i, j), text in np.ndenumerate(self._written.texts):
            row, column = self._written.rows[i], self._written.columns[j]
            place = onto.mapRect(QRectF(column - 0.5, row - 0.5, 1, 1))
            painter.setPen(_BLACK if self._written.bright[i, j] else _WHITE)
            laid_out = self._laid_out[text]
            size = laid_out.size()
            corner = place.center() - QPointF(size.width() / 2, size.height() / 2)
            painter.drawStaticText(corner, laid_out)


def _laid_out(text: str) -> QStaticText:
    """Return a text that is drawn fast, as often as one likes."""
    made = QStaticText(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    return made


def fitted(layout: ParameterLayout) -> QRectF:
    """Return what to show so that a whole picture is in sight, with a little room around it."""
    room = layout.columns * MARGIN, layout.rows * MARGIN
    return extent(layout).adjusted(-room[0], -room[1], *room)


def extent(
    layout: ParameterLayout, rows: range | None = None, columns: range | None = None
) -> QRectF:
    """Return the rectangle that entries cover: each reaches half a unit around its index."""
    return _around(rows or range(layout.rows), columns or range(layout.columns))


def _around(rows: range, columns: range) -> QRectF:
    return QRectF(columns.start - 0.5, rows.start - 0.5, len(columns), len(rows))


def _show(item: pg.ImageItem, pixels: Pixels, where: QRectF) -> None:
    item.setImage(pixels, autoLevels=False, levels=None)
    item.setRect(where)
    item.show()
