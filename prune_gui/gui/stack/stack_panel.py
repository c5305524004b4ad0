"""The panel of the stack: what the file brings along, and the steps, each painted as a card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPalette,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
    QToolButton,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.draft.amount_fields import NumberBox
from prune_gui.gui.stack.stack_model import CARD, CardContent, StackModel
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import Index
from prune_gui.gui.widgets.theme import TIGHT_PX, WIDE_PX, bold, colours
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import readable_on
from prune_gui.session.changes import Changes

ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
MAX_STEPS: Final = 6  # limit of the past steps that are listed; the tool tip lists all
MAX_TARGETS_CHARS: Final = 80
MODULE_END: Final = re.compile(r"\.(?=[^\d\s])")  # not in numbers
ZEROS_TIP: Final = deferred(
    "Steps prune only the weights that are not zero in the file, and views show the zeros as pruned"
)
AGAIN_TIP: Final = deferred(
    "Replace the stack by the steps that made this file. They prune the weights that are left, so "
    "the file becomes sparser."
)


class StepList(QListView):
    """A list of cards, whose amounts are edited by a double click."""

    def __init__(self) -> None:
        super().__init__()
        self._delegate = StepDelegate(self)
        self.setItemDelegate(self._delegate)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)  # an action does it
        self.setResizeMode(
            QListView.ResizeMode.Adjust
        )  # the height of a card depends on its width,
        self.setWordWrap(True)  # and Qt lays a list out again for a new width only with this

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Leave Ctrl+Return to the draft; the list would activate the step, which edits it."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier and event.key() in ENTER:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = event.position().toPoint()
        index = self.indexAt(at)
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        option.rect = self.visualRect(index)
        if index.isValid() and self._delegate.amount_rect(option, index).contains(at):
            self.edit(index)
        else:
            super().mouseDoubleClickEvent(event)


class StackPanel(QWidget):
    """The list of steps. The window provides the actions on steps through `offer`."""

    edit_wanted = Signal(int)  # (index) the user wants to edit this step in the form
    current_changed = Signal()

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._model = StackModel(workbench, self)
        self.list = layouts.described(StepList(), tr("Stack of steps"))
        self.list.setModel(self._model)
        self.list.setMinimumHeight(120)
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.list.activated.connect(lambda index: self.edit_wanted.emit(index.row()))
        self.list.selectionModel().currentChanged.connect(lambda: self.current_changed.emit())
        self._model.dataChanged.connect(self.list.scheduleDelayedItemsLayout)
        self._model.rowsInserted.connect(self._select_inserted)
        self._model.rowsRemoved.connect(self._rows_removed)
        self._failed_step = 0  # the number of the step that failed; 0 if none did
        workbench.changed.connect(self._show_failed_step)
        self._empty = layouts.remark(tr("No steps yet. Set one up above and add it."))
        self._buttons = QHBoxLayout()
        title = QLabel(tr("Stack"))
        title.setBuddy(self.list)
        heading = layouts.row(title, layouts.STRETCH, self._buttons)
        layouts.column(heading, StartPanel(workbench), self._empty, self.list, of=self)

    def offer(self, actions: Sequence[QAction], buttons: Sequence[QAction]) -> None:
        """Add actions to the list, with context menu and shortcuts; some also as buttons."""
        self.list.addActions(actions)
        for action in buttons:
            button = QToolButton()
            button.setDefaultAction(action)
            button.setAutoRaise(True)
            self._buttons.addWidget(button)

    @property
    def current(self) -> int | None:
        index = self.list.currentIndex()
        return index.row() if index.isValid() else None

    @property
    def last(self) -> int:
        """The index of the last step; -1 if there are no steps."""
        return self._model.rowCount() - 1

    def edit(self) -> None:
        if self.current is not None:
            self.edit_wanted.emit(self.current)

    @property
    def has_amount(self) -> bool:
        return bool(self.list.currentIndex().flags() & Qt.ItemFlag.ItemIsEditable)

    def edit_amount(self) -> None:
        if self.has_amount:
            self.list.edit(self.list.currentIndex())

    def remove(self) -> None:
        if (index := self.current) is not None:
            self._workbench.edit(lambda session: session.remove(index))

    def duplicate(self) -> None:
        if (index := self.current) is not None:
            self._workbench.edit(lambda session: session.duplicate(index))

    def switch(self) -> None:
        step = self.list.currentIndex()
        on = step.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        other = Qt.CheckState.Unchecked if on else Qt.CheckState.Checked
        self._model.setData(step, other, Qt.ItemDataRole.CheckStateRole)

    def move_step(self, by: int) -> None:
        if (index := self.current) is not None:
            root = QModelIndex()
            self._model.moveRow(root, index, root, index + (2 if by > 0 else -1))
            self.current_changed.emit()

    def _select_inserted(self, _parent: QModelIndex, first: int, _last: int) -> None:
        self._empty.hide()
        self.list.setCurrentIndex(self._model.index(first))

    def _show_failed_step(self, changes: Changes) -> None:
        """Scroll to a step that fails now, whose card says why."""
        if changes.resolution and (resolved := self._workbench.resolved) is not None:
            before, error = self._failed_step, resolved.error
            self._failed_step = error.step if error is not None else 0
            if self._failed_step not in (0, before):
                self.list.scrollTo(self._model.index(self._failed_step - 1))

    def _rows_removed(self) -> None:
        self._empty.setVisible(self.last < 0)
        self.current_changed.emit()


class StartPanel(QWidget):
    """Shows the start of the recipe, and the past steps of a file, if there are any."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self.zeros = QCheckBox(tr("Zeros in the file count as pruned"))
        self.zeros.setToolTip(tr(ZEROS_TIP))
        self.zeros.toggled.connect(
            lambda on: workbench.edit(lambda session: session.start_from_zeros(on=on))
        )
        self.past = layouts.tool_button(flat=True)
        self.past.setCheckable(True)
        self.past.toggled.connect(self._open_past)
        self._steps = ElidedLabel(tr("Past steps"))
        self._steps.setContentsMargins(WIDE_PX, 0, 0, 0)
        self.again = layouts.button(
            tr("Apply the past steps again"),
            lambda: workbench.edit(lambda session: session.apply_past_recipe()),
            tr(AGAIN_TIP),
        )
        parts = (self.past, self._steps, self.again, self.zeros)
        layout = layouts.column(*parts, of=self, margin=0, gap=TIGHT_PX)
        layout.setAlignment(self.again, Qt.AlignmentFlag.AlignLeft)
        workbench.changed.connect(self._on_changed)
        self._show_past()
        self._show_start()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._show_past()
        if changes.file or changes.recipe or changes.zeros or changes.resolution:
            self._show_start()

    def _show_past(self) -> None:
        session = self._workbench.session
        steps = session.past_steps if session is not None else ()
        self.past.setVisible(bool(steps))
        self.past.setChecked(False)
        self._open_past(opened=False)
        self.past.setText(tr("Already in this file: {steps}", steps=formatting.steps(len(steps))))
        lines = [
            tr(
                "{number}. {title}: {targets}",
                number=number,
                title=formatting.title(step),
                targets=one_line(formatting.targets(step), MAX_TARGETS_CHARS),
            )
            for number, step in enumerate(steps, start=1)
        ]
        more = len(lines) - MAX_STEPS
        rest = [tr("and {more:,} more", more=more)] if more > 0 else []
        if session is not None and session.made is not None and session.made.calibration:
            digest = session.made.calibration
            rest.append(tr("Reconstructed with calibration data {digest}", digest=digest))
        tip = "\n".join(map(formatting.wrapped, lines))
        self._steps.say("\n".join(lines[:MAX_STEPS] + rest), tip=tip)

    def _open_past(self, opened: bool) -> None:
        self.past.setArrowType(Qt.ArrowType.DownArrow if opened else Qt.ArrowType.RightArrow)
        self._steps.setVisible(opened)
        self.again.setVisible(opened)

    def _show_start(self) -> None:
        session = self._workbench.session
        starts_from_zeros = session is not None and session.recipe.start == "zeros"
        self.zeros.setVisible(starts_from_zeros or self._workbench.unpruned_zeros > 0)
        with QSignalBlocker(self.zeros):
            self.zeros.setChecked(starts_from_zeros)


