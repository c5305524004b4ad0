"""A line of text that tells of a problem, and takes no room if there is none."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from prune_gui.gui.theme import colours


class Message(QLabel):
    """Text in the colour of warnings, or of remarks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._warning = True
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.hide()

    def say(self, text: str, *, warning: bool = True) -> None:
        """Show a text; none hides the line."""
        self._warning = warning
        self.setText(text)
        self._colour()
        self.setVisible(bool(text))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
        super().changeEvent(event)

    def _colour(self) -> None:
        palette = QPalette()  # what is not set here is inherited, and follows the theme
        if self._warning:
            shade = QColor(colours(QApplication.palette()).warning)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        self.setPalette(palette)
