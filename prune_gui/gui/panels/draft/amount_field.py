"""The field for the amount to prune: a share with a slider, or a whole number of units."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QSlider

from prune_gui.gui.panels.draft.fields import Field
from prune_gui.gui.panels.draft.number_box import NumberBox, share_error
from prune_gui.language import tr
from prune_gui.pruning.methods.fields import UNITS, Unit

SLIDER_STEPS: Final = 1000
"""Positions of the slider: tenths of a percent."""


class AmountField(Field):
    """A slider and a spin box for a share, or the spin box alone for a number of units."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self._value: object = 0.5
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, SLIDER_STEPS)
        self._slider.setPageStep(SLIDER_STEPS // 20)
        self._slider.setSingleStep(SLIDER_STEPS // 100)
        self._slider.valueChanged.connect(self._on_slider_moved)
        self._box = NumberBox()
        self._box.setAccessibleName(tr("Amount to prune"))
        self._box.valueChanged.connect(self._on_typed)
        self._kind = QComboBox()
        self._kind.addItems([tr("share"), tr(UNITS[unit])])
        self._kind.setAccessibleName(tr("Share or number"))
        self._kind.setToolTip(tr("Enter a share in percent, or a whole number"))
        self._kind.activated.connect(self._change_kind)
        self._lay_out(self._slider, self._box, self._kind)
        self.setAutoFillBackground(True)  # else moving the slider repaints all that is behind
        self.focus_input = self._box
        self.set_value(0.5)

    def value(self) -> object:
        """Return a share as a float, or a number of units as an int."""
        return self._value

    def set_value(self, value: object) -> None:
        """Show an amount; None leaves the one that is shown. Does not signal."""
        if value is None:
            return
        self._value = value
        is_share = isinstance(value, float)
        self._kind.setCurrentIndex(0 if is_share else 1)
        self._slider.setVisible(is_share)
        self._box.blockSignals(True)
        self._box.use_share(on=is_share)
        if isinstance(value, int | float):
            self._box.setValue(value * 100 if is_share else value)
        self._box.blockSignals(False)
        self._update_slider()

    def error(self) -> str:
        """Say so if the share is above 100 %."""
        return share_error(self._value)

    def _update_slider(self) -> None:
        if isinstance(self._value, float):
            self._slider.blockSignals(True)
            self._slider.setValue(round(self._value * SLIDER_STEPS))
            self._slider.blockSignals(False)

    def _on_slider_moved(self, position: int) -> None:
        self.set_value(position / SLIDER_STEPS)
        self.changed.emit()

    def _on_typed(self, amount: float) -> None:
        # Not `set_value`, which would reformat the text while the user types.
        self._value = amount / 100 if isinstance(self._value, float) else int(amount)
        self._update_slider()
        self.changed.emit()

    def _change_kind(self, kind: int) -> None:
        if (kind == 0) != isinstance(self._value, float):
            self.set_value(0.5 if kind == 0 else 1)
            self.changed.emit()
