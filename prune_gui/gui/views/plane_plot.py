"""A picture of a plane of entries that can be zoomed and moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from prune_gui.audit.plane import Plane
from prune_gui.gui.theme import Colours
from prune_gui.gui.views.axes import IndexAxis
from prune_gui.gui.views.mask_picture import Frame, frame, grid
from prune_gui.gui.views.mask_view import GRID_FROM, MARGIN, PAN, ZOOM
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.views.view import SETTLE


class PlanePlot(Plot):
    """Shows pixels over a plane. The wheel zooms at the cursor, dragging and the arrows move.

    Signals:
        settled: another part is in sight, for a moment already.
        pointed: (cell) the row and the column under the cursor, or None.
    """

    settled = Signal()
    pointed = Signal(object)

    def __init__(self) -> None:
        super().__init__({"left": IndexAxis("left"), "bottom": IndexAxis("bottom")})
        self.plane: Plane | None = None
        self._labels = "", ""
        self.view.invertY(True)
        # Under the part in sight lies the whole plane, if it is known: one may move over it.
        self._whole, self._part = (pg.ImageItem(axisOrder="row-major") for _ in range(2))
        self._grid = pg.PlotCurveItem(connect="pairs")
        self._mark = pg.PlotCurveItem()
        for item in (self._whole, self._part, self._grid, self._mark):
            self.addItem(item, ignoreBounds=True)
        self._settling = QTimer(self, singleShot=True, interval=SETTLE)
        self._settling.timeout.connect(self.settled)
        self.view.sigRangeChanged.connect(self._moved)
        self.view.sigResized.connect(self._moved)
        self.view.sigResized.connect(self._label_axes)
        self.scene().sigMouseMoved.connect(self._point_at)
        self.left.connect(lambda: self.pointed.emit(None))
        for key, across, down in (
            ("Left", -PAN, 0.0),
            ("Right", PAN, 0.0),
            ("Up", 0.0, -PAN),
            ("Down", 0.0, PAN),
        ):
            shortcut(key, partial(self.pan, across, down), self)

    def fit(self) -> None:
        """Show the whole plane."""
        if self.plane is not None:
            self.setRange(fitted(self.plane), padding=0)

    def one_to_one(self) -> None:
        """Show one entry per pixel, around the same middle."""
        size = self.view.rect().size()
        shown = QRectF(QPointF(), size / self.devicePixelRatioF())
        shown.moveCenter(self.viewRect().center())
        self.setRange(shown, padding=0)

    def zoom(self, factor: float) -> None:
        """Show more entries (a factor above 1) or fewer, around the same middle."""
        self.view.scaleBy((factor, factor))

    def pan(self, across: float, down: float) -> None:
        """Move by shares of what is in sight."""
        shown = self.viewRect()
        self.view.translateBy((across * shown.width(), down * shown.height()))

    def frame_of(self, plane: Plane) -> Frame:
        """Return what to draw: what is in sight, or all of a plane that was not on the screen."""
        known = self.plane is not None and extent(plane) == extent(self.plane)
        shown = self.viewRect() if known else fitted(plane)
        ratio = self.devicePixelRatioF()
        size = self.view.rect()
        return frame(
            plane,
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            (
                shown.width() / max(1.0, size.width() * ratio),
                shown.height() / max(1.0, size.height() * ratio),
            ),
        )

    def show_plane(self, plane: Plane, labels: tuple[str, str]) -> None:
        """Put another plane on the screen; the part in sight stays if it is as large.

        Args:
            plane: how a parameter is laid flat.
            labels: what runs down, and what runs across.
        """
        before, self.plane = self.plane, plane
        self._whole.hide()
        if before is None or extent(before) != extent(plane):
            self.view.setLimits(
                minXRange=2,
                minYRange=2,
                maxXRange=2 * plane.columns + 8000,
                maxYRange=2 * plane.rows + 8000,
            )
            self.fit()
        self.plotItem.getAxis("left").end = plane.rows
        self.plotItem.getAxis("bottom").end = plane.columns
        self._labels = labels
        self._label_axes()

    def show_pixels(self, drawn: Frame, pixels: NDArray[np.uint8], *, same: bool) -> None:
        """Show the pixels of a frame.

        Args:
            drawn: of the plane that is shown.
            pixels: (cells down, cells across, 4), red, green, blue, opaque.
            same: whether they show the same as those before, of another part.
        """
        plane = drawn.plane
        all_of_it = (len(drawn.rows), len(drawn.columns)) == (plane.rows, plane.columns)
        if not same:
            self._whole.hide()
        item = self._whole if all_of_it else self._part
        item.setImage(pixels, autoLevels=False, levels=None)
        item.setRect(extent(plane, drawn.rows, drawn.columns))
        item.show()
        self._part.setVisible(not all_of_it)

    def mark(self, cell: tuple[int, int] | None) -> None:
        """Draw a frame around an entry."""
        if cell is None:
            self._mark.setData()
            return
        x, y = cell[1] + np.array([-0.5, 0.5]), cell[0] + np.array([-0.5, 0.5])
        self._mark.setData(x[[0, 1, 1, 0, 0]], y[[0, 0, 1, 1, 0]])

    def recolour(self, colours: Colours) -> None:
        """Take other colours; pixels stay as they were made."""
        super().recolour(colours)
        self._grid.setPen(pen(colours.background))
        self._mark.setPen(pen(colours.foreground, width=2.0))

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settling.stop()

    def _moved(self) -> None:
        self._draw_grid()
        if self.isVisible() and not self._settling.isActive():
            self._settling.start()

    def _label_axes(self) -> None:
        """Say what runs down and across, as far as there is room."""
        size, metrics = self.view.rect(), self.fontMetrics()
        for side, text, room in zip(
            ("left", "bottom"), self._labels, (size.height(), size.width()), strict=True
        ):
            self.label(side, metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(room)))

    def _draw_grid(self) -> None:
        """Draw lines between the entries in sight if these are large enough."""
        if self.plane is None:
            return
        size, sight = self.view.rect(), self.viewRect()
        shown = sight & extent(self.plane)
        lines = grid(
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            across=size.width() > GRID_FROM * sight.width(),
            down=size.height() > GRID_FROM * sight.height(),
        )
        self._grid.setData(*lines)

    def _point_at(self, scene: QPointF) -> None:
        if self.plane is None:
            return
        place = self.view.mapSceneToView(scene)
        row, column = round(place.y()), round(place.x())
        inside = (
            self.view.sceneBoundingRect().contains(scene)
            and 0 <= row < self.plane.rows
            and 0 <= column < self.plane.columns
        )
        self.pointed.emit((row, column) if inside else None)


def shortcut(key: str, act: Callable[[], None], where: QWidget) -> None:
    """Let a key act while the keyboard is with a widget or one in it."""
    made = QShortcut(QKeySequence(key), where)
    made.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.activated.connect(act)


def fitted(plane: Plane) -> QRectF:
    """Return what to show so that a whole plane is in sight, with a little room around it."""
    room = plane.columns * MARGIN, plane.rows * MARGIN
    return extent(plane).adjusted(-room[0], -room[1], *room)


def extent(plane: Plane, rows: range | None = None, columns: range | None = None) -> QRectF:
    """Return the rectangle that entries cover: each reaches half a unit around its index."""
    rows, columns = rows or range(plane.rows), columns or range(plane.columns)
    return QRectF(columns.start - 0.5, rows.start - 0.5, len(columns), len(rows))


ZOOM_KEYS: Final = (("+", 1 / ZOOM), ("=", 1 / ZOOM), ("-", ZOOM))
