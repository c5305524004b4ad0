"""The box that chooses a method, and the form for its fields, made from its pydantic model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QIcon, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QLabel, QTreeView, QWidget

from prune_gui.engine import Job
from prune_gui.errors import one_line
from prune_gui.gui.draft.amount_fields import AmountField, AmountsField, ShareField
from prune_gui.gui.draft.fields import ChoiceField, Field, format_of, plain_field
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import bold, icon
from prune_gui.language import deferred, language, tr, trn
from prune_gui.pruning.methods import METHODS, Method, ScoredMethod, summary_of
from prune_gui.pruning.methods.coupled import SPACE_CHOICES
from prune_gui.pruning.methods.fields import GROUPS, text_of
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.resources import resource
from prune_gui.session.amount_from_cut import DraggedAmount, FindSetting

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods.base import Setting


def row_label(text: str, focus_input: QWidget) -> QLabel:
    """Return the label of a row, with `focus_input` as its buddy.

    All labels have the same minimum width, so that the fields are aligned.
    """
    label = QLabel(text)
    label.setBuddy(focus_input)
    width = _label_width(tuple(METHODS.values()), language(), label.font().toString())
    label.setMinimumWidth(width)
    return label


@lru_cache(maxsize=4)
def _label_width(methods: tuple[type[Method], ...], _language: str, font_name: str) -> int:
    """Return the width of the widest label; to translate all of them takes long."""
    font = QFont()
    font.fromString(font_name)
    width = QFontMetrics(font).horizontalAdvance
    fields = (field for method in methods for field in method.model_fields.values())
    labels = {tr(text_of(field).label).replace("&", "") for field in fields}
    return max(width(f"{one} ") for one in labels)


class MethodForm(QWidget):
    """A form with a row for each field, and a message below each invalid field.

    Fields whose text says so are below *More*, which stays open or folded when the method changes.
    """

    changed = Signal()
    fold_toggled = Signal(bool)  # (open) the user opened or folded *More*

    def __init__(self) -> None:
        super().__init__()
        self.method_type: type[Method] = Method  # whose fields are shown
        self._fields: dict[str, Field] = {}
        self._initial: dict[str, object] = {}
        self._messages: dict[str, Message] = {}
        self._rows = QWidget()
        self.fold = Fold(QWidget(), self._rows)
        self._layout = layouts.column(self._rows, of=self, margin=0)

    def use(self, method: type[Method]) -> None:
        """Show the fields of another method. Changed values of fields with equal names are kept."""
        changed, self.method_type = self._changed(), method
        self._make_rows(method)
        for name, field_info in method.model_fields.items():
            field = self._fields[name]
            if not field_info.is_required():
                field.set_value(field_info.default)
            self._initial[name] = field.value()
            kind, value = changed.get(name, (None, None))
            if kind is type(field):
                field.set_value(value)
        self._show_messages({})
        self._values_changed()

    def reset(self, method: type[Method]) -> None:
        if method is not self.method_type:  # making the fields takes longer than a frame
            self._fields = {}  # their values are not kept
            self.use(method)
            return
        self._show_messages({})
        self.show_values(self._initial)

    def show_method(self, method: Method) -> None:
        self.use(type(method))
        self.show_values(dict(method))

    @property
    def values(self) -> dict[str, object]:
        return {name: field.value() for name, field in self._fields.items()}

    def show_values(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            self._fields[name].set_value(value)
        self._values_changed()

    def enable_only(self, name: str, choices: Collection[object]) -> None:
        """Let the user choose only these values of a field."""
        field = self._fields.get(name)
        if isinstance(field, ChoiceField):
            field.enable_only(choices)

    def method(self, folder: Path | None = None) -> Method | None:
        """Return the method with the values of the fields; None, and show messages, if invalid."""
        unused = self._unused()
        used = {name: field for name, field in self._fields.items() if name not in unused}
        given = {name: field.value() for name, field in used.items() if field.value() is not None}
        errors = {name: error for name, field in used.items() if (error := field.error())}
        method = None
        if not errors:
            try:
                method = self.method_type.model_validate(given, context=folder)
            except ValidationError as error:
                errors = _messages(self.method_type, error)
        self._show_messages(errors)
        return method

    @property
    def problem(self) -> tuple[QWidget, str] | None:
        """The input of the first invalid field, and what is wrong with it; None if none is."""
        for name, message in self._messages.items():
            if message.text():
                place = self._fields[name].inputs[0]
                label = place.accessibleName()
                return place, tr("{name}: {note}", name=label, note=message.text())
        return None

    @property
    def inputs(self) -> list[QWidget]:
        """The input widgets of all fields and the button of the fold, from the top."""
        inputs: tuple[list[QWidget], list[QWidget]] = [], [self.fold.button]
        for field in self._fields.values():
            inputs[self.fold.isAncestorOf(field)].extend(field.inputs)
        return [*inputs[False], *inputs[True]]

    def set_value(self, name: str, value: object) -> None:
        """Change a field as if the user did, if the method has it."""
        field = self._fields.get(name)
        if field is not None:
            field.set_value(value)
            self._values_changed()
            self.changed.emit()

    def _changed(self) -> dict[str, tuple[type[Field], object]]:
        """Return the widget class and the value of each field with a non-default value."""
        field_info = self.method_type.model_fields
        return {
            name: (type(field), field.value())
            for name, field in self._fields.items()
            if field.value() != field_info[name].default
        }

    def _make_rows(self, method: type[Method]) -> None:
        """Make the rows of the main fields, and below *More* the others; general ones come last."""
        content, folded = QWidget(), QWidget()
        forms = layouts.form(), layouts.form()
        folded.setLayout(forms[True])
        forms[True].setContentsMargins(0, 0, 0, 0)
        self._fields, self._initial, self._messages = {}, {}, {}
        texts = {name: text_of(field_info) for name, field_info in method.model_fields.items()}
        for name in sorted(
            texts, key=lambda name: (texts[name].folded, name in ScoredMethod.model_fields)
        ):
            field_info, text = method.model_fields[name], texts[name]
            field = _field(name, field_info, method)
            label_text = tr(text.label) or name.replace("_", " ").capitalize()
            description = _description(field_info)
            label = row_label(label_text, field.focus_input)
            label.setToolTip(description)
            field.describe(without_mnemonics(label_text), description)
            field.changed.connect(self.changed)
            field.changed.connect(self._values_changed)
            message = Message()
            forms[text.folded].addRow(label, field)
            forms[text.folded].addRow("", message)
            self._fields[name], self._messages[name] = field, message
        was_open = self.fold.is_open
        self.fold = Fold(folded, content)
        self.fold.open(on=was_open)
        self.fold.toggled.connect(self.fold_toggled)
        self.fold.setVisible(any(text.folded for text in texts.values()))
        layouts.column(forms[False], self.fold, of=content, margin=0)
        self._layout.replaceWidget(self._rows, content)
        self._rows.hide()
        self._rows.deleteLater()
        self._rows = content

    def _unused(self) -> Collection[str]:
        return self.method_type.unused_fields(self.values)

    def _values_changed(self) -> None:
        """Disable the fields that have no effect now, and count the changed ones below *More*."""
        unused, fields = self._unused(), self.method_type.model_fields
        for name, field in self._fields.items():
            field.setEnabled(name not in unused)
        changed = [name for name in self._changed() if text_of(fields[name]).folded]
        text = trn("More ({count} changed)", "More ({count} changed)", len(changed))
        self.fold.button.setText(text if changed else tr("More"))

    def _show_messages(self, messages: dict[str, str]) -> None:
        for name, message in self._messages.items():
            message.say(messages.get(name, ""))
            if name in messages and self.fold.isAncestorOf(self._fields[name]):
                self.fold.open()


def _field(name: str, field_info: FieldInfo, method: type[Method]) -> Field:
    if name == "amount":
        return AmountField(method.unit)
    if format_of(field_info) == "amounts":
        return AmountsField(tr(text_of(field_info).placeholder))
    return ShareField() if format_of(field_info) == "share" else plain_field(field_info)


def _description(field: FieldInfo) -> str:
    return one_line(tr(field.description)) if field.description else ""


def _messages(method: type[Method], error: ValidationError) -> dict[str, str]:
    """Return the problems of a validation as one sentence per field."""
    messages: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        reason = validation_message(problem)
        name = _field_of(method, problem["loc"], reason)
        missing = problem["type"] == "missing"
        text = tr("Required.") if missing else reason
        messages.setdefault(name, []).append(f"{text[:1].upper()}{text[1:]}")
    return {
        # Several messages of one field are those of a union type: its description names the types.
        name: texts[0] if len(texts) == 1 else _description(method.model_fields[name]) or texts[0]
        for name, texts in messages.items()
    }


def _field_of(method: type[Method], where: tuple[int | str, ...], text: str) -> str:
    """Return the field of a problem; if it concerns several, the last one that the text names."""
    if where:
        return str(where[0])
    words = re.findall(r"\w+", text, re.ASCII)  # field names are not translated
    named = [name for name in method.model_fields if name in words]
    return (named or list(method.model_fields))[-1]


class Fold(QWidget):
    """A button with an arrow, and a content below it that the button shows and hides."""

    toggled = Signal(bool)  # (open) the user opened or closed the fold

    def __init__(self, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.content = content
        self.button = layouts.tool_button(act=self._toggle, flat=True)
        layouts.column(self.button, content, of=self, margin=0)
        self.open(on=False)

    @property
    def is_open(self) -> bool:
        return not self.content.isHidden()

    def open(self, *, on: bool = True) -> None:
        """Show or hide the content. Does not signal."""
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.content.setVisible(on)

    def _toggle(self) -> None:
        self.open(on=not self.is_open)
        self.toggled.emit(self.is_open)


class CutFollower:
    """Computes the setting for each dragged cut on the engine's thread.

    The next cut waits until the outcome of the previous one is shown, so that fast dragging does
    not block updates of the views. Of several waiting cuts, only the latest is computed.
    """

    def __init__(self, workbench: Workbench, form: MethodForm) -> None:
        self._workbench = workbench
        self._form = form
        self._pending: FindSetting | None = None
        self._ticket: int | None = None

    def apply(self, find: FindSetting) -> None:
        workbench = self._workbench
        session, draft, number = workbench.session, workbench.draft.current, workbench.draft_number
        outdated = workbench.resolved is not None and workbench.resolved.draft != draft
        if outdated or workbench.bridge.waits_for(self._ticket):
            self._pending = find
            return
        if not (session and workbench.shown and draft and number and workbench.chosen):
            return
        if workbench.chosen not in workbench.shown.outcomes[number - 1].pruned:
            return  # the cut was dragged in a picture of the previous parameter
        moved = DraggedAmount(session, draft.step, workbench.shown, number, workbench.chosen)

        def then(setting: Setting | None) -> None:
            before = workbench.draft.current
            if setting is not None and before and before.step.method.name == draft.step.method.name:
                self._form.set_value(*moved.for_parameter(setting))
            if workbench.draft.current == before:  # no new outcome follows to trigger this
                self.catch_up()

        self._ticket = workbench.bridge.run_job(
            "cut", lambda monitor: find(moved, monitor=monitor), then
        )

    def catch_up(self) -> None:
        """Handle the latest cut that was dragged while the previous one was computed."""
        find, self._pending = self._pending, None
        if find is not None and self._workbench.draft.current is not None:
            self.apply(find)


def choose_units(workbench: Workbench, form: MethodForm, chosen: Callable[[], None]) -> None:
    """Offer the kinds of units that the checkpoint has, and choose one if the form has another.

    What is wrong with a table of them is told by the outcome of the draft.
    """
    session, kind = workbench.session, form.values.get("space")
    if session is None or kind is None:
        return
    table = session.recipe.table_path

    def find(_: Monitor) -> list[str]:
        from prune_gui.architecture.groups import spaces  # yaml: slow to import

        return [one for one in spaces(session.checkpoint, table) if one in SPACE_CHOICES]

    def choose(found: list[str]) -> None:
        if session is not workbench.session or not found:
            return
        form.enable_only("space", found)
        if form.values.get("space") == kind not in found:
            form.show_values({"space": found[0]})
            chosen()

    title = deferred("Looking for units in {name}", name=session.checkpoint.path.name)
    workbench.bridge.run(Job(title, find, lane="draft.units"), choose, lambda _: None)


MASK_PX: Final = QSize(24, 24)  # size of the picture of a mask
ICON_PX: Final = QSize(18, 18)  # of that of the chosen method
POPUP_PX: Final = 680  # width of the list


def summary(method: type[Method]) -> str:
    """Return the translated summary of a method, in one sentence."""
    return one_line(tr(summary_of(method)))


class MethodBox(QComboBox):
    """A combo box with the name of each method as data, below the titles of their groups.

    Its list shows the mask that each method makes, and one line on the method.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Method"))
        self._methods = QStandardItemModel(0, 2, self)
        self._list = QTreeView(rootIsDecorated=False, headerHidden=True)
        self._list.setIconSize(MASK_PX)
        self.setIconSize(ICON_PX)
        self._list.setMinimumWidth(POPUP_PX)
        self.setModel(self._methods)
        self.setView(self._list)
        self.list_methods()

    def list_methods(self) -> None:
        """List the current methods; the chosen one stays chosen if it still exists."""
        chosen = self.currentData()
        self.clear()
        methods = list(METHODS.values())
        for group, title in GROUPS.items():
            members = [method for method in methods if method.method_group == group]
            if members:
                heading = QStandardItem(tr(title))
                heading.setEnabled(False)
                heading.setFont(bold(self.font()))
                self._methods.appendRow([heading])
            for method in members:
                name = QStandardItem(method_icon(method), one_line(tr(method.title)))
                name.setData(method.name, Qt.ItemDataRole.UserRole)
                line = QStandardItem(summary(method))
                line.setForeground(self.palette().placeholderText())
                self._methods.appendRow([name, line])
        self.setMaxVisibleItems(self.count())
        self._list.resizeColumnToContents(0)
        self.choose(chosen if chosen in METHODS else methods[0].name)

    def choose(self, name: str) -> None:
        self.setCurrentIndex(self.findData(name))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self.list_methods()
        super().changeEvent(event)


def method_icon(method: type[Method]) -> QIcon:
    """Return the icon of a method; that of plug-ins if there is none of its own."""
    name = f"method-{method.name}"
    own = method.method_group != "plugins" and resource("icons", f"{name}.svg").is_file()
    return icon(name if own else "method-plugin")
