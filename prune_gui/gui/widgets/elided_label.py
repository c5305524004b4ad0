"""A label that elides its text, used under the pictures of the views."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy


class ElidedLabel(QLabel):
    """A label with selectable text that never makes the window grow.

    A text that is too long is wrapped or elided.
    """

    def __init__(
        self,
        name: str,
        *,
        wrapped: bool = False,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(
            textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse, wordWrap=wrapped
        )
        self._full_text = ""
        self._elide = elide
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def say(self, text: str) -> None:
        """Show a text, elided to the width unless the label wraps."""
        self._full_text = text
        self.setAccessibleDescription(text)
        self._fit()

    def _fit(self) -> None:
        width = self.contentsRect().width()
        line = self.fontMetrics().elidedText(self._full_text, self._elide, width)
        self.setText(self._full_text if self.wordWrap() else line)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Elide the text to the new width."""
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the height of one line, and the minimum width."""
        return QSize(1, self.fontMetrics().height())
