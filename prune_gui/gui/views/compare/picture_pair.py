"""Two linked pictures: side by side, one after the other, or only one."""

from __future__ import annotations

from typing import Final, Literal

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QWidget

from prune_gui.gui.views.compare.linked_plot import LinkedPlot
from prune_gui.gui.views.compare.swipe_divider import WIDTH_PX, SwipeDivider
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.language import tr

Arrangement = Literal["sides", "swipe", "blink", "single"]
MESSAGE_MARGIN_PX: Final = 24


class PicturePair(QWidget):
    """Arranges two pictures of the same region.

    Swiping shows one picture, which the owner joins from the left one up to a divider and the right
    one beyond it. Blinking shows both in turn. A message may replace a picture; then the pictures
    are side by side.

    Attributes:
        left: the left picture; the only one of the arrangements "single" and "swipe".
        right: the right picture.
        divider: between the pictures while swiping.
        right_in_front: whether blinking shows the right picture at present.

    Signals:
        blinked: the other picture is in front.
        divided: `divided_column` may have changed while swiping.
    """

    blinked = Signal()
    divided = Signal()

    def __init__(self, viewport: Viewport) -> None:
        super().__init__()
        self.left, self.right = LinkedPlot(viewport), LinkedPlot(viewport)
        self.plots: Final = (self.left, self.right)
        self._messages = QLabel(), QLabel()
        self.divider = SwipeDivider(self)
        self.right_in_front = True
        self._arrangement: Arrangement = "sides"
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.blink)
        self._blinking = False
        names = tr("Picture of the left side"), tr("Picture of the right side")
        for plot, message, name in zip(self.plots, self._messages, names, strict=True):
            plot.setParent(self)
            plot.setAccessibleName(name)
            message.setParent(self)
            message.setAlignment(Qt.AlignmentFlag.AlignCenter)
            message.setWordWrap(True)
            message.setMargin(MESSAGE_MARGIN_PX)
            message.setForegroundRole(message.palette().ColorRole.PlaceholderText)
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
    def arrangement(self) -> Arrangement:
        """How the pictures are arranged: side by side while a message replaces one."""
        return "sides" if any(self.messages) else self._arrangement

    @property
    def visible_plot(self) -> LinkedPlot:
        """The left picture, or the right one if a message replaces the left one."""
        return self.right if self.messages[0] else self.left

    @property
    def messages(self) -> tuple[str, str]:
        """The messages in place of the left and of the right picture; "" for none."""
        left, right = self._messages
        return left.text(), right.text()

    def say(self, left: str, right: str) -> None:
        """Show messages in place of pictures; "" shows the picture."""
        if (left, right) != self.messages:
            for message, text in zip(self._messages, (left, right), strict=True):
                message.setText(text)
            self._lay_out()

    def arrange(self, arrangement: Arrangement) -> None:
        """Arrange the pictures in another way."""
        self._arrangement = arrangement
        self._lay_out()

    def set_blinking(self, *, on: bool, interval_ms: int) -> None:
        """Start or stop blinking; it also stops while the widget is hidden."""
        self._blinking = on
        self._timer.setInterval(interval_ms)
        self._update_timer()

    def blink(self) -> None:
        """Bring the other picture to the front."""
        self.right_in_front = not self.right_in_front
        self._lay_out()
        self.blinked.emit()

    def _update_timer(self) -> None:
        wanted = self._blinking and self.arrangement == "blink" and self.isVisible()
        if wanted != self._timer.isActive():
            if wanted:
                self._timer.start()
            else:
                self._timer.stop()

    def _lay_out(self) -> None:
        """Lay out the pictures, messages and divider."""
        arrangement, whole = self.arrangement, self.rect()
        halves = (whole, whole)
        if arrangement == "sides":
            middle = whole.width() // 2
            halves = (
                QRect(0, 0, middle, whole.height()),
                QRect(middle, 0, whole.width() - middle, whole.height()),
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
        """Place the divider."""
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
        """The rectangle inside the axes."""
        scene = self.left.mapFromScene(self.left.view.sceneBoundingRect())
        area: QRect = scene.boundingRect().translated(self.left.pos())
        return area

    def _drag(self, x: int) -> None:
        area = self._area
        self.divider.move_to((x - area.left()) / max(1, area.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lay out the pictures in the new size."""
        super().resizeEvent(event)
        self._lay_out()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Continue to blink."""
        super().showEvent(event)
        self._lay_out()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timer."""
        super().hideEvent(event)
        self._timer.stop()
