"""A frame around the focus widget, for widgets for which Qt's style draws none."""

from __future__ import annotations

from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QCommandLinkButton,
    QFocusFrame,
    QGraphicsView,
    QMainWindow,
    QScrollArea,
    QWidget,
)

FRAMED = (QGraphicsView, QCommandLinkButton, QScrollArea)
"""Widget classes that need the frame: pictures, buttons without their own frame, and legends."""


class FocusFrame(QFocusFrame):
    """A frame around the focus widget of a window, if that is one of `FRAMED`.

    The frame is not a child of the widget, so exported pictures do not contain it.
    """

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._follow)

    def _follow(self, _: QWidget | None, now: QWidget | None) -> None:
        framed = isinstance(now, FRAMED) and self._window.isAncestorOf(now)
        self.setWidget(now if framed else None)  # type: ignore[arg-type]  # None is allowed

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Fill the frame with the highlight colour; Qt's mask excludes the middle."""
        QPainter(self).fillRect(event.rect(), self.palette().color(QPalette.ColorRole.Highlight))
