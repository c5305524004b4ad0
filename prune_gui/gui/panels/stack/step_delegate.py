"""The delegate that paints a step of the stack: check box, coloured number, lines of text."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
)

from prune_gui.gui.panels.stack.model import Index, StepRole
from prune_gui.gui.widgets.theme import colours

MARGIN_PX: Final = 6
BADGE_PX: Final = QSize(24, 18)


class StepDelegate(QStyledItemDelegate):
    """Paints the rows of the stack and computes their sizes."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint a step."""
        self.initStyleOption(option, index)
        style = option.widget.style() if option.widget else QApplication.style()
        panel = QStyle.PrimitiveElement.PE_PanelItemViewItem
        style.drawPrimitive(panel, option, painter, option.widget)
        indicator_rect = QStyle.SubElement.SE_ItemViewItemCheckIndicator
        box = style.subElementRect(indicator_rect, option, option.widget)
        enabled = option.checkState == Qt.CheckState.Checked
        check = QStyleOptionButton()
        check.rect, check.palette = box, QPalette(option.palette)
        # Fusion's outline is a darker shade of the window colour, invisible on a dark base.
        check.palette.setColor(QPalette.ColorRole.Window, option.palette.placeholderText().color())
        check.state = QStyle.StateFlag.State_Enabled
        check.state |= QStyle.StateFlag.State_On if enabled else QStyle.StateFlag.State_Off
        indicator = QStyle.PrimitiveElement.PE_IndicatorItemViewItemCheck
        style.drawPrimitive(indicator, check, painter, option.widget)

        painter.save()
        badge = QRect(option.rect.topLeft(), BADGE_PX)
        badge.translate(box.right() + MARGIN_PX - option.rect.left(), MARGIN_PX)
        self._paint_number(painter, badge, option, index.row() + 1, enabled=enabled)
        text = option.rect.adjusted(0, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
        text.setLeft(badge.right() + MARGIN_PX)
        self._paint_lines(painter, text, option, index, enabled=enabled)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(option.palette.color(QPalette.ColorRole.Accent))
            painter.drawRect(option.rect.adjusted(0, 0, -1, -1))
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """Return a size for three lines and the notes."""
        lines = 3 + len(index.data(StepRole.LIMITS)) + len(index.data(StepRole.WARNINGS))
        return QSize(120, lines * option.fontMetrics.height() + 2 * MARGIN_PX)

    def _paint_number(
        self,
        painter: QPainter,
        badge: QRect,
        option: QStyleOptionViewItem,
        number: int,
        *,
        enabled: bool,
    ) -> None:
        view_colours = colours(option.palette)
        fill = QColor(view_colours.badge(number) if enabled else view_colours.in_file)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill)
        painter.drawRoundedRect(badge, 4, 4)
        dark = fill.lightness() < 140
        painter.setPen(Qt.GlobalColor.white if dark else Qt.GlobalColor.black)
        painter.setFont(_bold(option.font))
        painter.drawText(badge, Qt.AlignmentFlag.AlignCenter, str(number))

    def _paint_lines(
        self,
        painter: QPainter,
        area: QRect,
        option: QStyleOptionViewItem,
        index: Index,
        *,
        enabled: bool,
    ) -> None:
        palette = option.palette
        ink = palette.color(QPalette.ColorRole.Text)
        faint = palette.color(QPalette.ColorRole.PlaceholderText)
        warning = QColor(colours(palette).warning)
        if option.state & QStyle.StateFlag.State_Selected:
            ink = faint = warning = palette.color(QPalette.ColorRole.HighlightedText)
        plain = ink if enabled else faint
        remark = warning if index.data(StepRole.KNOWN) else faint
        lines = (
            (option.text, _bold(option.font), plain),
            (index.data(StepRole.TARGETS), option.font, faint),
            (
                index.data(StepRole.OUTCOME),
                option.font,
                warning if index.data(StepRole.FAILED) else plain,
            ),
            *((note, option.font, faint) for note in index.data(StepRole.LIMITS)),
            *((note, option.font, remark) for note in index.data(StepRole.WARNINGS)),
        )
        line = QRect(area.topLeft(), QSize(area.width(), option.fontMetrics.height()))
        for text, font, shade in lines:
            painter.setFont(font)
            painter.setPen(shade)
            metrics = painter.fontMetrics()
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, line.width())
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, shown)
            line.translate(0, line.height())


def _bold(font: QFont) -> QFont:
    bold = QFont(font)
    bold.setBold(True)
    return bold
