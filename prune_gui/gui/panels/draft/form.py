"""The parameters of a method as a form, made from the fields of its model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QLabel, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.panels.draft.amount_field import AmountField
from prune_gui.gui.panels.draft.fields import Field, plain_field
from prune_gui.gui.runtime.locale import plain
from prune_gui.gui.widgets.message import Message
from prune_gui.language import later, tr
from prune_gui.pruning.methods import Method, ScoredMethod, summary_of
from prune_gui.pruning.validation_messages import validation_message

LABELS: Final = {
    "amount": later("Amo&unt"),
    "amount_of": later("Share &of"),
    "max_sparsity": later("Max sparsity"),
    "scope": later("S&cope"),
    "dim": later("D&imension"),
    "n": later("Norm"),
    "seed": later("Seed"),
    "importance": later("Scores"),
    "moved_from": later("Moved from"),
    "mask": later("Mas&ks"),
    "take": later("Take"),
    "value": later("&Below"),
    "relative_to": later("Relative to"),
    "height": later("Height"),
    "width": later("Width"),
    "flatten": later("Flatten"),
    "tail": later("Tail"),
    "channels": later("Channels"),
    "n_m.n": later("&Keep"),
    "n_m.m": later("Of each"),
}
"""How fields are called in the window, in one method alone if it is named; those of plug-ins by
their names. No key is that of a menu or a tab.
"""


def summary(method: type[Method]) -> str:
    """Return what a method does, in a sentence."""
    return one_line(tr(summary_of(method)))


def row_label(text: str, entry: QWidget) -> QLabel:
    """Return the label of a row, whose key leads to an input.

    Labels are of one width, so that all fields begin in line.
    """
    label = QLabel(text)
    label.setBuddy(entry)
    width = label.fontMetrics().horizontalAdvance
    labels = (tr(known).replace("&", "") for known in LABELS.values())
    label.setMinimumWidth(max(width(f"{known} ") for known in labels))
    return label


class MethodForm(QWidget):
    """A row for each field, a message under those that cannot be so.

    Signals:
        changed: the user changed a field.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._method: type[Method] | None = None
        self._fields: dict[str, Field] = {}
        self._messages: dict[str, Message] = {}
        self._rows = QWidget()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._rows)

    @property
    def method_type(self) -> type[Method] | None:
        """The class of the method whose parameters are asked for."""
        return self._method

    def use(self, method: type[Method]) -> None:
        """Ask for the parameters of a method; what was changed and is called alike is kept."""
        changed = self._changed()
        self._method = method
        self._make_rows(method)
        for name, described in method.model_fields.items():
            field = self._fields[name]
            kind, value = changed.get(name, (None, None))
            if kind is type(field):
                field.set_value(value)
            elif not described.is_required():
                field.set_value(described.default)
        self._say({})

    def show_method(self, method: Method) -> None:
        """Show the parameters that a method has."""
        self.use(type(method))
        for name, field in self._fields.items():
            field.set_value(getattr(method, name))

    def method(self, folder: Path | None = None) -> Method | None:
        """Return the method as the fields have it; None, and messages, if it cannot be so.

        Args:
            folder: in which files with relative paths are; None: the current folder.
        """
        if self._method is None:
            return None
        values = {name: field.value() for name, field in self._fields.items()}
        given = {name: value for name, value in values.items() if value is not None}
        try:
            method = self._method.model_validate(given, context=folder)
        except ValidationError as error:
            self._say(_messages(self._method, error))
            return None
        self._say({})
        return method

    @property
    def inputs(self) -> list[QWidget]:
        """What the user edits the fields with, from the top."""
        return [widget for field in self._fields.values() for widget in field.inputs]

    def set_value(self, name: str, value: object) -> None:
        """Change a field as if the user had, if the method has one of that name."""
        field = self._fields.get(name)
        if field is not None:
            field.set_value(value)
            self.changed.emit()

    def _changed(self) -> dict[str, tuple[type[Field], object]]:
        """Return the fields that are not as their method has them by default."""
        described = self._method.model_fields if self._method else {}
        return {
            name: (type(field), field.value())
            for name, field in self._fields.items()
            if field.value() != described[name].default
        }

    def _make_rows(self, method: type[Method]) -> None:
        rows = QWidget()
        form = QFormLayout(rows)
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._fields, self._messages = {}, {}
        # What else to rank by comes last, wherever a method inherits it.
        for name, described in sorted(
            method.model_fields.items(), key=lambda item: item[0] in ScoredMethod.model_fields
        ):
            field = AmountField(method.unit) if name == "amount" else plain_field(described)
            known = LABELS.get(f"{method.name}.{name}", LABELS.get(name))
            text = tr(known) if known else name.replace("_", " ").capitalize()
            description = _description(described)
            label = row_label(text, field.entry)
            label.setToolTip(description)
            field.describe(plain(text), description)
            field.changed.connect(self.changed)
            message = Message()
            form.addRow(label, field)
            form.addRow("", message)
            self._fields[name], self._messages[name] = field, message
        layout = self.layout()
        assert layout is not None
        layout.replaceWidget(self._rows, rows)
        self._rows.hide()
        self._rows.deleteLater()
        self._rows = rows

    def _say(self, messages: dict[str, str]) -> None:
        for name, message in self._messages.items():
            message.say(messages.get(name, ""))


def _description(field: FieldInfo) -> str:
    return one_line(tr(field.description)) if field.description else ""


def _messages(method: type[Method], error: ValidationError) -> dict[str, str]:
    """Return what is wrong, in a sentence for each field."""
    messages: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        reason = validation_message(problem)
        name = _place(method, problem["loc"], reason)
        missing = problem["type"] == "missing"
        text = tr("Still needed.") if missing else reason
        messages.setdefault(name, []).append(f"{text[:1].upper()}{text[1:]}")
    return {
        # Several for one field are the alternatives of its type: its description names them.
        name: found[0] if len(found) == 1 else _description(method.model_fields[name]) or found[0]
        for name, found in messages.items()
    }


def _place(method: type[Method], where: tuple[int | str, ...], text: str) -> str:
    """Return the field of a problem: of one of several fields, the last that the text names."""
    if where:
        return str(where[0])
    words = re.findall(r"\w+", text, re.ASCII)  # names of fields are such in every language
    named = [name for name in method.model_fields if name in words]
    return (named or list(method.model_fields))[-1]
