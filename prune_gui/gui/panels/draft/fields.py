"""One parameter of a method as a person edits it: a widget for each type of field.

Every widget keeps the exact value it was given until the user changes it, so that a step goes
through the form unharmed.
"""

from __future__ import annotations

import types
import unicodedata
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from PySide6.QtCore import QEvent, QLocale, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent, QValidator
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QSpinBox,
    QToolButton,
    QWidget,
)

from prune_gui.gui.formatting import ranges
from prune_gui.gui.widgets.elided_line_edit import ElidedLineEdit
from prune_gui.gui.widgets.icons import icon
from prune_gui.language import later, number, tr

CHOICES: Final = {
    "local": later("local: each parameter by itself"),
    "global": later("global: all targets as one"),
    "row": later("row: each output row by itself"),
    "remaining": later("what remains"),
    "total": later("all there is"),
    "reach": later("all, as a total to reach"),
    "absolute": later("absolute: the number as it is"),
    "std": later("std: standard deviations of the tensor"),
    "refuse": later("refuse: a rest is an error"),
    "keep": later("keep: a rest stays whole"),
    "mask": later("mask: the file holds masks"),
    "zeros": later("zeros: those of a checkpoint"),
    "True": later("yes"),
    "False": later("no"),
}
"""How the values of a choice read in the window; others stand for themselves."""

LARGEST: Final = 2**31 - 1
ARABIC: Final = {"\N{ARABIC DECIMAL SEPARATOR}": "."}


class Field(QWidget):
    """The widget of one field.

    Attributes:
        inputs: what the user edits it with, from the left.
        entry: the one of them that the key of the label leads to. No focus proxy does that: the
            tab key would stop at the field too, wherever it stands in the order.

    Signals:
        changed: the user changed the value.
    """

    inputs: tuple[QWidget, ...]
    entry: QWidget
    changed = Signal()

    @abstractmethod
    def value(self) -> object:
        """Return what the field holds, for the method's model to validate."""

    @abstractmethod
    def set_value(self, value: object) -> None:
        """Show a value. Does not signal."""

    def describe(self, name: str, description: str) -> None:
        """Say what the field is, to the eye and to a screen reader."""
        self.setToolTip(description)
        self.inputs[0].setAccessibleName(name)
        self.inputs[0].setAccessibleDescription(description)

    def _lay_out(self, *inputs: QWidget) -> QHBoxLayout:
        self.inputs = inputs
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in inputs:
            layout.addWidget(widget)
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(False)  # a file is for the window, which opens it
        self.entry = inputs[0]
        return layout


class ChoiceField(Field):
    """One of a few words."""

    def __init__(self, choices: tuple[object, ...]) -> None:
        super().__init__()
        self._box = QComboBox()
        for choice in choices:
            text = CHOICES.get(str(choice))
            self._box.addItem(tr(text) if text else str(choice), choice)
        self._box.activated.connect(lambda _: self.changed.emit())
        self._lay_out(self._box)

    def value(self) -> object:
        """Return the chosen word."""
        return self._box.currentData()

    def set_value(self, value: object) -> None:
        """Choose a word; one that is no choice is taken for the first."""
        self._box.setCurrentIndex(max(self._box.findData(value), 0))


class IntegerField(Field):
    """A whole number."""

    def __init__(self) -> None:
        super().__init__()
        self._value: object = 0
        self._box = _WholeBox()
        self._box.setRange(-LARGEST, LARGEST)
        self._box.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._box.setMinimumWidth(110)
        self._box.valueChanged.connect(self._edited)
        self._lay_out(self._box).addStretch()

    def value(self) -> object:
        """Return the number."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show a number; one too large for the widget is kept nevertheless."""
        self._value = value
        if isinstance(value, int):
            self._box.blockSignals(True)
            self._box.setValue(max(-LARGEST, min(value, LARGEST)))
            self._box.blockSignals(False)

    def _edited(self, value: int) -> None:
        self._value = value
        self.changed.emit()


class _WholeBox(QSpinBox):
    """Takes the digits of any script."""

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        return super().validate(latin(text), at)


class TextField(Field):
    """A number or a word that the model has the say about."""

    def __init__(self, suggestions: tuple[str, ...], parse: Callable[[str], object]) -> None:
        super().__init__()
        self._parse = parse
        self._box = QComboBox()
        self._box.setEditable(True)
        self._box.addItems(suggestions)
        self._box.editTextChanged.connect(self._edited)
        self._value: object = None
        self._lay_out(self._box)

    def value(self) -> object:
        """Return what was typed, as a number if it is one."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show a number or a word."""
        self._value = value
        self._box.blockSignals(True)
        self._box.setEditText("" if value is None else as_typed(value))
        self._box.blockSignals(False)

    def _edited(self, text: str) -> None:
        self._value = self._parse(text.strip())
        self.changed.emit()


