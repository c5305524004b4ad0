"""The delegates that paint the cells of the module tree."""

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

from prune_gui.gui.panels.modules.model import RIGHT, Index, TreeColumn, TreeModel
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.theme import colours
from prune_gui.number_formats import sparsity

BAR_HEIGHT_PX: Final = 7.0
GAP_PX: Final = 6
MIN_BAR_PX: Final = 12
"""Width below which a bar is not drawn, but only its text."""

INK: Final = QPalette.ColorRole.Text
WITHOUT_ICON: Final = QStyleOptionViewItem.ViewItemFeature.HasDisplay
WITH_ICON: Final = WITHOUT_ICON | QStyleOptionViewItem.ViewItemFeature.HasDecoration


class RowDelegate(QStyledItemDelegate):
    """Paints cells from `Row` objects. Calling `data` once per role would take twice as long."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree)
        self.model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Set text, icon, font and colours of a cell."""
        row, column = self.model.row(index), index.column()
        option.text = row.texts[column]
        option.features |= WITH_ICON if column == TreeColumn.NAME else WITHOUT_ICON
        if row.share is None:
            option.palette.setBrush(INK, option.palette.placeholderText())
        if column == TreeColumn.NAME:
            option.icon = icon(row.icon)
            if row.path == self.model.chosen:
                option.font.setBold(True)
        elif column == TreeColumn.PARAMETERS:
            option.displayAlignment = RIGHT


class ShareBar(RowDelegate):
    """Paints a share as a bar on the left and a text on the right of the cell."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree, model)
        self._text_width = tree.fontMetrics().horizontalAdvance(sparsity(99_999, 100_000))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell; only its background where nothing can be pruned."""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        row = self.model.row(index)
        pruned = index.column() == TreeColumn.SPARSITY
        share, text = row.share if pruned else row.zero_share, row.texts[index.column()]
        if share is None:
            return
        palette: QPalette = option.palette
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        ink = palette.color(
            QPalette.ColorRole.HighlightedText if selected else QPalette.ColorRole.Text
        )
        mark = palette.color(QPalette.ColorRole.Highlight)
        fill = ink if selected else mark if pruned else QColor(colours(palette).in_file)
        gap = GAP_PX if option.rect.width() > self._text_width + 2 * GAP_PX else GAP_PX // 2
        cell = QRectF(option.rect).adjusted(gap, 0, -gap, 0)
        track = QRectF(0, 0, max(cell.width() - self._text_width - GAP_PX, 0), BAR_HEIGHT_PX)
        track.moveCenter(cell.center())
        track.moveLeft(cell.left())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if share > 0 and track.width() >= MIN_BAR_PX:
            faint = QColor(ink)
            faint.setAlphaF(0.15)
            painter.setBrush(faint)
            painter.drawRoundedRect(track, BAR_HEIGHT_PX / 2, BAR_HEIGHT_PX / 2)
            painter.setBrush(fill)
            track.setWidth(max(track.width() * share, BAR_HEIGHT_PX / 2))
            painter.drawRoundedRect(track, BAR_HEIGHT_PX / 2, BAR_HEIGHT_PX / 2)
        painter.setPen(ink if share > 0 or selected else palette.placeholderText().color())
        painter.drawText(cell, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """Return a size with space for a short bar beside the text."""
        hint = super().sizeHint(option, index)
        return QSize(self._text_width + 40 + 3 * GAP_PX, hint.height())
