"""Layouts of widgets in one call, and the buttons and remarks that are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Final, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.widgets.theme import set_icon

STRETCH: Final = None  # stands for empty space between parts of a layout
Part = QWidget | QLayout | tuple[QWidget | QLayout, int] | None
"""A widget or a layout, with its stretch factor if that is not 0; or `STRETCH`."""
Margin = int | tuple[int, int, int, int]
"""Pixels around a layout, on all sides or on the left, top, right and bottom."""
Box = TypeVar("Box", bound=QBoxLayout)
Widget = TypeVar("Widget", bound=QWidget)


def column(
    *parts: Part, of: QWidget | None = None, margin: Margin | None = None, gap: int | None = None
) -> QVBoxLayout:
    """Return a layout from top to bottom, as that `of` a widget if given; see `row`."""
    return _filled(QVBoxLayout(), parts, of, margin, gap)


def row(
    *parts: Part, of: QWidget | None = None, margin: Margin | None = None, gap: int | None = None
) -> QHBoxLayout:
    """Return a layout from left to right. Without margin and gap, both are those of the style."""
    return _filled(QHBoxLayout(), parts, of, margin, gap)


def _filled(
    layout: Box, parts: tuple[Part, ...], of: QWidget | None, margin: Margin | None, gap: int | None
) -> Box:
    if of is not None:
        of.setLayout(layout)
    if margin is not None:
        layout.setContentsMargins(*((margin,) * 4 if isinstance(margin, int) else margin))
    if gap is not None:
        layout.setSpacing(gap)
    for part in parts:
        content, stretch = part if isinstance(part, tuple) else (part, 0)
        if content is None:
            layout.addStretch()
        elif isinstance(content, QWidget):
            layout.addWidget(content, stretch)
        else:
            layout.addLayout(content, stretch)
    return layout


def pages(*parts: QWidget) -> QStackedWidget:
    """Return a stack of widgets, of which one is visible."""
    stack = QStackedWidget()
    for part in parts:
        stack.addWidget(part)
    return stack


def split(*parts: QWidget, sizes: Sequence[int] = (), vertical: bool = False) -> QSplitter:
    """Return a splitter that never hides a part, with its first sizes in pixels if given."""
    direction = Qt.Orientation.Vertical if vertical else Qt.Orientation.Horizontal
    splitter = QSplitter(direction, childrenCollapsible=False)
    for part in parts:
        splitter.addWidget(part)
    if sizes:
        splitter.setSizes(sizes)
    return splitter


def sentence(text: str, **inputs: QWidget) -> QHBoxLayout:
    """Return a row of a translated text, with an input in place of each `{name}`."""
    parts: list[Part] = []
    for words, name, *_ in Formatter().parse(text):
        if words.strip():
            parts.append(QLabel(words.strip()))
        if name is not None:
            parts.append(inputs[name])
    return row(*parts, STRETCH)


def button(text: str, act: Callable[..., object], tip: str = "") -> QPushButton:
    """Return a button that Enter does not press unless it has the focus."""
    made = QPushButton(text, autoDefault=False)
    made.setToolTip(tip)
    made.clicked.connect(act)
    return made


def tool_button(
    text: str = "",
    act: Callable[..., object] | None = None,
    tip: str = "",
    *,
    icon: str = "",
    flat: bool = False,
) -> QToolButton:
    """Return a small button with a text, an icon that follows the theme, or both."""
    beside = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
    made = QToolButton(toolButtonStyle=beside, autoRaise=flat)
    made.setText(text)
    made.setToolTip(tip)
    if icon:
        set_icon(made, icon)
    if act is not None:
        made.clicked.connect(act)
    return made


def remark(text: str = "", *, wrapped: bool = True) -> QLabel:
    """Return a label with a text that explains other widgets, in a faint colour."""
    label = QLabel(text, wordWrap=wrapped)
    label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


def form(*rows: tuple[str | QLabel, QWidget | QLayout] | QWidget) -> QFormLayout:
    """Return a form: rows of a label and a field, which fills the width, or of one part alone."""
    layout = QFormLayout(fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    for part in rows:
        if isinstance(part, tuple):
            label, field = part
            layout.addRow(label, field)
        else:
            layout.addRow(part)
    return layout


def described(widget: Widget, name: str = "", tip: str = "") -> Widget:
    """Set the accessible name and the tool tip of a widget, and return it."""
    widget.setAccessibleName(name)
    widget.setToolTip(tip)
    return widget


def dialog_buttons(
    dialog: QDialog,
    kinds: QDialogButtonBox.StandardButton,
    accept: Callable[[], object] | None = None,
) -> QDialogButtonBox:
    """Return the standard buttons of a dialog; `accept` is called in place of its own method."""
    buttons = QDialogButtonBox(kinds)
    buttons.accepted.connect(accept or dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return buttons
