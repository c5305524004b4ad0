"""The mask of a parameter of any size: a density from afar, single entries up close."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from prune_gui.audit.plane import Plane
from prune_gui.gui.views.axes import IndexAxis, plane_labels
from prune_gui.gui.views.mask_picture import Frame, draw, frame, grid
from prune_gui.gui.views.plane_chooser import PlaneChooser
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.views.view import SETTLE, View
from prune_gui.recipe.codes import IN_FILE, KEPT

if TYPE_CHECKING:
    from prune_gui.audit.entry import Weight
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

GRID_FROM = 12
"""Pixels per entry from which lines tell entries apart."""
MARGIN = 0.01
"""Room on each side of a plane that is fitted, as a share of it."""
ZOOM = 1.3
PAN = 0.2


class MaskView(View):
    """Which entries are kept, and which step pruned the others.

    The wheel zooms at the cursor, dragging moves. F fits, 1 shows an entry per pixel, plus and
    minus zoom, the arrows move.
    """

    lane = "mask"

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName("Mask")
        self._plane: Plane | None = None
        self._drawn: Frame | None = None
        self._cursor: tuple[int, int] | None = None
        self._chooser = PlaneChooser()
        self._chooser.changed.connect(self.refresh)
        self._plot = Plot({"left": IndexAxis("left"), "bottom": IndexAxis("bottom")})
        self._plot.setAccessibleName("Picture of the mask")
        self._plot.view.invertY(True)
        # Under the part in sight lies the whole plane, if it is known: one may move over it.
        self._whole, self._part = (pg.ImageItem(axisOrder="row-major") for _ in range(2))
        self._grid = pg.PlotCurveItem(connect="pairs")
        for item in (self._whole, self._part, self._grid):
            self._plot.addItem(item, ignoreBounds=True)
        self._entry = QLabel(textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse)
        self._entry.setAccessibleName("Entry under the cursor")
        self._lay_out([self._chooser, *self._buttons()], self._plot, [self._entry])
        self._set_shortcuts()
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self.refresh)
        self._plot.view.sigRangeChanged.connect(self._moved)
        self._plot.view.sigResized.connect(self._moved)
        self._plot.scene().sigMouseMoved.connect(self._point_at)
        self._plot.left.connect(lambda: self._set_cursor(None))
        self._recolour()

    def fit(self) -> None:
        """Show the whole plane."""
        if self._plane is not None:
            self._plot.setRange(_fitted(self._plane), padding=0)

    def one_to_one(self) -> None:
        """Show one entry per pixel, around the same middle."""
        size = self._plot.view.rect().size()
        shown = QRectF(QPointF(), size / self._plot.devicePixelRatioF())
        shown.moveCenter(self._plot.viewRect().center())
        self._plot.setRange(shown, padding=0)

    def zoom(self, factor: float) -> None:
        """Show more entries (a factor above 1) or fewer, around the same middle."""
        self._plot.view.scaleBy((factor, factor))

    def pan(self, across: float, down: float) -> None:
        """Move by shares of what is in sight."""
        shown = self._plot.viewRect()
        self._plot.view.translateBy((across * shown.width(), down * shown.height()))

    def _buttons(self) -> list[QPushButton]:
        made = []
        for text, tip, key, act in (
            ("Fit", "Show the whole parameter (F)", "F", self.fit),
            ("1:1", "Show one entry per pixel (1)", "1", self.one_to_one),
        ):
            made.append(button := QPushButton(text))
            button.setToolTip(tip)
            button.clicked.connect(act)
            self._shortcut(key, act, self)
        return made

    def _set_shortcuts(self) -> None:
        for key, factor in (("+", 1 / ZOOM), ("=", 1 / ZOOM), ("-", ZOOM)):
            self._shortcut(key, partial(self.zoom, factor), self)
        for key, across, down in (
            ("Left", -PAN, 0.0),
            ("Right", PAN, 0.0),
            ("Up", 0.0, -PAN),
            ("Down", 0.0, PAN),
        ):
            self._shortcut(key, partial(self.pan, across, down), self._plot)

    def _shortcut(self, key: str, act: Callable[[], None], where: QWidget) -> None:
        shortcut = QShortcut(QKeySequence(key), where)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(act)

    def _look(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        chosen = self._frame(self._chooser.plane)
        same = self._pictured is not None and self._pictured.resolution is subject.resolution
        if same and chosen == self._drawn:
            return
        colours = self.colours()
        self._picture(
            subject,
            lambda monitor: draw(subject, chosen, colours, monitor),
            lambda pixels: self._show(subject, chosen, pixels),
        )

    def _frame(self, plane: Plane) -> Frame:
        """Return what to draw: what is in sight, or all of a plane that was not on the screen."""
        known = self._plane is not None and _extent(plane) == _extent(self._plane)
        shown = self._plot.viewRect() if known else _fitted(plane)
        ratio = self._plot.devicePixelRatioF()
        size = self._plot.view.rect()
        return frame(
            plane,
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            (
                shown.width() / max(1.0, size.width() * ratio),
                shown.height() / max(1.0, size.height() * ratio),
            ),
        )

    def _show(self, subject: Subject, drawn: Frame, pixels: NDArray[np.uint8]) -> None:
        plane = drawn.plane
        all_of_it = (len(drawn.rows), len(drawn.columns)) == (plane.rows, plane.columns)
        outdated = self._pictured is None or self._pictured.resolution is not subject.resolution
        if plane != self._plane or outdated:
            self._whole.hide()
        if plane != self._plane:
            self._take(subject, plane)
        item = self._whole if all_of_it else self._part
        item.setImage(pixels, autoLevels=False, levels=None)
        item.setRect(_extent(plane, drawn.rows, drawn.columns))
        item.show()
        self._part.setVisible(not all_of_it)
        self._drawn = drawn
        self._legend.show_subject(subject, self.colours())
        self._ask_about_entry()

    def _take(self, subject: Subject, plane: Plane) -> None:
        """Put another plane on the screen."""
        self._cursor = None
        before, self._plane = self._plane, plane
        if before is None or _extent(before) != _extent(plane):
            self._plot.view.setLimits(
                minXRange=2,
                minYRange=2,
                maxXRange=2 * plane.columns + 8000,
                maxYRange=2 * plane.rows + 8000,
            )
            self.fit()
        self._plot.plotItem.getAxis("left").end = plane.rows
        self._plot.plotItem.getAxis("bottom").end = plane.columns
        down, across = plane_labels(subject.name, subject.info.shape, self._chooser.dims)
        self._plot.label("left", down)
        self._plot.label("bottom", across)

    def _moved(self) -> None:
        self._draw_grid()
        if not self._settled.isActive():
            self._settled.start()

    def _draw_grid(self) -> None:
        """Draw lines between the entries in sight if these are large enough."""
        if self._plane is None:
            return
        size, sight = self._plot.view.rect(), self._plot.viewRect()
        shown = sight & _extent(self._plane)
        lines = grid(
            (shown.left(), shown.right()),
            (shown.top(), shown.bottom()),
            across=size.width() > GRID_FROM * sight.width(),
            down=size.height() > GRID_FROM * sight.height(),
        )
        self._grid.setData(*lines)

    def _point_at(self, scene: QPointF) -> None:
        at = self._plot.view.mapSceneToView(scene)
        column, row = round(at.x()), round(at.y())
        plane = self._plane
        inside = (
            plane is not None
            and self._plot.view.sceneBoundingRect().contains(scene)
            and 0 <= row < plane.rows
            and 0 <= column < plane.columns
        )
        self._set_cursor((row, column) if inside else None)

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            self._ask_about_entry()

    def _ask_about_entry(self) -> None:
        subject, plane, cursor = self.subject, self._plane, self._cursor
        if subject is None or plane is None or cursor is None or plane.shape != subject.info.shape:
            self._entry.setText("")
            return

        def read(_: Monitor) -> Weight:
            from prune_gui.audit.entry import weight_at

            return weight_at(
                subject.resolution, subject.name, plane.index(*cursor), plane.flat(*cursor)
            )

        self._ask("mask.entry", subject, read, lambda weight: self._tell(subject, weight, cursor))

    def _tell(self, subject: Subject, weight: Weight, cursor: tuple[int, int]) -> None:
        if cursor == self._cursor:
            self._entry.setText(describe(subject, weight))

    def _recolour(self) -> None:
        colours = self.colours()
        self._plot.recolour(colours)
        self._grid.setPen(pen(colours.background))
        if self._part.isVisible():
            self._whole.hide()
        self._drawn = None

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settled.stop()


def describe(subject: Subject, weight: Weight) -> str:
    """Say what became of an entry: "[3, 17]  0.0125  pruned by step 2: L1 unstructured"."""
    title = subject.title(weight.code)
    fate = title if weight.code in (KEPT, IN_FILE) else f"pruned by {title}"
    return f"[{', '.join(map(str, weight.index))}]   {weight.value:.6g}   {fate}"


def _fitted(plane: Plane) -> QRectF:
    """Return what to show so that a whole plane is in sight, with a little room around it."""
    room = plane.columns * MARGIN, plane.rows * MARGIN
    return _extent(plane).adjusted(-room[0], -room[1], *room)


def _extent(plane: Plane, rows: range | None = None, columns: range | None = None) -> QRectF:
    """Return the rectangle that entries cover: each reaches half a unit around its index."""
    rows, columns = rows or range(plane.rows), columns or range(plane.columns)
    return QRectF(columns.start - 0.5, rows.start - 0.5, len(columns), len(rows))
