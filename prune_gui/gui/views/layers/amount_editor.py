"""The amount of the chosen parameter in a step that ranks each target by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from prune_gui.gui.panels.draft.number_box import PERCENT_DECIMALS, NumberBox
from prune_gui.gui.widgets.spacing import GAP_PX
from prune_gui.language import tr
from prune_gui.recipe.target_amounts import amount_of_target, takes_own_amount
from prune_gui.session.draft_request import AmountRequest, SharesRequest

if TYPE_CHECKING:
    from prune_gui.session.subjects import ModelSubject


class AmountEditor(QWidget):
    """A spin box for the amount, a button that removes it, and one that takes shares over.

    It works on the draft, or without a draft on the last step that targets the parameter.

    Signals:
        wanted: (DraftRequest) the user wants the draft changed.
    """

    wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = ""
        self._step: int | None = None
        self._label, self._box = QLabel(), NumberBox()
        self._box.setKeyboardTracking(False)
        self._box.setAccessibleName(tr("Amount of the chosen parameter"))
        self._box.setToolTip(
            tr("How much the step prunes of the chosen parameter; or drag the end of its bar")
        )
        self._label.setBuddy(self._box)
        self._box.valueChanged.connect(self._typed)
        self._reset, self._take = QToolButton(), QToolButton()
        self._reset.setText(tr("Reset"))
        self._reset.setToolTip(tr("Give the chosen parameter the amount of the step again"))
        self._reset.clicked.connect(lambda: self._want(None))
        self._take.setText(tr("Take these shares"))
        self._take.setToolTip(
            tr("Write the share that the step prunes of each parameter into it, to change them")
        )
        self._take.clicked.connect(lambda: self.wanted.emit(SharesRequest(self._step)))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GAP_PX)
        for widget in (self._label, self._box, self._reset, self._take):
            layout.addWidget(widget)
        self.show_parameter(None, None)

    def show_parameter(self, subject: ModelSubject | None, name: str | None) -> None:
        """Show the amount of a parameter; nothing if no step targets it."""
        number = _number_of_step(subject, name) if subject is not None and name else None
        self.setVisible(number is not None)
        if subject is None or name is None or number is None:
            return
        resolution, drafted = subject.resolution, number == subject.draft
        own = takes_own_amount(resolution, number, name)
        self._name, self._step = name, None if drafted else number
        self._label.setText(tr("Draft:") if drafted else tr("Step {number}:", number=number))
        self._box.setVisible(own)
        self._reset.setVisible(own)
        self._take.setVisible(not own)
        if own:
            self._reset.setEnabled(name in resolution.outcomes[number - 1].amounts)
            self._show_amount(amount_of_target(resolution, number, name))

    def _show_amount(self, amount: int | float) -> None:
        is_share = isinstance(amount, float)
        with QSignalBlocker(self._box):
            self._box.use_share(on=is_share)
            self._box.setValue(100 * amount if is_share else amount)

    def _typed(self, number: float) -> None:
        share = round(min(number / 100, 1.0), PERCENT_DECIMALS + 2)
        self._want(share if self._box.is_share else int(number))

    def _want(self, amount: int | float | None) -> None:
        self.wanted.emit(AmountRequest(self._name, amount, self._step))


def _number_of_step(subject: ModelSubject, name: str) -> int | None:
    """Return the number of the draft or of the last step that targets a parameter."""
    outcomes = subject.resolution.outcomes
    if subject.draft is not None:
        return subject.draft if name in outcomes[subject.draft - 1].pruned else None
    numbers = (i for i in range(len(outcomes), 0, -1) if name in outcomes[i - 1].pruned)
    return next(numbers, None)
