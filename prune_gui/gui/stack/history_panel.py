"""The panel with the history of the stack and its named states."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QInputDialog,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import agree
from prune_gui.gui.formatting import steps
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX, bold
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session import Session
from prune_gui.session.changes import Changes

STATE: Final = deferred("{name}  ({steps})")
STATE_NOW: Final = deferred("{name}  ({steps}, current)")


class HistoryPanel(QWidget):
    """Lists the history, where a click returns to an entry, and the named states below."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self.entry_list = layouts.described(QListWidget(), tr("History of the stack"))
        for acted in (self.entry_list.itemClicked, self.entry_list.itemActivated):
            acted.connect(self._go)
        self.named = layouts.described(QListWidget(), tr("Named states of the stack"))
        self.named.itemActivated.connect(self._return)
        self.named.currentRowChanged.connect(self._enable)
        self.name = layouts.button(
            tr("Name this state…"),
            self._name,
            tr(
                "Save the current state of the stack under a name, to return to it or compare with "
                "it. It is available whenever this checkpoint is open."
            ),
        )
        self.back = layouts.button(tr("Return to it"), self._return)
        self.remove = layouts.button(tr("Remove"), self._remove)
        heading = QLabel(tr("Named states"))
        heading.setBuddy(self.named)
        buttons = layouts.row(self.name, self.back, self.remove)
        parts = ((self.entry_list, 2), heading, (self.named, 1), buttons)
        layouts.column(*parts, of=self, margin=GAP_PX)
        workbench.changed.connect(self._on_changed)
        self._show()

    def _on_changed(self, changes: Changes) -> None:
        if changes.recipe:
            self._show()

    def _show(self) -> None:
        session = self._workbench.session
        self.setEnabled(session is not None)
        chosen = self._chosen_name()
        self.entry_list.clear()
        if session is None:
            self.named.clear()
            return
        history = session.history
        for index, entry in enumerate(history.edits):
            count = steps(len(entry.recipe.steps))
            item = QListWidgetItem(tr(STATE, name=one_line(entry.label), steps=count))
            if index == history.current_edit:
                item.setFont(bold(item.font()))
            elif index > history.current_edit:
                item.setForeground(self.palette().placeholderText())
                item.setToolTip(tr("Undone: click to redo"))
            self.entry_list.addItem(item)
        self.entry_list.setCurrentRow(history.current_edit)
        # A list without a current row would disable the focused button.
        with QSignalBlocker(self.named):
            self._show_named(session, chosen)
        self._enable()

    def _show_named(self, session: Session, chosen: str | None) -> None:
        self.named.clear()
        for name, recipe in session.named_states.items():
            message = STATE_NOW if recipe == session.recipe else STATE
            item = QListWidgetItem(tr(message, name=one_line(name), steps=steps(len(recipe.steps))))
            item.setData(Qt.ItemDataRole.UserRole, name)
            self.named.addItem(item)
            if name == chosen:
                self.named.setCurrentItem(item)

    def _enable(self) -> None:
        chosen = self._chosen_name() is not None
        self.back.setEnabled(chosen)
        self.remove.setEnabled(chosen)

    def _go(self, item: QListWidgetItem) -> None:
        index = self.entry_list.row(item)
        self._workbench.edit(lambda session: session.go_to_edit(index))

    def _name(self) -> None:
        text, agreed = QInputDialog.getText(self, tr("Name this state"), tr("Name:"))
        name, session = text.strip(), self._workbench.session
        if not agreed or not name or session is None:
            return
        if name in session.named_states:
            question = one_line(tr("A state {name} already exists. Replace it?", name=name))
            if not agree(self, tr("Replace the named state?"), question, tr("&Replace")):
                return
        self._workbench.edit(lambda session: session.name_state(name))

    def _return(self) -> None:
        if (name := self._chosen_name()) is not None:
            self._workbench.edit(lambda session: session.return_to(name))

    def _remove(self) -> None:
        if (name := self._chosen_name()) is not None:
            self._workbench.edit(lambda session: session.forget_state(name))

    def _chosen_name(self) -> str | None:
        item = self.named.currentItem()
        return item.data(Qt.ItemDataRole.UserRole) if item else None
