"""Widgets to edit one field of a method, one class per type of field.

A widget keeps the exact value that was set until the user changes it, so that the form never
changes a step by showing it.
"""

from __future__ import annotations

import types
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo
from PySide6.QtCore import QEvent, QLocale, QObject, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QKeySequence,
    QStandardItemModel,
    QValidator,
)
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from prune_gui.gui.dialogs.questions import checkpoint_filter
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLineEdit
from prune_gui.language import deferred, format_number, tr
from prune_gui.pruning.methods.channels import format_ranges
from prune_gui.pruning.methods.fields import text_of

YES_OR_NO: Final = {"True": deferred("yes"), "False": deferred("no")}
MAX_INT: Final = 2**31 - 1  # limit of `QSpinBox`
ARABIC_TO_LATIN: Final = {"\N{ARABIC DECIMAL SEPARATOR}": "."}


class UndoBeyond(QObject):
    """Leaves undo and redo to the window where a line has nothing to undo or redo itself."""

    def __init__(self, line: QLineEdit) -> None:
        super().__init__(line)
        self._line = line
        box = line.parentWidget()  # a spin box or combo box has the focus in place of its line
        (box if isinstance(box, QAbstractSpinBox | QComboBox) else line).installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            key, line = QKeySequence.StandardKey, self._line
            undoes = event.matches(key.Undo) and not line.isUndoAvailable()
            if undoes or (event.matches(key.Redo) and not line.isRedoAvailable()):
                event.ignore()
                return True
        return super().eventFilter(watched, event)


class WheelToScroll(QObject):
    """Leaves the wheel to the form, which scrolls, unless the input has the focus."""

    def watch(self, widget: QWidget) -> None:
        if widget.focusPolicy() == Qt.FocusPolicy.WheelFocus:  # the wheel would give it the focus
            widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Wheel and not cast(QWidget, watched).hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)


class Field(QWidget):
    """The widget of one field."""

    inputs: tuple[QWidget, ...]  # the input widgets, from the left
    focus_input: QWidget  # for the label. A focus proxy would make the field itself a tab stop
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._value: object = None
        self._showing = False

    def value(self) -> object:
        return self._value

    def set_value(self, value: object) -> None:
        """Show a value. Does not signal."""
        self._value = value
        self._showing = True
        self._show(value)
        self._showing = False

    @abstractmethod
    def _show(self, value: object) -> None:
        """Set what the inputs show."""

    def _edited(self, value: object) -> None:
        """Take a value that the user entered; `_show` enters none."""
        if not self._showing:
            self._value = value
            self.changed.emit()

    def error(self) -> str:
        """Return why the input cannot be used, "" if it can; the model validates the rest."""
        return ""

    def describe(self, name: str, description: str) -> None:
        self.setToolTip(description)
        self.inputs[0].setAccessibleName(name)
        self.inputs[0].setAccessibleDescription(description)

    def _lay_out(self, *inputs: QWidget) -> QHBoxLayout:
        layout = layouts.row(*inputs, of=self, margin=0)
        self._take_inputs(*inputs)
        return layout

    def _take_inputs(self, *inputs: QWidget) -> None:
        self.inputs = inputs
        self.focus_input = inputs[0]
        wheel = WheelToScroll(self)
        for one in inputs:
            wheel.watch(one)
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(False)  # the window handles dropped files
            UndoBeyond(line)


class ChoiceField(Field):
    """A choice among a few values; the first one if another value is set."""

    def __init__(self, choices: tuple[object, ...], texts: Mapping[str, str]) -> None:
        super().__init__()
        self._box = ElidedComboBox()
        for choice in choices:
            text = texts.get(str(choice))
            self._box.addItem(tr(text) if text else str(choice), choice)
        self._box.activated.connect(lambda _: self._edited(self._box.currentData()))
        self._lay_out(self._box)
        self.set_value(choices[0])

    def enable_only(self, choices: Collection[object]) -> None:
        """Make the other choices faint: they cannot be chosen."""
        model = self._box.model()
        assert isinstance(model, QStandardItemModel)
        for row in range(model.rowCount()):
            model.item(row).setEnabled(self._box.itemData(row) in choices)

    def _show(self, value: object) -> None:
        self._box.setCurrentIndex(max(self._box.findData(value), 0))
        self._value = self._box.currentData()


class IntegerField(Field):
    """A whole number. `value` is exact even if it exceeds the limit of the widget."""

    def __init__(self) -> None:
        super().__init__()
        self._value = 0
        self._box = _IntegerBox()
        self._box.setRange(-MAX_INT, MAX_INT)
        self._box.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._box.setMinimumWidth(110)
        self._box.valueChanged.connect(self._edited)
        self._lay_out(self._box).addStretch()

    def _show(self, value: object) -> None:
        if isinstance(value, int):
            self._box.setValue(max(-MAX_INT, min(value, MAX_INT)))


class _IntegerBox(QSpinBox):
    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        return super().validate(latin(text), at)


