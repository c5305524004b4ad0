"""A row of adjoining buttons, of which one is down: a choice among a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QButtonGroup,
    QStyle,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QWidget,
)

from prune_gui.gui.widgets import layouts

Value = TypeVar("Value")
PADDING_PX: Final = 14  # space beside the text of a button


class SegmentedSwitch(QWidget, Generic[Value]):
    """Chooses one of several values. The arrow keys move between the buttons."""

    changed = Signal()

    def __init__(self, name: str, items: Mapping[Value, tuple[str, str]]) -> None:
        """Make a button for each value, with a text and a tool tip."""
        super().__init__()
        self.setAccessibleName(name)
        self._values = list(items)
        self._group = QButtonGroup(self)
        for number, (text, tip) in enumerate(items.values()):
            button = _Segment()
            button.setText(text)
            button.setToolTip(tip)
            button.setCheckable(True)
            button.setChecked(number == 0)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setFixedWidth(button.fontMetrics().horizontalAdvance(text) + PADDING_PX)
            self._group.addButton(button, number)
        layouts.row(*self._group.buttons(), of=self, margin=0, gap=0)
        self._group.idToggled.connect(self._toggled)

    @property
    def value(self) -> Value:
        return self._values[self._group.checkedId()]

    @property
    def has_focus(self) -> bool:
        return any(button.hasFocus() for button in self._group.buttons())

    def choose(self, value: Value) -> None:
        self._group.button(self._values.index(value)).setChecked(True)

    def _toggled(self, _number: int, checked: bool) -> None:
        if checked:
            self.changed.emit()


class _Segment(QToolButton):
    """A button that has the highlight colour while it is down. The style's own shade is faint."""

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        if self.isChecked():
            roles = QPalette.ColorRole
            palette = QPalette(option.palette)
            palette.setColor(roles.Button, palette.color(roles.Highlight))
            palette.setColor(roles.ButtonText, palette.color(roles.HighlightedText))
            option.palette = palette
        QStylePainter(self).drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)
