"""What is shown over a window while files are dragged over it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QWidget

BORDER_PX: Final = 4
PADDING_PX: Final = 24
VEIL_ALPHA: Final = 170
"""Opacity, of 255, of the background that is laid over the window."""


class DropHint(QWidget):
    """Covers a window with a veil, a frame and a text; mouse events pass through."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._text = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def say(self, text: str) -> None:
        """Show a text over the window, until `hide` is called."""
        self._text = text
        self.setGeometry(self._window.rect())
        self.raise_()
        self.show()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the veil, the frame, and the text on a plate in the middle."""
        painter = QPainter(self)
        palette = self.palette()
        veil = QColor(palette.color(QPalette.ColorRole.Window))
        veil.setAlpha(VEIL_ALPHA)
        painter.fillRect(self.rect(), veil)
        inset = BORDER_PX // 2
        painter.setPen(QPen(palette.color(QPalette.ColorRole.Accent), BORDER_PX))
        painter.drawRect(self.rect().adjusted(inset, inset, -inset, -inset))
        plate = QRect(0, 0, self.width(), self.fontMetrics().height() + 2 * PADDING_PX)
        plate.moveCenter(self.rect().center())
        painter.fillRect(plate, palette.color(QPalette.ColorRole.Accent))
        painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        painter.drawText(plate, Qt.AlignmentFlag.AlignCenter, self._text)
