"""A label for warnings and remarks that is hidden while it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPalette, QResizeEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import colours

FADE_DELAY_MS: Final = 400  # delay before an outdated text is shown faintly
NOTE_LINES: Final = 3


class Message(QLabel):
    """A label with a text in the colour of warnings or of remarks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._warning = True
        self._faded = False
        self._fading = QTimer(self, singleShot=True, interval=FADE_DELAY_MS)
        self._fading.timeout.connect(self._fade)
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hide()

    def say(self, text: str, *, warning: bool = True) -> None:
        if (text, warning, False) == (self.text(), self._warning, self._faded):
            self._fading.stop()
            return
        self._warning, self._faded = warning, False
        self._fading.stop()
        self.setText(text)
        self._colour()
        self.setVisible(bool(text))

    def fade(self) -> None:
        """Mark the text as outdated: it becomes faint unless `say` is called within the delay."""
        if not self._faded and not self._fading.isActive():
            self._fading.start()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return at least the height of the lines at this width; less would overlap neighbours."""
        hint = super().minimumSizeHint()
        return QSize(hint.width(), max(hint.height(), self.heightForWidth(self.width())))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
        super().changeEvent(event)

    def _fade(self) -> None:
        self._faded = True
        self._colour()

    def _colour(self) -> None:
        palette = QPalette()  # colours that are not set are inherited, and follow the theme
        if self._faded:
            shade = QApplication.palette().color(QPalette.ColorRole.PlaceholderText)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        elif self._warning:
            shade = QColor(colours(QApplication.palette()).warning)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        self.setPalette(palette)


def keep_room(label: QLabel, *, lines: int) -> None:
    """Set the minimum height of a label to `lines` lines, so that widgets below do not move."""
    label.setMinimumHeight(lines * label.fontMetrics().lineSpacing())
    label.setAlignment(Qt.AlignmentFlag.AlignTop)


class Messages(QWidget):
    """Messages with room for `NOTE_LINES` lines: a dialog keeps its size when one appears."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__()
        layout = layouts.column(*messages, layouts.STRETCH, of=self, margin=0)
        line, gap = self.fontMetrics().lineSpacing(), layout.spacing()
        self.setMinimumHeight(NOTE_LINES * (line + max(gap, 0)))