class SuggestionField(Field):
    """A typed number or word with suggestions; the model validates it."""

    def __init__(self, suggestions: tuple[str, ...], parse: Callable[[str], object]) -> None:
        super().__init__()
        self._box = QComboBox()
        self._box.setEditable(True)
        self._box.addItems(suggestions)
        self._box.editTextChanged.connect(lambda text: self._edited(parse(text.strip())))
        self._lay_out(self._box)

    def _show(self, value: object) -> None:
        self._box.setEditText("" if value is None else as_typed(value))


class LineField(Field):
    """A typed value without suggestions; the model validates it."""

    def __init__(self, parse: Callable[[str], object], show: Callable[[object], str]) -> None:
        super().__init__()
        self._text_of = show
        self._line = ElidedLineEdit()
        self._line.textChanged.connect(lambda text: self._edited(parse(text.strip())))
        self._lay_out(self._line)

    def _show(self, value: object) -> None:
        self._line.setText("" if value is None else self._text_of(value))


class PathField(Field):
    """The path of a file: typed, chosen in a dialog, or dropped."""

    def __init__(self, *, optional: bool, is_text: bool = False, placeholder: str = "") -> None:
        super().__init__()
        self._is_text = is_text
        self._line = _PathLine(Qt.TextElideMode.ElideMiddle)
        if is_text:
            placeholder = tr("a text file")
        elif not placeholder:
            placeholder = tr("none: rank the weights themselves") if optional else tr("a file")
        self._line.setPlaceholderText(placeholder)
        self._line.setClearButtonEnabled(optional)
        self._line.textChanged.connect(lambda text: self._edited(text.strip() or None))
        self._button = layouts.tool_button("", self._browse, tr("Look for the file"), icon="open")
        self._button.setAccessibleName(tr("Browse for the file"))
        self._lay_out(self._line, self._button)
        self._line.setAcceptDrops(True)

    def _show(self, value: object) -> None:
        self._line.setText(str(value) if value else "")

    def _browse(self) -> None:
        texts = tr("Text files (*.txt);;All files (*)")
        names = texts if self._is_text else checkpoint_filter()
        path, _ = QFileDialog.getOpenFileName(self, tr("Choose a file"), "", names)
        if path:
            self._line.setText(path)


class _PathLine(ElidedLineEdit):
    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        if not self._accepts(event):
            super().dragEnterEvent(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802
        if not self._accepts(event):
            super().dragMoveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        if path := self._accepts(event):
            self.setText(path)
        else:
            super().dropEvent(event)

    def _accepts(self, event: QDropEvent) -> str:
        """Accept a drag of local files, and return the path of the first; "" if it has none."""
        urls = event.mimeData().urls()
        path = next((url.toLocalFile() for url in urls if url.isLocalFile()), "")
        if path:
            event.acceptProposedAction()
        return path


def latin(text: str) -> str:
    """Return a text with Latin digits for those of any script, and "." for the Arabic point."""
    return "".join(
        str(unicodedata.decimal(char)) if char.isdecimal() else ARABIC_TO_LATIN.get(char, char)
        for char in text
    )


def number_or_text(text: str) -> object:
    """Return `text` as a number, with "." or the locale's decimal sign; else `text` unchanged."""
    normalized = latin(text).replace(QLocale().decimalPoint(), ".")
    for number_type in (int, float):
        try:
            return number_type(normalized)
        except ValueError:
            continue
    return text


def as_typed(value: object) -> str:
    """Return the text that `number_or_text` parses to `value`."""
    return format_number(value, "") if isinstance(value, float) else str(value)


def _ranges(channels: object) -> str:
    return format_ranges(channels) if isinstance(channels, tuple) else str(channels)


def format_of(field_info: FieldInfo) -> object:
    """Return the format in the JSON schema of a field, such as "path" or "share"; else None."""
    extra = field_info.json_schema_extra
    return extra.get("format") if isinstance(extra, dict) else None


def plain_field(field_info: FieldInfo) -> Field:
    """Return a new widget for a field of a method, except for amounts and shares."""
    alternatives, format_ = _alternatives(field_info.annotation), format_of(field_info)
    if format_ in ("path", "text-path"):
        optional, meaning = not field_info.is_required(), tr(text_of(field_info).placeholder)
        return PathField(optional=optional, is_text=format_ == "text-path", placeholder=meaning)
    words = tuple(w for kind in alternatives if get_origin(kind) is Literal for w in get_args(kind))
    if words and len(alternatives) == 1:
        return ChoiceField(words, text_of(field_info).choices)
    if alternatives == [int]:
        return IntegerField()
    if alternatives == [bool]:
        return ChoiceField((True, False), YES_OR_NO)
    if alternatives == [str]:
        return SuggestionField((), str)
    if words:
        return SuggestionField(tuple(map(str, field_info.examples or words)), number_or_text)
    if any(get_origin(kind) is tuple for kind in alternatives):
        return LineField(str, _ranges)
    return LineField(number_or_text, as_typed)


def _alternatives(annotation: object) -> list[object]:
    """Return the members of a union type, without None and without `Annotated` metadata."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        alternatives = [kind for part in get_args(annotation) for kind in _alternatives(part)]
        return [kind for kind in alternatives if kind is not type(None)]
    if hasattr(annotation, "__metadata__"):
        return _alternatives(get_args(annotation)[0])
    return [annotation]