class LineField(Field):
    """A value that is typed and has no suggestions; the model has the say about the text."""

    def __init__(self, parse: Callable[[str], object], show: Callable[[object], str]) -> None:
        super().__init__()
        self._parse = parse
        self._show = show
        self._value: object = None
        self._line = ElidedLineEdit()
        self._line.textChanged.connect(self._edited)
        self._lay_out(self._line)

    def value(self) -> object:
        """Return what was typed, parsed."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show a value."""
        self._value = value
        self._line.blockSignals(True)
        self._line.setText("" if value is None else self._show(value))
        self._line.blockSignals(False)

    def _edited(self, text: str) -> None:
        self._value = self._parse(text.strip())
        self.changed.emit()


class PathField(Field):
    """A file, typed, looked for or dropped."""

    def __init__(self, *, optional: bool) -> None:
        super().__init__()
        self._value: object = None
        self._line = _PathLine(Qt.TextElideMode.ElideMiddle)
        self._line.setPlaceholderText(
            tr("none: rank the weights themselves") if optional else tr("a file")
        )
        self._line.setClearButtonEnabled(optional)
        self._line.textChanged.connect(self._edited)
        self._button = QToolButton()
        self._button.setIcon(icon("open"))
        self._button.setToolTip(tr("Look for the file"))
        self._button.setAccessibleName(tr("Browse for the file"))
        self._button.clicked.connect(self._browse)
        self._lay_out(self._line, self._button)
        self._line.setAcceptDrops(True)

    def value(self) -> object:
        """Return the path; None if there is none."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show a path."""
        self._value = value
        self._line.blockSignals(True)
        self._line.setText(str(value) if value else "")
        self._line.blockSignals(False)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._button.setIcon(icon("open"))
        super().changeEvent(event)

    def _edited(self, text: str) -> None:
        self._value = text.strip() or None
        self.changed.emit()

    def _browse(self) -> None:
        from prune_gui.gui.dialogs.questions import CHECKPOINTS

        path, _ = QFileDialog.getOpenFileName(self, tr("Choose a file"), "", tr(CHECKPOINTS))
        if path:
            self._line.setText(path)


class _PathLine(ElidedLineEdit):
    """Takes the path of a file that is dropped on it, in place of what it holds."""

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        if _file_in(event):
            event.acceptProposedAction()
        else:
            super().dragEnterEvent(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802
        if _file_in(event):
            event.acceptProposedAction()
        else:
            super().dragMoveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        if path := _file_in(event):
            self.setText(path)
            event.acceptProposedAction()
        else:
            super().dropEvent(event)


def _file_in(event: QDropEvent) -> str | None:
    """Return the path of the first file of this machine that is dragged, if any is."""
    urls = event.mimeData().urls()
    return next((url.toLocalFile() for url in urls if url.isLocalFile()), None)


def latin(text: str) -> str:
    """Return a text with the digits of any script as Latin ones, and the Arabic point as ours."""
    return "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else ARABIC.get(sign, sign)
        for sign in text
    )


def number_or_text(text: str) -> object:
    """Return a number if `text` is one, with a point or this person's decimal sign; else `text`."""
    written = latin(text).replace(QLocale().decimalPoint(), ".")
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return text


def as_typed(value: object) -> str:
    """Return the text from which `number_or_text` makes a value."""
    return number(value, "") if isinstance(value, float) else str(value)


def plain_field(described: FieldInfo) -> Field:
    """Return the widget for a field of a method other than its amount."""
    kinds = _kinds(described.annotation)
    extra = described.json_schema_extra
    if isinstance(extra, dict) and extra.get("format") == "path":
        return PathField(optional=not described.is_required())
    words = tuple(w for kind in kinds if get_origin(kind) is Literal for w in get_args(kind))
    if words and len(kinds) == 1:
        return ChoiceField(words)
    if kinds == [int]:
        return IntegerField()
    if kinds == [bool]:
        return ChoiceField((True, False))
    if kinds == [str]:
        return TextField((), str)
    if words:
        return TextField(("1", "2", "inf", *map(str, words)), number_or_text)
    if any(get_origin(kind) is tuple for kind in kinds):
        return LineField(str, ranges)
    return LineField(number_or_text, as_typed)


def _kinds(annotation: object) -> list[object]:
    """Return the alternatives of a type, without None and without what validates them."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        kinds = [kind for part in get_args(annotation) for kind in _kinds(part)]
        return [kind for kind in kinds if kind is not type(None)]
    if hasattr(annotation, "__metadata__"):
        return _kinds(get_args(annotation)[0])
    return [annotation]
