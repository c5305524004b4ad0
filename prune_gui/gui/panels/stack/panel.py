"""The panel of the stack: the steps of the recipe in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLabel,
    QListView,
    QStyleOptionViewItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.panels.stack.model import StackModel
from prune_gui.gui.panels.stack.start_panel import StartPanel
from prune_gui.gui.panels.stack.step_delegate import StepDelegate
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr


class StepList(QListView):
    """A list of cards, whose amounts are edited by a double click."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._delegate = StepDelegate(self)
        self.setItemDelegate(self._delegate)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)  # an action does it
        self.setResizeMode(QListView.ResizeMode.Adjust)  # the height of a card depends on its width

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Edit the amount if it is below the cursor."""
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
    """The list of steps. The window provides the actions on steps through `offer`.

    Signals:
        edit_wanted: (index) the user wants to edit this step in the form.
        current_changed: the current step changed.
    """

    edit_wanted = Signal(int)
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
        self.list.selectionModel().currentChanged.connect(self._current_changed)
        self._model.dataChanged.connect(self.list.scheduleDelayedItemsLayout)
        self._model.rowsInserted.connect(self._select_inserted)
        self._model.rowsRemoved.connect(self._rows_removed)
        self._empty = QLabel(tr("No steps yet. Set one up above and add it."))
        self._empty.setWordWrap(True)
        self._empty.setForegroundRole(self._empty.palette().ColorRole.PlaceholderText)
        self._buttons = QHBoxLayout()
        heading = QHBoxLayout()
        title = QLabel(tr("Stack"))
        title.setBuddy(self.list)
        heading.addWidget(title)
        heading.addStretch()
        heading.addLayout(self._buttons)
        layout = QVBoxLayout(self)
        layout.addLayout(heading)
        layout.addWidget(StartPanel(workbench))
        layout.addWidget(self._empty)
        layout.addWidget(self.list)

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
        """The index of the current step, from 0; None if there is none."""
        index = self.list.currentIndex()
        return index.row() if index.isValid() else None

    @property
    def last(self) -> int:
        """The index of the last step; -1 if there are no steps."""
        return self._model.rowCount() - 1

    def edit(self) -> None:
        """Load the current step into the form."""
        if self.current is not None:
            self.edit_wanted.emit(self.current)

    @property
    def has_amount(self) -> bool:
        """Whether the current step has an amount."""
        return bool(self.list.currentIndex().flags() & Qt.ItemFlag.ItemIsEditable)

    def edit_amount(self) -> None:
        """Edit the amount of the current step in its card."""
        if self.has_amount:
            self.list.edit(self.list.currentIndex())

    def remove(self) -> None:
        """Remove the current step."""
        index = self.current
        if index is not None:
            self._workbench.edit(lambda session: session.remove(index))

    def duplicate(self) -> None:
        """Insert a copy after the current step."""
        index = self.current
        if index is not None:
            self._workbench.edit(lambda session: session.duplicate(index))

    def switch(self) -> None:
        """Disable the current step, or enable it again."""
        step = self.list.currentIndex()
        on = step.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        other = Qt.CheckState.Unchecked if on else Qt.CheckState.Checked
        self._model.setData(step, other, Qt.ItemDataRole.CheckStateRole)

    def move_step(self, by: int) -> None:
        """Move the current step by -1 or +1 rows; it stays the current one."""
        index = self.current
        if index is not None:
            root = QModelIndex()
            self._model.moveRow(root, index, root, index + (2 if by > 0 else -1))
            self.current_changed.emit()

    def _current_changed(self) -> None:
        self.current_changed.emit()

    def _select_inserted(self, _parent: QModelIndex, first: int, _last: int) -> None:
        self._empty.hide()
        self.list.setCurrentIndex(self._model.index(first))

    def _rows_removed(self) -> None:
        self._empty.setVisible(self.last < 0)
        self.current_changed.emit()
