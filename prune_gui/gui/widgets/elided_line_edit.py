"""A line for texts that may be longer than it is."""

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

MARGIN = 2
"""Pixels that Qt leaves on either side of the text, in every style."""


class ElidedLineEdit(QLineEdit):
    """Says by an ellipsis, while nobody types, that there is more; the tool tip has all of it.

    Args:
        elided: where the text gives way.
    """

    def __init__(
        self,
        elided: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._elided = elided

    def shown(self) -> str:
        """Return the text as far as there is room for it."""
        metrics = self.fontMetrics()
        return metrics.elidedText(self.text(), self._elided, self._room().width())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the shortened text in place of the one that Qt would cut."""
        if self.hasFocus() or self.shown() == self.text():
            super().paintEvent(event)
            return
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        painter = QStylePainter(self)
        painter.drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, option)
        painter.setPen(self.palette().color(QPalette.ColorRole.Text))
        painter.drawText(self._room(), Qt.AlignmentFlag.AlignVCenter, self.shown())
        painter.end()

    def event(self, event: QEvent) -> bool:
        """Put the text before the tool tip where it does not fit."""
        asked = event.type() == QEvent.Type.ToolTip and self.shown() != self.text()
        if asked and isinstance(event, QHelpEvent):
            parts = filter(None, (wrapped(self.text()), self.toolTip()))
            QToolTip.showText(event.globalPos(), "\n\n".join(parts), self)
            return True
        return super().event(event)

    def _room(self) -> QRect:
        """Return where the text is, beside the button that clears it."""
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        contents = QStyle.SubElement.SE_LineEditContents
        room = self.style().subElementRect(contents, option, self)
        room.adjust(MARGIN, 0, -MARGIN, 0)
        for button in self.findChildren(QToolButton):
            if button.isVisible():
                room.setRight(min(room.right(), button.x() - MARGIN))
        return room
