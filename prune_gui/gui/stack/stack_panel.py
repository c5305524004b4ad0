"""The panel of the stack: what the file brings along, and the steps in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QListView,
    QStyleOptionViewItem,
    QToolButton,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.stack.stack_model import StackModel
from prune_gui.gui.stack.step_delegate import StepDelegate
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import TIGHT_PX, WIDE_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session.changes import Changes

MAX_STEPS: Final = 6  # limit of the past steps that are listed; the tool tip lists all
MAX_TARGETS_CHARS: Final = 80
ZEROS_TIP: Final = deferred(
    "Steps prune only the weights that are not zero in the file, and views show the zeros as pruned"
)
AGAIN_TIP: Final = deferred(
    "Replace the stack by the steps that made this file. They prune the weights that are left, so "
    "the file becomes sparser."
)


class StepList(QListView):
    """A list of cards, whose amounts are edited by a double click."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._delegate = StepDelegate(self)
        self.setItemDelegate(self._delegate)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)  # an action does it
        self.setResizeMode(QListView.ResizeMode.Adjust)  # the height of a card depends on its width

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

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._model = StackModel(workbench, self)
        self.list = StepList()
        self.list.setModel(self._model)
        self.list.setAccessibleName(tr("Stack of steps"))
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
        index = self.current
        if index is not None:
            self._workbench.edit(lambda session: session.remove(index))

    def duplicate(self) -> None:
        index = self.current
        if index is not None:
            self._workbench.edit(lambda session: session.duplicate(index))

    def switch(self) -> None:
        step = self.list.currentIndex()
        on = step.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        other = Qt.CheckState.Unchecked if on else Qt.CheckState.Checked
        self._model.setData(step, other, Qt.ItemDataRole.CheckStateRole)

    def move_step(self, by: int) -> None:
        index = self.current
        if index is not None:
            root = QModelIndex()
            self._model.moveRow(root, index, root, index + (2 if by > 0 else -1))
            self.current_changed.emit()

    def _select_inserted(self, _parent: QModelIndex, first: int, _last: int) -> None:
        self._empty.hide()
        self.list.setCurrentIndex(self._model.index(first))

    def _rows_removed(self) -> None:
        self._empty.setVisible(self.last < 0)
        self.current_changed.emit()


class StartPanel(QWidget):
    """Shows the start of the recipe, and the past steps of a file, if there are any."""

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self.zeros = QCheckBox(tr("Zeros in the file count as pruned"))
        self.zeros.setToolTip(tr(ZEROS_TIP))
        self.zeros.toggled.connect(self._start_from_zeros)
        self.past = QToolButton(autoRaise=True)
        self.past.setCheckable(True)
        self.past.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.past.toggled.connect(self._open_past)
        self._steps = QLabel(wordWrap=True)
        self._steps.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._steps.setContentsMargins(WIDE_PX, 0, 0, 0)
        self._steps.setAccessibleName(tr("Past steps"))
        self.again = layouts.button(
            tr("Apply the past steps again"), self._apply_again, tr(AGAIN_TIP)
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
        self._steps.setText("\n".join(lines[:MAX_STEPS] + rest))
        self._steps.setToolTip("\n".join(map(formatting.wrapped, lines)) if rest else "")

    def _open_past(self, opened: bool) -> None:
        self.past.setArrowType(Qt.ArrowType.DownArrow if opened else Qt.ArrowType.RightArrow)
        self._steps.setVisible(opened)
        self.again.setVisible(opened)

    def _apply_again(self) -> None:
        self._workbench.edit(lambda session: session.apply_past_recipe())

    def _show_start(self) -> None:
        session = self._workbench.session
        starts_from_zeros = session is not None and session.recipe.start == "zeros"
        self.zeros.setVisible(starts_from_zeros or self._workbench.unpruned_zeros > 0)
        with QSignalBlocker(self.zeros):
            self.zeros.setChecked(starts_from_zeros)

    def _start_from_zeros(self, on: bool) -> None:
        self._workbench.edit(lambda session: session.start_from_zeros(on=on))
