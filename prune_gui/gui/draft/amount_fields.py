"""The fields for amounts: a share in percent or a number of units, and those of single targets."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from PySide6.QtCore import QLocale, QSignalBlocker, Qt
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QPlainTextEdit, QSlider, QWidget

from prune_gui.errors import RecipeError
from prune_gui.gui.draft.fields import Field, latin, number_or_text
from prune_gui.gui.widgets import layouts
from prune_gui.language import tr
from prune_gui.number_formats import percent
from prune_gui.pruning.methods.fields import UNITS, Unit
from prune_gui.recipe.amounts import parse_share
from prune_gui.recipe.selector import Pattern

PERCENT_DECIMALS: Final = 4
BUTTONS_PX: Final = 32  # width of the buttons and margins
MAX_PERCENT: Final = 99_999.0
"""Limit of a share. It exceeds 100 so that a share above 100 % is reported, and not changed."""
MAX_UNITS: Final = 2.0**53  # limit of a number of units, because `QDoubleSpinBox` stores float64
VISIBLE_LINES: Final = 6
SLIDER_STEPS: Final = 1000  # positions of the slider: tenths of a percent


class NumberBox(QDoubleSpinBox):
    """A spin box for a share, whose value is a percentage, or for a number of units.

    A share may be typed as "90 %", "90" or "0.9", with "." or "," as the decimal sign; see
    `parse_share`.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setKeyboardTracking(True)
        self.setGroupSeparatorShown(True)
        self.setMinimumWidth(self.fontMetrics().horizontalAdvance("00.0000 %") + BUTTONS_PX)
        self.setDecimals(PERCENT_DECIMALS)
        self.setMaximum(MAX_PERCENT)

    @property
    def is_share(self) -> bool:
        return self.decimals() > 0

    def use_share(self, *, on: bool = True) -> None:
        """Show a share in percent, or a number of units."""
        if on != self.is_share:  # Qt lays out the whole window again
            self.setDecimals(PERCENT_DECIMALS if on else 0)
            self.setMaximum(MAX_PERCENT if on else MAX_UNITS)

    def textFromValue(self, value: float) -> str:  # noqa: N802
        return percent(value / 100) if self.is_share else super().textFromValue(value)

    def valueFromText(self, text: str) -> float:  # noqa: N802
        return 100 * parse_share(_plain(text)) if self.is_share else super().valueFromText(text)

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        """Return whether the text is a number, with Latin digits and the locale's decimal sign."""
        text = latin(text)
        if not self.is_share:
            return super().validate(text, at)
        sign = self.locale().decimalPoint()  # neither sign can separate thousands in a share
        text = text.translate(dict.fromkeys(map(ord, ".,"), sign))
        try:
            parse_share(_plain(text))
        except ValueError:
            typing = set(_plain(text)) <= set(".% ")
            state = QValidator.State.Intermediate if typing else QValidator.State.Invalid
            return state, text, at
        return QValidator.State.Acceptable, text, at

    def stepBy(self, steps: int) -> None:  # noqa: N802
        if self.is_share:
            self.setValue(min(self.value() + steps * self.singleStep(), 100.0))
            self.selectAll()
        else:
            super().stepBy(steps)


class ShareField(Field):
    """A share in [0, 1], typed and shown in percent."""

    def __init__(self) -> None:
        super().__init__()
        self._value = 0.0
        self.box = NumberBox()
        self.box.valueChanged.connect(lambda percentage: self._edited(percentage / 100))
        self._lay_out(self.box).addStretch()

    def _show(self, value: object) -> None:
        if isinstance(value, int | float):
            self.box.setValue(100 * value)

    def error(self) -> str:
        """Say so if the share is above 100 %."""
        return share_error(self._value)


def share_error(value: object) -> str:
    """Return a message if a share is above 100 %, else ""."""
    if isinstance(value, float) and value > 1:
        return tr("{share} is too much: a share is at most 100 %.", share=percent(value))
    return ""


def parse_percentage(text: str) -> float | None:
    """Return the share that a text with a percent sign states; None for any other text."""
    plain = _plain(latin(text))
    try:
        return parse_share(plain) if plain.endswith("%") else None
    except ValueError:
        return None


