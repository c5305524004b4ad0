"""The field for the amounts of single targets: lines of a pattern and an amount."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QPlainTextEdit

from prune_gui.errors import RecipeError
from prune_gui.gui.panels.draft.fields import Field, number_or_text
from prune_gui.gui.panels.draft.number_box import parse_percentage
from prune_gui.language import tr
from prune_gui.recipe.selector import Pattern

VISIBLE_LINES: Final = 6


class AmountsField(Field):
    """A text with a line "pattern = amount" per entry; a share may be written in percent."""

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self._value: object = None
        self._text = QPlainTextEdit()
        self._text.setPlaceholderText(placeholder)
        self._text.setTabChangesFocus(True)
        self._text.setFixedHeight(
            VISIBLE_LINES * self._text.fontMetrics().lineSpacing()
            + 2 * round(self._text.document().documentMargin() + self._text.frameWidth())
        )
        self._text.textChanged.connect(self._edited)
        self._lay_out(self._text)

    def value(self) -> object:
        """Return the amounts by pattern, not validated; None if the text is empty."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show amounts by pattern; None for none."""
        self._value = value
        entries = value.items() if isinstance(value, dict) else ()
        text = "\n".join(f"{pattern} = {_typed(amount)}" for pattern, amount in entries)
        if text != self._text.toPlainText():
            self._text.blockSignals(True)
            self._text.setPlainText(text)
            self._text.blockSignals(False)

    def error(self) -> str:
        """Return what is wrong with the first line that cannot be used, else ""."""
        entries = self._value if isinstance(self._value, dict) else {}
        for pattern, amount in entries.items():
            if not pattern or not isinstance(amount, int | float):
                return tr("Write a pattern, = and an amount in each line: encoder.* = 30 %")
            try:
                Pattern.parse(pattern)
            except RecipeError as error:
                return str(error)
        return ""

    def _edited(self) -> None:
        lines = filter(None, map(str.strip, self._text.toPlainText().splitlines()))
        entries: dict[str, object] = {}
        for line in lines:
            pattern, _, amount = line.rpartition("=")  # a condition may have "=", too
            entries.pop(pattern.strip(), None)  # of equal patterns, the last line counts
            entries[pattern.strip()] = _parse(amount.strip())
        self._value = entries or None
        self.changed.emit()


def _parse(text: str) -> object:
    """Return an amount: "30 %" and "0.3" are shares, "30" is a count; else the text."""
    share = parse_percentage(text)
    return number_or_text(text) if share is None else share


def _typed(amount: object) -> str:
    """Return the text that `_parse` parses to an amount, with all digits."""
    if not isinstance(amount, float):
        return str(amount)
    percent = f"{(Decimal(repr(amount)) * 100).normalize():f}"
    return f"{percent.replace('.', QLocale().decimalPoint())} %"
