"""A scroll area whose preferred height is that of its content."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget


class FitScrollArea(QScrollArea):
    """A vertical scroll area that is at most as high as its content.

    Args:
        min_height: the minimum height in pixels.
    """

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
        """Return the size of the content at the current width."""
        width = max(self.viewport().width(), self._content.minimumSizeHint().width())
        height = self._content.heightForWidth(width)
        return QSize(width, height if height >= 0 else self._content.sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the minimum width of the content, which does not scroll horizontally."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self._content.minimumSizeHint().width() + bar, self.minimumHeight())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Update the geometry when the layout of the content changes."""
        if watched is self._content and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)
