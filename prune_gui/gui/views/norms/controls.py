"""The controls of the view Norms: the order of the norm, and buttons for the selected channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QToolButton, QWidget

from prune_gui.gui.views.bars.data import NormOrScore, ScoreOf
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import MIN_WIDTH_PX
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
DEFAULT_ORDER: Final = 2.0
PRUNE: Final = deferred(
    "Draft a step that prunes the selected channels of this parameter and those that the draft "
    "already prunes (Enter)"
)
PROTECT: Final = deferred(
    "Remove the selected channels from the draft: it becomes a list of the other channels it "
    "prunes, and prunes that many fewer"
)
NOTHING_TO_PROTECT: Final = deferred(
    "Removes channels from the draft. Requires a draft that prunes channels along this dimension, "
    "of this parameter only"
)
NOTHING: Final = deferred("Select channels first: click them, or drag over them with Shift")


class NormBox(QComboBox):
    """Offers common norms, accepts any other, and offers the scores of steps that rank channels."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.order: NormOrScore = DEFAULT_ORDER
        self._norm = DEFAULT_ORDER
        self._offered: dict[ScoreOf, str] = {}
        self._line = QLineEdit()
        self.setLineEdit(self._line)
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setAccessibleName(tr("Norm"))
        self.setToolTip(tr("The norm's order: choose one, or type any number, inf or -inf"))
        for order, text in NORMS:
            self.addItem(tr(text) if text else format_number(order, "g"), order)
        self._write()
        self.currentIndexChanged.connect(self._index_changed)
        self._line.setAcceptDrops(False)  # the window handles dropped files
        self._line.editingFinished.connect(self._typed)

    def offer_scores(self, steps: Sequence[ScoreOf], draft: int | None) -> None:
        """Offer the scores of steps, and select those of the draft when they are new."""
        texts = {one: _text(one, draft) for one in steps}
        if texts == self._offered:
            return
        drafted = next((one for one in steps if one.step == draft), None)
        is_new = drafted is not None and self._offered.get(drafted) != texts[drafted]
        with QSignalBlocker(self):
            for _ in self._offered:
                self.removeItem(0)
            for index, (one, text) in enumerate(texts.items()):
                self.insertItem(index, text, one)
        self._offered = texts
        if drafted is not None and is_new:
            self.order = drafted
        elif isinstance(self.order, ScoreOf) and self.order not in texts:
            self.order = self._norm
        self._write()

    def leave_scores(self) -> None:
        self.order = self._norm
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

    def _set(self, order: NormOrScore) -> None:
        changed, self.order = order != self.order, order
        if not isinstance(order, ScoreOf):
            self._norm = order
        self._write()
        if changed:
            self.changed.emit()

    def _write(self) -> None:
        index = next((i for i in range(self.count()) if self.itemData(i) == self.order), -1)
        text = self.itemText(index)
        if isinstance(self.order, float) and index < 0:
            text = format_number(self.order, "g")
        with QSignalBlocker(self):
            self.setCurrentIndex(index)
            self.setEditText(text)
            self._line.setCursorPosition(0)


def _text(of: ScoreOf, draft: int | None) -> str:
    if of.step == draft:
        return tr("draft: the value it ranks by")
    return tr("step {number}: the value it ranks by", number=of.step)


class SelectionBar(QWidget):
    """A switch for what a drag does, and a button per action on the selected channels."""

    def __init__(self) -> None:
        super().__init__()
        self.banding = QToolButton()
        self.banding.setText(tr("Select"))
        self.banding.setCheckable(True)
        self.banding.setToolTip(tr("Drag to select channels, not to pan (or hold Shift)"))
        self.prune, self.protect = QPushButton(), QPushButton()
        layouts.row(self.banding, self.prune, self.protect, of=self, margin=0)
        self.show_number(0, protectable=False)

    def show_number(self, chosen: int, *, protectable: bool) -> None:
        self.prune.setText(tr("Prune {count:,}", count=chosen) if chosen else tr("Prune"))
        self.protect.setText(tr("Protect {count:,}", count=chosen) if chosen else tr("Protect"))
        self.prune.setEnabled(chosen > 0)
        self.protect.setEnabled(chosen > 0 and protectable)
        self.prune.setToolTip(tr(PRUNE if chosen else NOTHING))
        protect_tip = (PROTECT if chosen else NOTHING) if protectable else NOTHING_TO_PROTECT
        self.protect.setToolTip(tr(protect_tip))
