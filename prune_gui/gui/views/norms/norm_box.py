"""A box for the order of a norm: a common one, or any typed number."""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QWidget

from prune_gui.gui.widgets.elided_combo_box import MIN_WIDTH_PX
from prune_gui.language import deferred, format_number, tr

NORMS: Final = (
    (0.0, deferred("0: number of nonzeros")),
    (0.5, None),
    (1.0, deferred("1: sum of |w|")),
    (2.0, deferred("2: Euclidean")),
    (3.0, None),
    (math.inf, deferred("inf: largest |w|")),
    (-math.inf, deferred("-inf: smallest |w|")),
)
RANKS: Final = deferred("draft: the value it ranks by")
DEFAULT_ORDER: Final = 2.0


class NormBox(QComboBox):
    """Offers common norms, accepts any other, and offers the draft's scores if there are any.

    Attributes:
        order: order of the norm; None for the scores by which the draft ranks.

    Signals:
        changed: the user chose another order.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.order: float | None = DEFAULT_ORDER
        self._before = DEFAULT_ORDER
        self._ranks = False
        self.setEditable(True)
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setAccessibleName(tr("Norm"))
        self.setToolTip(tr("The norm's order: choose one, or type any number, inf or -inf"))
        for order, text in NORMS:
            self.addItem(tr(text) if text else format_number(order, "g"), order)
        self._write()
        self.currentIndexChanged.connect(self._index_changed)
        line_edit = self.lineEdit()
        assert line_edit is not None
        line_edit.setAcceptDrops(False)  # the window handles dropped files
        line_edit.editingFinished.connect(self._typed)

    def offer_ranks(self, available: bool) -> bool:
        """Offer the draft's scores, and select them when they become available; return whether so.

        Args:
            available: whether there is a draft that ranks channels.
        """
        if available == self._ranks:
            return False
        self._ranks = available
        with QSignalBlocker(self):
            if available:
                self.insertItem(0, tr(RANKS), None)
                self._before = self.order if self.order is not None else self._before
                self.order = None
            else:
                self.removeItem(0)
                self.order = self._before if self.order is None else self.order
        self._write()
        return available

    def leave_ranks(self) -> None:
        """Select the norm that was selected before the draft's scores."""
        self.order = self._before
        self._write()

    def _index_changed(self, index: int) -> None:
        if index >= 0:
            self._set(self.itemData(index))

    def _typed(self) -> None:
        text = self.currentText().strip()
        if (index := self.findText(text, Qt.MatchFlag.MatchFixedString)) >= 0:
            self._set(self.itemData(index))
            return
        order, valid = self.locale().toDouble(text)
        if valid and not math.isnan(order):
            self._set(order)
        else:
            self._write()

    def _set(self, order: float | None) -> None:
        changed, self.order = order != self.order, order
        self._write()
        if changed:
            self.changed.emit()

    def _write(self) -> None:
        """Show the current order."""
        texts = {self.itemData(index): index for index in range(self.count())}
        with QSignalBlocker(self):
            index = texts.get(self.order, -1)
            self.setCurrentIndex(index)
            self.setEditText(
                self.itemText(index) if index >= 0 else format_number(self.order or 0.0, "g")
            )
            line_edit = self.lineEdit()
            assert line_edit is not None
            line_edit.setCursorPosition(0)
