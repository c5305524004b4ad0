"""The delegate that paints the card of a step, and edits its amount."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QAbstractItemModel, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPalette, QTextLayout, QTextOption
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
    QWidget,
)

from prune_gui.gui.draft.amount_fields import NumberBox
from prune_gui.gui.stack.stack_model import CARD, CardContent, Index
from prune_gui.gui.widgets.theme import bold, colours

MARGIN_PX: Final = 6
BADGE_PX: Final = QSize(24, 18)
BAR_HEIGHT_PX: Final = 4  # height of the bar with the sparsity of the step
MAX_LINES: Final = 2  # maximum number of lines of the title and of the targets
EDITOR_WIDTH_PX: Final = 110
DEFAULT_WIDTH_PX: Final = 300  # width of a card that is not shown in a view


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a card: its rectangle, text and font, and the colour of the text."""

    rect: QRect
    text: str
    font: QFont
    colour: QColor


@dataclass(slots=True)
class StepCard:
    """A card and its geometry."""

    content: CardContent
    box: QRect
    badge: QRect  # the coloured number
    amount: QRect = field(default_factory=QRect)  # the amount; empty if the method has none
    bar: QRect = field(default_factory=QRect)
    lines: list[Line] = field(default_factory=list)  # the lines of text
    bottom: int = 0  # the lower end


