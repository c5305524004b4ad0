"""A box of choices that gives way where a view has little room."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import (
    QComboBox,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

NARROW: Final = 90
"""How narrow a box may become, in pixels, before the docks have to make room."""


class ElidedComboBox(QComboBox):
    """Is as wide as its texts, or narrower: then an ellipsis says that the text goes on."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setMinimumWidth(NARROW)

    def shown(self) -> str:
        """Return the chosen text as far as there is room for it."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        text = QStyle.SubControl.SC_ComboBoxEditField
        kind = QStyle.ComplexControl.CC_ComboBox
        room = self.style().subControlRect(kind, option, text, self).width() - 2  # Fusion's margins
        return self.fontMetrics().elidedText(self.currentText(), Qt.TextElideMode.ElideRight, room)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the box as Qt does, but for the text, which Fusion would cut."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.shown()
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()
