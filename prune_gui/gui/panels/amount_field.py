"""How much to prune: a share on a slider, or a whole number of units."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSlider, QWidget

from prune_gui.gui.panels.fields import Field
from prune_gui.gui.panels.wording import plural

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
        self._box.setAccessibleName("Amount to prune")
        self._box.valueChanged.connect(self._typed)
        self._kind = QComboBox()
        self._kind.addItems(["%", plural(unit, 2)])
        self._kind.setAccessibleName("Share or number")
        self._kind.setToolTip("Give a share in percent, or a whole number")
        self._kind.activated.connect(self._change_kind)
        self._lay_out(self._slider, self._box, self._kind)
        self.setFocusProxy(self._box)
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

    def _typed(self, number: float) -> None:
        # The box keeps what is being typed as it is.
        self._value = number / 100 if isinstance(self._value, float) else int(number)
        self._place_slider()
        self.changed.emit()

    def _change_kind(self, kind: int) -> None:
        if (kind == 0) != isinstance(self._value, float):
            self.set_value(0.5 if kind == 0 else 1)
            self.changed.emit()


class _NumberBox(QDoubleSpinBox):
    """Shows no zeros behind the point, and thousands apart."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLocale(QLocale.c())
        self.setKeyboardTracking(True)
        self.setMinimumWidth(84)

    def textFromValue(self, value: float) -> str:  # noqa: N802
        return (
            f"{value:.{self.decimals()}f}".rstrip("0").rstrip(".")
            if self.decimals()
            else f"{value:.0f}"
        )
