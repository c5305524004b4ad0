"""The spin box for a share, in percent, or for a number of units."""

from __future__ import annotations

from typing import Final

from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QDoubleSpinBox, QWidget

from prune_gui.gui.panels.draft.fields import Field, latin
from prune_gui.language import tr
from prune_gui.number_formats import percent
from prune_gui.recipe.amounts import parse_share

PERCENT_DECIMALS: Final = 4
BUTTONS_PX: Final = 32
"""Width of the buttons and margins."""
MAX_PERCENT: Final = 99_999.0
"""Limit of a share. It exceeds 100 so that a share above 100 % is reported, and not changed."""
MAX_UNITS: Final = 2.0**53
"""Limit of a number of units, because `QDoubleSpinBox` stores float64."""


class NumberBox(QDoubleSpinBox):
    """A spin box for a share, whose value is a percentage, or for a number of units.

    A share may be typed as "90 %", "90" or "0.9", with "." or "," as the decimal sign; see
    `parse_share`.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setKeyboardTracking(True)
        self.setMinimumWidth(self.fontMetrics().horizontalAdvance("00.0000 %") + BUTTONS_PX)
        self.setDecimals(PERCENT_DECIMALS)
        self.setMaximum(MAX_PERCENT)

    @property
    def is_share(self) -> bool:
        """Whether the number is a share in percent."""
        return self.decimals() > 0

    def use_share(self, *, on: bool = True) -> None:
        """Show a share in percent, or a number of units."""
        if on != self.is_share:  # Qt lays out the whole window again
            self.setDecimals(PERCENT_DECIMALS if on else 0)
            self.setMaximum(MAX_PERCENT if on else MAX_UNITS)

    def textFromValue(self, value: float) -> str:  # noqa: N802
        """Return a percentage without trailing zeros, or a whole number."""
        return percent(value / 100) if self.is_share else f"{value:.0f}"

    def valueFromText(self, text: str) -> float:  # noqa: N802
        """Return the percentage, or the number of units, of a valid text."""
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
        """Change the number, a share to at most 100 %."""
        if self.is_share:
            self.setValue(min(self.value() + steps * self.singleStep(), 100.0))
            self.selectAll()
        else:
            super().stepBy(steps)


class ShareField(Field):
    """A share in [0, 1], typed and shown in percent."""

    def __init__(self) -> None:
        super().__init__()
        self._value: object = 0.0
        self.box = NumberBox()
        self.box.valueChanged.connect(self._edited)
        self._lay_out(self.box).addStretch()

    def value(self) -> object:
        """Return the share."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show a share."""
        self._value = value
        if isinstance(value, int | float):
            self.box.blockSignals(True)
            self.box.setValue(100 * value)
            self.box.blockSignals(False)

    def error(self) -> str:
        """Say so if the share is above 100 %."""
        return share_error(self._value)

    def _edited(self, value: float) -> None:
        self._value = value / 100
        self.changed.emit()


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