def _plain(text: str) -> str:
    """Return a text with "." as the decimal sign and "%" as the percent sign."""
    return text.translate(
        str.maketrans(",\N{FULLWIDTH PERCENT SIGN}\N{ARABIC PERCENT SIGN}", ".%%")
    )


class AmountField(Field):
    """A slider and a spin box for a share, or the spin box alone for a number of units."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setMaximum(SLIDER_STEPS)
        self._slider.setPageStep(SLIDER_STEPS // 20)
        self._slider.setSingleStep(SLIDER_STEPS // 100)
        self._slider.valueChanged.connect(lambda at: self._choose(at / SLIDER_STEPS))
        self._box = layouts.described(NumberBox(), tr("Amount to prune"))
        self._box.valueChanged.connect(self._on_typed)
        tip = tr("Enter a share in percent, or a whole number")
        self._kind = layouts.described(QComboBox(), tr("Share or number"), tip)
        self._kind.addItems([tr("share"), tr(UNITS[unit])])
        self._kind.activated.connect(self._change_kind)
        numbers = layouts.row((self._box, 1), self._kind)
        layouts.column(self._slider, numbers, of=self, margin=0)  # above: wide enough to be exact
        self._take_inputs(self._slider, self._box, self._kind)
        self.setAutoFillBackground(True)  # else moving the slider repaints all that is behind
        self.focus_input = self._box
        self.set_value(0.5)

    def set_value(self, value: object) -> None:
        """Show a share, which is a float, or a number of units; None leaves what is shown."""
        if value is not None:
            super().set_value(value)

    def _show(self, value: object) -> None:
        is_share = isinstance(value, float)
        self._kind.setCurrentIndex(0 if is_share else 1)
        self._slider.setVisible(is_share)
        self._box.use_share(on=is_share)
        if isinstance(value, int | float):
            self._box.setValue(value * 100 if is_share else value)
        self._move_slider()

    def error(self) -> str:
        return share_error(self._value)

    def _move_slider(self) -> None:
        if isinstance(self._value, float):
            with QSignalBlocker(self._slider):
                self._slider.setValue(round(self._value * SLIDER_STEPS))

    def _on_typed(self, amount: float) -> None:
        # Not `set_value`, which would reformat the text while the user types.
        is_share = isinstance(self._value, float)
        self._edited(amount / 100 if is_share else int(amount))
        if not self._showing:
            self._move_slider()

    def _change_kind(self, kind: int) -> None:
        if (kind == 0) != isinstance(self._value, float):
            self._choose(0.5 if kind == 0 else 1)

    def _choose(self, value: float) -> None:
        if not self._showing:
            self.set_value(value)
            self.changed.emit()


class AmountsField(Field):
    """A text with a line "pattern = amount" per entry; a share may be written in percent."""

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self._text = QPlainTextEdit(placeholderText=placeholder, tabChangesFocus=True)
        self._text.setFixedHeight(
            VISIBLE_LINES * self._text.fontMetrics().lineSpacing()
            + 2 * round(self._text.document().documentMargin() + self._text.frameWidth())
        )
        self._text.textChanged.connect(lambda: self._edited(_entries(self._text.toPlainText())))
        self._lay_out(self._text)

    def _show(self, value: object) -> None:
        entries = value.items() if isinstance(value, dict) else ()
        text = "\n".join(f"{pattern} = {_typed(amount)}" for pattern, amount in entries)
        if text != self._text.toPlainText():
            self._text.setPlainText(text)

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


def _entries(text: str) -> dict[str, object] | None:
    entries: dict[str, object] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        pattern, _, amount = line.rpartition("=")  # a condition may have "=", too
        entries.pop(pattern.strip(), None)  # of equal patterns, the last line counts
        entries[pattern.strip()] = _parse(amount.strip())
    return entries or None


def _parse(text: str) -> object:
    """Return an amount: "30 %" and "0.3" are shares, "30" is a count; else the text."""
    share = parse_percentage(text)
    return number_or_text(text) if share is None else share


def _typed(amount: object) -> str:
    if not isinstance(amount, float):
        return str(amount)
    percent = f"{(Decimal(repr(amount)) * 100).normalize():f}"
    return f"{percent.replace('.', QLocale().decimalPoint())} %"
