"""A line of text under a picture, about what the cursor is on."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy


class ElidedLabel(QLabel):
    """A text that can be copied.

    What does not fit is wrapped, or left out at the end, which an ellipsis says; the window is not
    to grow for it.

    Args:
        name: for screen readers.
        wrapped: whether it goes on in further lines.
    """

    def __init__(self, name: str, *, wrapped: bool = False) -> None:
        super().__init__(
            textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse, wordWrap=wrapped
        )
        self._said = ""
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def say(self, text: str) -> None:
        """Show as much of a text as there is room for."""
        self._said = text
        self.setAccessibleDescription(text)
        self._fit()

    def _fit(self) -> None:
        right = Qt.TextElideMode.ElideRight
        line = self.fontMetrics().elidedText(self._said, right, self.contentsRect().width())
        self.setText(self._said if self.wordWrap() else line)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show as much as there is room for now."""
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Ask for one line."""
        return QSize(1, self.fontMetrics().height())