class StepDelegate(QStyledItemDelegate):
    """Paints the rows of the stack, computes their sizes, and edits amounts in place."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        option = QStyleOptionViewItem(option)
        self.initStyleOption(option, index)
        style = option.widget.style() if option.widget else QApplication.style()
        panel = QStyle.PrimitiveElement.PE_PanelItemViewItem
        style.drawPrimitive(panel, option, painter, option.widget)
        card = self._card(option, index)
        enabled = option.checkState == Qt.CheckState.Checked
        check = QStyleOptionButton()
        check.rect, check.palette = card.box, QPalette(option.palette)
        # Fusion's outline is a darker shade of the window colour, invisible on a dark base.
        check.palette.setColor(QPalette.ColorRole.Window, option.palette.placeholderText().color())
        check.state = QStyle.StateFlag.State_Enabled
        check.state |= QStyle.StateFlag.State_On if enabled else QStyle.StateFlag.State_Off
        indicator = QStyle.PrimitiveElement.PE_IndicatorItemViewItemCheck
        style.drawPrimitive(indicator, check, painter, option.widget)

        painter.save()
        view_colours = colours(option.palette)
        fill = QColor(view_colours.badge(index.row() + 1) if enabled else view_colours.in_file)
        _paint_number(painter, card.badge, option.font, index.row() + 1, fill)
        for line in card.lines:
            painter.setFont(line.font)
            painter.setPen(line.colour)
            painter.drawText(line.rect, Qt.AlignmentFlag.AlignVCenter, line.text)
        _paint_bar(painter, card.bar, card.content.share, fill, option)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(option.palette.color(QPalette.ColorRole.Accent))
            painter.drawRect(option.rect.adjusted(0, 0, -1, -1))
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        view = option.widget
        width = DEFAULT_WIDTH_PX
        if isinstance(view, QAbstractItemView):
            width = view.viewport().width()
        own = QStyleOptionViewItem(option)  # the view uses its own for further items
        own.rect = QRect(0, 0, width, 0)
        self.initStyleOption(own, index)
        return QSize(120, self._card(own, index).bottom)

    def amount_rect(self, option: QStyleOptionViewItem, index: Index) -> QRect:
        own = QStyleOptionViewItem(option)
        self.initStyleOption(own, index)
        return self._card(own, index).amount

    def createEditor(  # noqa: N802
        self, parent: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> QWidget:
        editor = NumberBox(parent)
        editor.use_share(on=isinstance(index.data(Qt.ItemDataRole.EditRole), float))
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:  # noqa: N802
        assert isinstance(editor, NumberBox)
        if not editor.hasFocus() or not editor.lineEdit().isModified():
            amount = index.data(Qt.ItemDataRole.EditRole)
            if amount is not None:  # another step may have taken the row
                editor.setValue(100 * amount if editor.is_share else amount)
                editor.selectAll()

    def setModelData(  # noqa: N802
        self, editor: QWidget, model: QAbstractItemModel, index: Index
    ) -> None:
        assert isinstance(editor, NumberBox)
        before, value = index.data(Qt.ItemDataRole.EditRole), editor.value()
        if before is None:  # another step has taken the row
            return
        unchanged = round(100 * before if editor.is_share else before, editor.decimals())
        if value != unchanged:
            amount = value / 100 if editor.is_share else int(value)
            model.setData(index, amount, Qt.ItemDataRole.EditRole)

    def updateEditorGeometry(  # noqa: N802
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        size = QSize(EDITOR_WIDTH_PX, editor.sizeHint().height())
        right = option.rect.right() - MARGIN_PX // 2
        corner = QPoint(right - size.width(), option.rect.top() + MARGIN_PX // 2)
        editor.setGeometry(QRect(corner, size))

    def _card(self, option: QStyleOptionViewItem, index: Index) -> StepCard:
        style = option.widget.style() if option.widget else QApplication.style()
        indicator_rect = QStyle.SubElement.SE_ItemViewItemCheckIndicator
        box = style.subElementRect(indicator_rect, option, option.widget)
        badge = QRect(QPoint(box.right() + MARGIN_PX, option.rect.top() + MARGIN_PX), BADGE_PX)
        content: CardContent = index.data(CARD)
        card = StepCard(content, box, badge)
        left, right = badge.right() + MARGIN_PX, option.rect.right() - MARGIN_PX
        heading_font = bold(option.font)
        ink, faint, warning = _text_colours(option, known=content.is_known)
        plain = ink if option.checkState == Qt.CheckState.Checked else faint
        top, height = option.rect.top() + MARGIN_PX, option.fontMetrics.height()

        title_right = right
        if content.amount:
            width = QFontMetrics(heading_font).horizontalAdvance(content.amount)
            card.amount = QRect(right - width, top, width + 1, height)
            card.lines.append(Line(card.amount, content.amount, heading_font, plain))
            title_right = right - width - MARGIN_PX

        def add(text: str, font: QFont, colour: QColor, right: int = right) -> None:
            nonlocal top
            for part in fitted_lines(text, font, right - left, MAX_LINES):
                card.lines.append(Line(QRect(left, top, right - left, height), part, font, colour))
                top += height

        add(content.title, heading_font, plain, title_right)
        globs = content.targets.replace("!", "!\N{WORD JOINER}")  # no line ends with !
        add(globs, option.font, faint)
        add(content.outcome, option.font, warning if content.has_failed else plain)
        card.bar = QRect(left, top + 2, right - left, BAR_HEIGHT_PX)
        top += BAR_HEIGHT_PX + 4
        for note in content.limits:
            add(note, option.font, faint)
        for note in content.warnings:
            add(note, option.font, warning)
        card.bottom = top + MARGIN_PX - option.rect.top()
        return card


def fitted_lines(text: str, font: QFont, width: int, max_lines: int) -> list[str]:
    """Return a text in at most `max_lines` lines; the last one is elided in the middle."""
    metrics, layout = QFontMetrics(font), QTextLayout(text, font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    lines: list[str] = []
    layout.beginLayout()
    while len(lines) < max_lines - 1 and (line := layout.createLine()).isValid():
        line.setLineWidth(max(width, 1))
        lines.append(text[line.textStart() : line.textStart() + line.textLength()].strip())
    layout.endLayout()
    rest = text[sum(layout.lineAt(number).textLength() for number in range(len(lines))) :].strip()
    if rest:
        lines.append(metrics.elidedText(rest, Qt.TextElideMode.ElideMiddle, width))
    return lines


def _text_colours(option: QStyleOptionViewItem, *, known: bool) -> tuple[QColor, QColor, QColor]:
    """Return the colours of texts, of faint texts and of warnings, which are faint if outdated."""
    palette = option.palette
    if option.state & QStyle.StateFlag.State_Selected:
        selected = palette.color(QPalette.ColorRole.HighlightedText)
        return selected, selected, selected
    faint = palette.color(QPalette.ColorRole.PlaceholderText)
    warning = QColor(colours(palette).warning) if known else faint
    return palette.color(QPalette.ColorRole.Text), faint, warning


def _paint_number(painter: QPainter, badge: QRect, font: QFont, number: int, fill: QColor) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(fill)
    painter.drawRoundedRect(badge, 4, 4)
    painter.setPen(Qt.GlobalColor.white if fill.lightness() < 140 else Qt.GlobalColor.black)
    painter.setFont(bold(font))
    painter.drawText(badge, Qt.AlignmentFlag.AlignCenter, str(number))


def _paint_bar(
    painter: QPainter, rect: QRect, share: float | None, fill: QColor, option: QStyleOptionViewItem
) -> None:
    radius = rect.height() / 2
    painter.setPen(Qt.PenStyle.NoPen)
    selected = bool(option.state & QStyle.StateFlag.State_Selected)
    role = QPalette.ColorRole.HighlightedText if selected else QPalette.ColorRole.Text
    ink = option.palette.color(role)
    track = QColor(ink)
    track.setAlphaF(0.15)
    painter.setBrush(track)
    painter.drawRoundedRect(rect, radius, radius)
    if share:
        painter.setBrush(ink if selected else fill)
        filled = QRectF(rect)
        filled.setWidth(max(share * rect.width(), rect.height()))
        painter.drawRoundedRect(filled, radius, radius)
