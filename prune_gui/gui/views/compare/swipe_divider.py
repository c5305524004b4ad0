"""The divider of two pictures that lie on top of each other."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from prune_gui.language import tr

WIDTH_PX: Final = 17
GRIP_PX: Final = 28
"""Height of the grip."""
ARROWS: Final = "\N{LEFT RIGHT ARROW}"
KEY_STEP: Final = 0.02
"""Step of the arrow keys, as a share of the picture's width."""
KEYS: Final = {Qt.Key.Key_Left: -KEY_STEP, Qt.Key.Key_Right: KEY_STEP}
ENDS: Final = {Qt.Key.Key_Home: 0.0, Qt.Key.Key_End: 1.0}


class SwipeDivider(QWidget):
    """A vertical line that is dragged, or moved with the left and right arrow keys, Home and End.

    Attributes:
        share: position of the line, as a share of the width in [0, 1] that the parent lays out.

    Signals:
        moved: the user changed `share`.
        dragged: (x) the user dragged the line to this position in the parent, in pixels.
    """

    moved = Signal()
    dragged = Signal(int)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.share = 0.5
        self.setFixedWidth(WIDTH_PX)
        self.setCursor(Qt.CursorShape.SplitHCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Divider between the left and the right side"))
        self.setToolTip(tr("Drag it, or press the left and right arrow keys"))

    def move_to(self, share: float) -> None:
        """Move the line as the user does; the share is limited to [0, 1]."""
        self.share = min(1.0, max(0.0, share))
        self.moved.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Move the line."""
        key = Qt.Key(event.key())
        if key in KEYS:
            self.move_to(self.share + KEYS[key])
        elif key in ENDS:
            self.move_to(ENDS[key])
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Start to drag."""
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Drag the line."""
        self.dragged.emit(self.mapToParent(event.position().toPoint()).x())

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        """Draw the line and its grip; with the focus, in the highlight colour."""
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
