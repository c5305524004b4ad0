"""A line of text that tells of a problem, and takes no room if there is none."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPalette, QResizeEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from prune_gui.gui.widgets.theme import colours

PATIENCE: Final = 400
"""Milliseconds for which a text that may not hold any more looks as if it did."""


class Message(QLabel):
    """Text in the colour of warnings, or of remarks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._warning = True
        self._faded = False
        self._fading = QTimer(self, singleShot=True, interval=PATIENCE)
        self._fading.timeout.connect(self._fade)
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hide()

    def say(self, text: str, *, warning: bool = True) -> None:
        """Show a text; none hides the line."""
        self._warning, self._faded = warning, False
        self._fading.stop()
        self.setText(text)
        self._colour()
        self.setVisible(bool(text))

    def fade(self) -> None:
        """Show the text faintly if no other one is said soon: it may not hold any more."""
        if not self._faded and not self._fading.isActive():
            self._fading.start()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Never lower than its lines at the width there is: in less it would cover what is near."""
        hint = super().minimumSizeHint()
        return QSize(hint.width(), max(hint.height(), self.heightForWidth(self.width())))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Ask for the height of another width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
        super().changeEvent(event)

    def _fade(self) -> None:
        self._faded = True
        self._colour()

    def _colour(self) -> None:
        palette = QPalette()  # what is not set here is inherited, and follows the theme
        if self._faded:
            shade = QApplication.palette().color(QPalette.ColorRole.PlaceholderText)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        elif self._warning:
            shade = QColor(colours(QApplication.palette()).warning)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        self.setPalette(palette)


def keep_room(label: QLabel, *, lines: int) -> None:
    """Give a label the room of some lines, where fewer would do: nothing below it is to jump."""
    label.setMinimumHeight(lines * label.fontMetrics().lineSpacing())
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
