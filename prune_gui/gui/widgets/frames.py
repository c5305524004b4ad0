"""Frames over a window and around its widgets, and a scroll area that fits its content."""

from __future__ import annotations

from typing import Final, TypeVar

from PySide6.QtCore import QEvent, QObject, QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QApplication,
    QCommandLinkButton,
    QFocusFrame,
    QFrame,
    QGraphicsView,
    QMainWindow,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

from prune_gui.gui.widgets import layouts

BORDER_PX: Final = 4
PADDING_PX: Final = 24
VEIL_ALPHA: Final = 170  # opacity, of 255, of the background that is laid over the window


FRAMED = (QGraphicsView, QCommandLinkButton, QScrollArea)
"""Widget classes that need the frame: pictures, buttons without their own frame, and legends."""
Window = TypeVar("Window", bound=QWidget)


class DropHint(QWidget):
    """Covers a window with a veil, a frame and a text; mouse events pass through."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._text = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def say(self, text: str) -> None:
        self._text = text
        self.setGeometry(self._window.rect())
        self.raise_()
        self.show()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        palette = self.palette()
        veil, accent = QColor(palette.window().color()), palette.color(palette.ColorRole.Accent)
        veil.setAlpha(VEIL_ALPHA)
        painter.fillRect(self.rect(), veil)
        inset = BORDER_PX // 2
        painter.setPen(QPen(accent, BORDER_PX))
        painter.drawRect(self.rect().adjusted(inset, inset, -inset, -inset))
        plate = QRect(0, 0, self.width(), self.fontMetrics().height() + 2 * PADDING_PX)
        plate.moveCenter(self.rect().center())
        painter.fillRect(plate, accent)
        painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        painter.drawText(plate, Qt.AlignmentFlag.AlignCenter, self._text)


class FocusFrame(QFocusFrame):
    """A frame around a focus widget of `FRAMED`. It is no child, so pictures do not contain it."""

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


class FitScrollArea(QScrollArea):
    """A vertical scroll area that is at most as high as its content."""

    def __init__(self, content: QWidget, min_height: int) -> None:
        super().__init__()
        self._content = content
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # otherwise a tab stop without a visible focus
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setMinimumHeight(min_height)

    def sizeHint(self) -> QSize:  # noqa: N802
        width = max(self.viewport().width(), self._content.minimumSizeHint().width())
        height = self._content.heightForWidth(width)
        return QSize(width, height if height >= 0 else self._content.sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self._content.minimumSizeHint().width() + bar, self.minimumHeight())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if watched is self._content and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)


def scrolled(content: QWidget, min_height: int, min_width: int = 0) -> QScrollArea:
    """Return an area that fills its place, and scrolls if that is too small for the content.

    It is as wide as the content needs, unless it has a minimum width, and scrolls sideways, too.
    A splitter has no preferred height for a width, which an area would take for the minimum.
    """
    area = FitScrollArea(layouts.split(content), min_height)
    area.setFocusProxy(content)
    area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
    if min_width:
        area.setMinimumWidth(min_width)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
    return area


def deleted_on_close(window: Window) -> Window:
    """Let Qt delete a window when it is closed, and return the window."""
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return window
