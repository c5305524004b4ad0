"""The panels of the window as a user finds them."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QSlider,
    QSpinBox,
    QWidget,
)

from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.draft.form import MethodForm
from prune_gui.gui.modules.tree_panel import TreePanel
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench


def choose(box: QComboBox, value: object) -> None:
    """Choose the entry of a box by its value or its text, as a click does."""
    index = box.findData(value)
    box.setCurrentIndex(index if index >= 0 else box.findText(str(value)))
    box.activated.emit(box.currentIndex())


def enter(field: QWidget, text: object) -> None:
    """Enter a text, or a number, in the input of a field."""
    for kind in (QDoubleSpinBox, QSpinBox, QComboBox, QPlainTextEdit, QLineEdit):
        if (found := field.findChild(kind)) is not None:
            if isinstance(found, QComboBox):
                found.setEditText(text)
            elif isinstance(found, QPlainTextEdit):
                found.setPlainText(text)
            elif isinstance(found, QLineEdit):
                found.setText(text)
            else:
                found.setValue(text)
            return
    raise LookupError(f"{field} has no input")


class Form:
    """The form for the fields of a method."""

    def __init__(self, form: MethodForm) -> None:
        self.form = form

    def row(self, name: str) -> QWidget:
        """Return the field of a name."""
        return self.form._fields[name]

    def enter(self, **values: object) -> None:
        """Enter texts or numbers in fields."""
        for name, value in values.items():
            enter(self.row(name), value)

    def message(self, name: str) -> str:
        """Return what is said below a field."""
        return self.form._messages[name].text()

    def shown(self, name: str) -> str:
        """Return the text in a field."""
        return self.row(name).findChild(QLineEdit).text()


def slide(draft: DraftPanel, percent: int) -> None:
    """Move the slider of the amount."""
    Form(draft.form).row("amount").findChild(QSlider).setValue(percent * 10)


def outcome(draft: DraftPanel) -> str:
    """Return what the panel says that the step would do."""
    return draft.outcome.effect.text()


def type_targets(draft: DraftPanel, globs: str) -> None:
    """Replace the targets, as if they were typed."""
    draft.targets.line.setText(globs)
    draft.targets.line.textEdited.emit(globs)


def select(window: MainWindow, path: str) -> None:
    """Select a node of the tree by its dotted path."""
    window.tree.tree.setCurrentIndex(tree_index(window.tree, path))


def errors(window: QWidget) -> QMessageBox | None:
    """Return the box that shows errors; None if it is not open."""
    return next((box for box in window.findChildren(QMessageBox) if box.isVisible()), None)


def is_idle(workbench: Workbench) -> bool:
    """Return whether no job is queued or running whose result is still to come."""
    return not workbench.bridge._waiting


def tree_index(panel: TreePanel, path: str) -> QModelIndex:
    """Return the index of a node of the tree by its dotted path."""
    return panel.tree.model().find(path)
