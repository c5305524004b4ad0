"""A line edit that elides its text while it does not have the focus."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, Qt
from PySide6.QtGui import QHelpEvent, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QLineEdit,
    QStyle,
    QStyleOptionFrame,
    QStylePainter,
    QToolButton,
    QToolTip,
    QWidget,
)

from prune_gui.gui.formatting import wrapped

MARGIN_PX = 2
"""Margin of Qt on either side of the text, in every style."""


class ElidedLineEdit(QLineEdit):
    """A line edit that elides a long text without the focus. Its tool tip shows the full text."""

    def __init__(
        self,
        elided: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._elide_mode = elided

    def shown(self) -> str:
        """Return the text, elided to the width of the line."""
        metrics = self.fontMetrics()
        return metrics.elidedText(self.text(), self._elide_mode, self._text_rect().width())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the elided text; Qt would cut the text off."""
        if self.hasFocus() or self.shown() == self.text():
            super().paintEvent(event)
            return
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        painter = QStylePainter(self)
        painter.drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, option)
        painter.setPen(self.palette().color(QPalette.ColorRole.Text))
        painter.drawText(self._text_rect(), Qt.AlignmentFlag.AlignVCenter, self.shown())
        painter.end()

    def event(self, event: QEvent) -> bool:
        """Add the full text before the tool tip if it does not fit."""
        shows_tip = event.type() == QEvent.Type.ToolTip and self.shown() != self.text()
        if shows_tip and isinstance(event, QHelpEvent):
            parts = filter(None, (wrapped(self.text()), self.toolTip()))
            QToolTip.showText(event.globalPos(), "\n\n".join(parts), self)
            return True
        return super().event(event)

    def _text_rect(self) -> QRect:
        """Return the rectangle of the text, without the visible buttons in the line."""
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        contents = QStyle.SubElement.SE_LineEditContents
        rect = self.style().subElementRect(contents, option, self)
        rect.adjust(MARGIN_PX, 0, -MARGIN_PX, 0)
        for button in self.findChildren(QToolButton):
            if button.isVisible():
                rect.setRight(min(rect.right(), button.x() - MARGIN_PX))
        return rect