MARGIN_PX: Final = 6
BADGE_PX: Final = QSize(24, 18)
BAR_HEIGHT_PX: Final = 4  # height of the bar with the sparsity of the step
MAX_LINES: Final = 2  # maximum number of lines of the title and of the targets
MAX_REASON_LINES: Final = 5  # of the reason why a step failed
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
        fill = QColor(colours(option.palette).of(index.row() + 1))
        if not enabled:
            fill = option.palette.placeholderText().color()
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
        width = DEFAULT_WIDTH_PX
        if isinstance(option.widget, QAbstractItemView):
            width = option.widget.viewport().width()
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
        ink, faint, toned = _text_colours(option, known=content.is_known)
        plain = ink if option.checkState == Qt.CheckState.Checked else faint
        top, height = option.rect.top() + MARGIN_PX, option.fontMetrics.height()

        title_right = right
        if content.amount:
            width = QFontMetrics(heading_font).horizontalAdvance(content.amount)
            card.amount = QRect(right - width, top, width + 1, height)
            card.lines.append(Line(card.amount, content.amount, heading_font, plain))
            title_right = right - width - MARGIN_PX

        def add(
            text: str, font: QFont, colour: QColor, right: int = right, lines: int = MAX_LINES
        ) -> None:
            nonlocal top
            for part in fitted_lines(text, font, right - left, lines):
                card.lines.append(Line(QRect(left, top, right - left, height), part, font, colour))
                top += height

        add(content.title, heading_font, plain, title_right)
        globs = content.targets.replace("!", "!\N{WORD JOINER}")  # no line ends with !
        add(globs, option.font, faint)
        outcome_lines = MAX_REASON_LINES if content.tone == "warning" else MAX_LINES
        add(content.outcome, option.font, toned.get(content.tone, plain), lines=outcome_lines)
        card.bar = QRect(left, top + 2, right - left, BAR_HEIGHT_PX)
        top += BAR_HEIGHT_PX + 4
        for note in content.limits:
            add(note, option.font, faint)
        for note in content.warnings:
            add(note, option.font, toned["warning"])
        card.bottom = top + MARGIN_PX - option.rect.top()
        return card


