"""How much to prune: a share on a slider, or a whole number of units."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSlider, QWidget

from prune_gui.gui.formatting import UNITS
from prune_gui.gui.panels.draft.fields import Field, latin
from prune_gui.language import number, tr

STEPS: Final = 1000
"""Places of the slider: tenths of a percent."""
MOST_UNITS: Final = 2.0**53


class AmountField(Field):
    """A slider and a box for a share, the box alone for a number.

    Args:
        unit: what an amount counts, "entry" or "channel".
    """

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._value: object = 0.5
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, STEPS)
        self._slider.setPageStep(STEPS // 20)
        self._slider.setSingleStep(STEPS // 100)
        self._slider.valueChanged.connect(self._slid)
        self._box = _NumberBox()
        self._box.setAccessibleName(tr("Amount to prune"))
        self._box.valueChanged.connect(self._typed)
        self._kind = QComboBox()
        self._kind.addItems(["%", tr(UNITS[unit])])
        self._kind.setAccessibleName(tr("Share or number"))
        self._kind.setToolTip(tr("Give a share in percent, or a whole number"))
        self._kind.activated.connect(self._change_kind)
        self._lay_out(self._slider, self._box, self._kind)
        self.entry = self._box
        self.set_value(0.5)

    def value(self) -> object:
        """Return a share as a float, or a number of units as an int."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show an amount."""
        self._value = value
        share = isinstance(value, float)
        self._kind.setCurrentIndex(0 if share else 1)
        self._slider.setVisible(share)
        self._box.blockSignals(True)
        self._box.setDecimals(4 if share else 0)
        self._box.setMaximum(100.0 if share else MOST_UNITS)
        if isinstance(value, int | float):
            self._box.setValue(value * 100 if share else value)
        self._box.blockSignals(False)
        self._place_slider()

    def _place_slider(self) -> None:
        if isinstance(self._value, float):
            self._slider.blockSignals(True)
            self._slider.setValue(round(self._value * STEPS))
            self._slider.blockSignals(False)

    def _slid(self, place: int) -> None:
        self.set_value(place / STEPS)
        self.changed.emit()

    def _typed(self, amount: float) -> None:
        # The box keeps what is being typed as it is.
        self._value = amount / 100 if isinstance(self._value, float) else int(amount)
        self._place_slider()
        self.changed.emit()

    def _change_kind(self, kind: int) -> None:
        if (kind == 0) != isinstance(self._value, float):
            self.set_value(0.5 if kind == 0 else 1)
            self.changed.emit()


class _NumberBox(QDoubleSpinBox):
    """Shows no zeros behind the decimal sign, and takes a point and a comma for one in a share."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setKeyboardTracking(True)
        self.setMinimumWidth(84)

    def textFromValue(self, value: float) -> str:  # noqa: N802
        return number(round(value, 4), "g") if self.decimals() else f"{value:.0f}"

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        text = latin(text)
        if self.decimals():  # up to 100, so that no sign parts thousands
            text = text.translate(dict.fromkeys(map(ord, ".,"), self.locale().decimalPoint()))
        return super().validate(text, at)
