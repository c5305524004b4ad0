"""How the cells of the tree are painted: each from its prepared row, and the share as a bar."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
)

from prune_gui.gui.formatting import sparsity
from prune_gui.gui.panels.modules.model import RIGHT, Column, Index, TreeModel
from prune_gui.gui.widgets.icons import icon

BAR_HEIGHT: Final = 7.0
GAP: Final = 6

INK: Final = QPalette.ColorRole.Text
WITHOUT_ICON: Final = QStyleOptionViewItem.ViewItemFeature.HasDisplay
WITH_ICON: Final = WITHOUT_ICON | QStyleOptionViewItem.ViewItemFeature.HasDecoration


class RowDelegate(QStyledItemDelegate):
    """Paints what `Row` holds; to ask the model for role after role would take twice as long."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree)
        self.model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Say how a cell looks, in one call."""
        row, column = self.model.row(index), index.column()
        option.text = row.texts[column]
        option.features |= WITH_ICON if column == Column.NAME else WITHOUT_ICON
        if row.share is None:
            option.palette.setBrush(INK, option.palette.placeholderText())
        if column == Column.NAME:
            option.icon = icon(row.icon)
            if row.path == self.model.chosen:
                option.font.setBold(True)
        elif column == Column.PARAMETERS:
            option.displayAlignment = RIGHT


class SparsityBar(RowDelegate):
    """Paints the bar on the left and the text on the right of the cell."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree, model)
        self._text_width = tree.fontMetrics().horizontalAdvance(sparsity(99_999, 100_000))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell; nothing but its background where nothing can be pruned."""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        row = self.model.row(index)
        share, text = row.share, row.texts[Column.SPARSITY]
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
