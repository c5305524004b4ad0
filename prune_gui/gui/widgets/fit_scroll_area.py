"""A scroll area that is as high as what is in it, where there is room for that."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget


class FitScrollArea(QScrollArea):
    """Asks for the height of its content and no more; with less it scrolls up and down.

    Args:
        content: what to show.
        least: the height it asks for in any case, in pixels.
    """

    def __init__(self, content: QWidget, least: int) -> None:
        super().__init__()
        self._content = content
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a stop of the tab key that shows nothing
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setMinimumHeight(least)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of the content at the width there is."""
        width = max(self.viewport().width(), self._content.minimumSizeHint().width())
        height = self._content.heightForWidth(width)
        return QSize(width, height if height >= 0 else self._content.sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Never narrower than the content, which does not scroll sideways."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self._content.minimumSizeHint().width() + bar, self.minimumHeight())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Ask anew when the content changes."""
        if watched is self._content and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)
