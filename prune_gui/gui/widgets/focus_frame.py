"""A frame around what has the focus, where the style of Qt draws none."""

from __future__ import annotations

from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QCommandLinkButton,
    QFocusFrame,
    QGraphicsView,
    QMainWindow,
    QWidget,
)

FRAMED = (QGraphicsView, QCommandLinkButton)
"""Pictures, and buttons without a frame of their own."""


class FocusFrame(QFocusFrame):
    """Lies around the picture or the link of a window that has the focus, and is no part of it."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._follow)

    def _follow(self, _: QWidget | None, now: QWidget | None) -> None:
        framed = isinstance(now, FRAMED) and self._window.isAncestorOf(now)
        self.setWidget(now if framed else None)  # type: ignore[arg-type]  # it may be None

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw it in one colour; the mask that Qt gives it leaves the middle free."""
        QPainter(self).fillRect(event.rect(), self.palette().color(QPalette.ColorRole.Highlight))
