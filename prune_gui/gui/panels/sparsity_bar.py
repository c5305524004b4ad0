"""The pruned share of a row of the tree, as a bar with its number."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from prune_gui.gui.panels.tree_model import SHARE_ROLE, Index

BAR_HEIGHT: Final = 7.0
GAP: Final = 6
WIDEST: Final = "> 99.9 %"


class SparsityBar(QStyledItemDelegate):
    """Paints the bar on the left and the text on the right of the cell."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._text_width = parent.fontMetrics().horizontalAdvance(WIDEST)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell; nothing but its background where nothing can be pruned."""
        self.initStyleOption(option, index)
        text, option.text = option.text, ""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        share = index.data(SHARE_ROLE)
        if share is None:
            return
        palette: QPalette = option.palette
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        ink = palette.color(
            QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.Text
        )
        fill = ink if chosen else palette.color(QPalette.ColorRole.Highlight)
        cell = QRectF(option.rect).adjusted(GAP, 0, -GAP, 0)
        track = QRectF(0, 0, max(cell.width() - self._text_width - GAP, 0), BAR_HEIGHT)
        track.moveCenter(cell.center())
        track.moveLeft(cell.left())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if share > 0:
            faint = QColor(ink)
            faint.setAlphaF(0.15)
            painter.setBrush(faint)
            painter.drawRoundedRect(track, BAR_HEIGHT / 2, BAR_HEIGHT / 2)
            painter.setBrush(fill)
            track.setWidth(max(track.width() * share, BAR_HEIGHT / 2))
            painter.drawRoundedRect(track, BAR_HEIGHT / 2, BAR_HEIGHT / 2)
        painter.setPen(ink if share > 0 or chosen else palette.placeholderText().color())
        painter.drawText(cell, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """Leave room for a short bar beside the text."""
        hint = super().sizeHint(option, index)
        return QSize(self._text_width + 40 + 3 * GAP, hint.height())
