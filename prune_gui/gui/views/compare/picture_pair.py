"""Two linked pictures of a comparison, the ways to arrange them, and the switch of its modes."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from PySide6.QtCore import QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QWidget

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets import layouts
from prune_gui.language import deferred, tr

Placement = Literal["sides", "swipe", "blink", "single"]
MESSAGE_MARGIN_PX: Final = 24
WIDTH_PX: Final = 17
GRIP_PX: Final = 28  # height of the grip
ARROWS: Final = "\N{LEFT RIGHT ARROW}"
KEY_STEP: Final = 0.02  # step of the arrow keys, as a share of the picture's width
KEYS: Final = {Qt.Key.Key_Left: -KEY_STEP, Qt.Key.Key_Right: KEY_STEP}
ENDS: Final = {Qt.Key.Key_Home: 0.0, Qt.Key.Key_End: 1.0}
Mode = Literal["sides", "swipe", "blink", "difference", "film"]


class ShownMode(NamedTuple):
    """A mode of a comparison: its text and tool tip, and how the pictures are arranged."""

    arrangement: Placement
    text: str
    tip: str


MODES: Final[dict[Mode, ShownMode]] = {
    "sides": ShownMode("sides", deferred("Side by side"), deferred("Both sides beside each other")),
    "swipe": ShownMode("swipe", deferred("Swipe"), deferred("One side on each side of a divider")),
    "blink": ShownMode("blink", deferred("Blink"), deferred("Both sides in turn")),
    "difference": ShownMode(
        "single", deferred("Difference"), deferred("What only one side prunes, in one picture")
    ),
    "film": ShownMode("single", deferred("Film"), deferred("The mask after each step")),
}


class SwipeDivider(QWidget):
    """A vertical line that is dragged, or moved with the arrow keys, Home and End."""

    moved = Signal()  # the user changed `share`, the position in the width that the parent lays out
    dragged = Signal(int)  # to this x position in the parent, in pixels

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.share = 0.5
        self.setFixedWidth(WIDTH_PX)
        self.setCursor(Qt.CursorShape.SplitHCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Divider between the left and the right side"))
        self.setToolTip(tr("Drag it, or press the left and right arrow keys"))

    def move_to(self, share: float) -> None:
        self.share = min(1.0, max(0.0, share))
        self.moved.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = Qt.Key(event.key())
        if key in KEYS:
            self.move_to(self.share + KEYS[key])
        elif key in ENDS:
            self.move_to(ENDS[key])
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.dragged.emit(self.mapToParent(event.position().toPoint()).x())

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        roles, painter = QPalette.ColorRole, QPainter(self)
        colour = self.palette().color(roles.Highlight if self.hasFocus() else roles.WindowText)
        middle, centre = WIDTH_PX // 2, self.height() // 2
        painter.fillRect(middle - 1, 0, 3, self.height(), self.palette().color(roles.Base))
        painter.fillRect(middle, 0, 1, self.height(), colour)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(colour)
        painter.setBrush(self.palette().color(roles.Base))
        grip = QRectF(0.5, centre - GRIP_PX / 2, WIDTH_PX - 1, GRIP_PX)
        painter.drawRoundedRect(grip, WIDTH_PX / 2, WIDTH_PX / 2)
        painter.drawText(grip, Qt.AlignmentFlag.AlignCenter, ARROWS)


class PicturePair(QWidget):
    """Arranges two pictures of the same region; the left one alone for "single" and "swipe".

    Swiping shows one picture, which the owner joins from the left one up to a divider and the right
    one beyond it. Blinking shows both in turn. A message may replace a picture; then the pictures
    are side by side.
    """

    blinked = Signal()  # the other picture is in front
    divided = Signal()  # `divided_column` may have changed while swiping

    def __init__(self, viewport: Viewport) -> None:
        super().__init__()
        self.left, self.right = MapCanvas(viewport), MapCanvas(viewport)
        self.plots: Final = (self.left, self.right)
        self._messages = layouts.remark(), layouts.remark()
        self.divider = SwipeDivider(self)
        self.right_in_front = True
        self._arrangement: Placement = "sides"
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.blink)
        self._blinking = False
        names = tr("Picture of the left side"), tr("Picture of the right side")
        for plot, message, name in zip(self.plots, self._messages, names, strict=True):
            plot.setParent(self)
            plot.setAccessibleName(name)
            message.setParent(self)
            message.setAlignment(Qt.AlignmentFlag.AlignCenter)
            message.setMargin(MESSAGE_MARGIN_PX)
            message.hide()
        self.divider.hide()
        self.setMinimumHeight(self.left.minimumSizeHint().height())
        self.right.view.setXLink(self.left.view)
        self.right.view.setYLink(self.left.view)
        self.divider.moved.connect(self._divide)
        self.left.view.sigResized.connect(self._divide)
        self.left.view.sigRangeChanged.connect(self._divide)
        self.divider.dragged.connect(self._drag)

    @property
    def arrangement(self) -> Placement:
        """How the pictures are arranged: side by side while a message replaces one."""
        return "sides" if any(self.messages) else self._arrangement

    @property
    def visible_plot(self) -> MapCanvas:
        return self.right if self.messages[0] else self.left

    @property
    def messages(self) -> tuple[str, str]:
        left, right = self._messages
        return left.text(), right.text()

    def say(self, left: str, right: str) -> None:
        """Show messages in place of pictures; "" shows the picture."""
        if (left, right) != self.messages:
            for message, text in zip(self._messages, (left, right), strict=True):
                message.setText(text)
            self._lay_out()

    def arrange(self, arrangement: Placement) -> None:
        self._arrangement = arrangement
        self._lay_out()

    def set_blinking(self, *, on: bool, interval_ms: int) -> None:
        self._blinking = on
        self._timer.setInterval(interval_ms)
        self._update_timer()

    def blink(self) -> None:
        self.right_in_front = not self.right_in_front
        self._lay_out()
        self.blinked.emit()

    def _update_timer(self) -> None:
        if not (self._blinking and self.arrangement == "blink" and self.isVisible()):
            self._timer.stop()
        elif not self._timer.isActive():
            self._timer.start()

    def _lay_out(self) -> None:
        arrangement, whole = self.arrangement, self.rect()
        halves = (whole, whole)
        if arrangement == "sides":
            middle = whole.width() // 2
            halves = (
                whole.adjusted(0, 0, middle - whole.width(), 0),
                whole.adjusted(middle, 0, 0, 0),
            )
        for plot, message, half in zip(self.plots, self._messages, halves, strict=True):
            shown = bool(message.text()) and arrangement == "sides"
            plot.setGeometry(half)
            message.setGeometry(half)
            message.setVisible(shown)
            plot.setVisible(not shown and (plot is self.left or arrangement in ("sides", "blink")))
        self.divider.setVisible(arrangement == "swipe")
        if arrangement == "swipe":
            self._divide()
        elif arrangement == "blink":
            (self.right if self.right_in_front else self.left).raise_()
        self._update_timer()

    def _divide(self) -> None:
        if self.arrangement == "swipe":
            area = self._area
            x = area.left() + round(self.divider.share * area.width())
            self.divider.setGeometry(QRect(x - WIDTH_PX // 2, area.top(), WIDTH_PX, area.height()))
            self.divider.raise_()
            self.divided.emit()

    @property
    def divided_column(self) -> float:
        """The column of the layout at the divider; the left edge of column 0 is -0.5."""
        (first, last), _ = self.left.view.viewRange()
        return float(first + self.divider.share * (last - first))

    @property
    def _area(self) -> QRect:
        scene = self.left.mapFromScene(self.left.view.sceneBoundingRect())
        area: QRect = scene.boundingRect().translated(self.left.pos())
        return area

    def _drag(self, x: int) -> None:
        area = self._area
        self.divider.move_to((x - area.left()) / max(1, area.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._lay_out()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._lay_out()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._timer.stop()