def fitted_lines(text: str, font: QFont, width: int, max_lines: int) -> list[str]:
    """Return a text in at most `max_lines` lines; the last one is elided in the middle.

    No line starts with "%". Names of parameters are divided after a dot, if they fit so.
    """
    text = MODULE_END.sub(rf"\g<0>{formatting.BREAK}", text.replace(" %", "\N{NO-BREAK SPACE}%"))
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
        whole = rest.replace(formatting.BREAK, "")
        lines.append(metrics.elidedText(whole, Qt.TextElideMode.ElideMiddle, width))
    return [line.replace(formatting.BREAK, "") for line in lines]


def _text_colours(
    option: QStyleOptionViewItem, *, known: bool
) -> tuple[QColor, QColor, dict[str, QColor]]:
    """Return the colours of texts, of faint texts and of tones, which are faint if outdated."""
    palette, tones = option.palette, ("warning", "caution")
    if option.state & QStyle.StateFlag.State_Selected:
        selected = palette.color(QPalette.ColorRole.HighlightedText)
        return selected, selected, dict.fromkeys(tones, selected)
    faint = palette.color(QPalette.ColorRole.PlaceholderText)
    toned = {tone: QColor(getattr(colours(palette), tone)) if known else faint for tone in tones}
    return palette.color(QPalette.ColorRole.Text), faint, toned


def _paint_number(painter: QPainter, badge: QRect, font: QFont, number: int, fill: QColor) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(fill)
    painter.drawRoundedRect(badge, 4, 4)
    painter.setPen(QColor(readable_on(fill.name())))
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
