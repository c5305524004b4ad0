"""The order of a norm: one of a few, or any number that is typed."""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QWidget

from prune_gui.gui.widgets.elided_combo_box import NARROW
from prune_gui.language import later, number, tr

NORMS: Final = (
    (0.0, later("0: how many are not 0")),
    (0.5, None),
    (1.0, later("1: sum of |w|")),
    (2.0, later("2: Euclidean")),
    (3.0, None),
    (math.inf, later("inf: largest |w|")),
    (-math.inf, later("-inf: smallest |w|")),
)
RANKS: Final = later("draft: what it ranks by")
USUAL: Final = 2.0


class NormBox(QComboBox):
    """Offers the usual norms, takes any other, and what a draft ranks by if there is one.

    Attributes:
        order: of the norm; None: what the draft ranks by.

    Signals:
        changed: the user wants another.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.order: float | None = USUAL
        self._before = USUAL
        self._ranks = False
        self.setEditable(True)
        self.setMinimumWidth(NARROW)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setAccessibleName(tr("Norm"))
        self.setToolTip(tr("The norm's order: choose one, or type any number, inf or -inf"))
        for order, text in NORMS:
            self.addItem(tr(text) if text else number(order, "g"), order)
        self._write()
        self.currentIndexChanged.connect(self._take)
        line = self.lineEdit()
        assert line is not None
        line.setAcceptDrops(False)  # a file is for the window, which opens it
        line.editingFinished.connect(self._typed)

    def offer_ranks(self, there: bool) -> bool:
        """Offer what a draft ranks by, and turn to it when it first is there; tell if that is now.

        Args:
            there: whether there is such a draft.
        """
        if there == self._ranks:
            return False
        self._ranks = there
        with QSignalBlocker(self):
            if there:
                self.insertItem(0, tr(RANKS), None)
                self._before = self.order if self.order is not None else self._before
                self.order = None
            else:
                self.removeItem(0)
                self.order = self._before if self.order is None else self.order
        self._write()
        return there

    def leave_ranks(self) -> None:
        """Go back to the norm from before the draft."""
        self.order = self._before
        self._write()

    def _take(self, place: int) -> None:
        if place >= 0:
            self._set(self.itemData(place))

    def _typed(self) -> None:
        text = self.currentText().strip()
        if (place := self.findText(text, Qt.MatchFlag.MatchFixedString)) >= 0:
            self._set(self.itemData(place))
            return
        order, understood = self.locale().toDouble(text)
        if understood and not math.isnan(order):
            self._set(order)
        else:
            self._write()

    def _set(self, order: float | None) -> None:
        changed, self.order = order != self.order, order
        self._write()
        if changed:
            self.changed.emit()

    def _write(self) -> None:
        """Show the order as it is."""
        texts = {self.itemData(place): place for place in range(self.count())}
        with QSignalBlocker(self):
            place = texts.get(self.order, -1)
            self.setCurrentIndex(place)
            self.setEditText(self.itemText(place) if place >= 0 else number(self.order or 0.0, "g"))
            line = self.lineEdit()
            assert line is not None
            line.setCursorPosition(0)
