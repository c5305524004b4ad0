"""A combo box that elides its text if it is narrow."""

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

MIN_WIDTH_PX: Final = 84
"""Minimum width of the box in pixels."""


class ElidedComboBox(QComboBox):
    """A combo box that may be narrower than its texts, and then shows an ellipsis."""

    def __init__(
        self,
        parent: QWidget | None = None,
        *,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(parent)
        self._elide = elide
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setMinimumWidth(MIN_WIDTH_PX)

    def shown(self) -> str:
        """Return the current text, elided to the width of the box."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        field = QStyle.SubControl.SC_ComboBoxEditField
        control = QStyle.ComplexControl.CC_ComboBox
        rect = self.style().subControlRect(control, option, field, self)
        width = rect.width() - 2  # Fusion's margins
        return self.fontMetrics().elidedText(self.currentText(), self._elide, width)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the box as Qt does, with the elided text; Fusion would cut the text off."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.shown()
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()
