"""A part of a form that can be folded away."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget


class Fold(QWidget):
    """A button with an arrow, and a content below it that the button shows and hides.

    Signals:
        toggled: (open) the user opened or closed the fold.
    """

    toggled = Signal(bool)

    def __init__(self, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.content = content
        self.button = QToolButton()
        self.button.setAutoRaise(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.clicked.connect(self._toggle)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(content)
        self.open(on=False)

    @property
    def is_open(self) -> bool:
        """Whether the content is shown."""
        return not self.content.isHidden()

    def open(self, *, on: bool = True) -> None:
        """Show or hide the content. Does not signal."""
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.content.setVisible(on)

    def _toggle(self) -> None:
        self.open(on=not self.is_open)
        self.toggled.emit(self.is_open)
