"""Buttons for the selected channels."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QToolButton, QWidget

from prune_gui.language import deferred, tr

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


class SelectionBar(QWidget):
    """A switch for what a drag does, and a button per action.

    Signals:
        banding_changed: (selecting) whether a drag selects channels instead of panning.
        prune_wanted: the user wants the selected channels pruned.
        protect_wanted: the user wants the draft to keep the selected channels.
    """

    banding_changed = Signal(bool)
    prune_wanted = Signal()
    protect_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._banding = QToolButton()
        self._banding.setText(tr("Select"))
        self._banding.setCheckable(True)
        self._banding.setToolTip(tr("Drag to select channels, not to pan (or hold Shift)"))
        self._prune, self._protect = QPushButton(), QPushButton()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        for button in (self._banding, self._prune, self._protect):
            row.addWidget(button)
        self._banding.toggled.connect(self.banding_changed)
        self._prune.clicked.connect(self.prune_wanted)
        self._protect.clicked.connect(self.protect_wanted)
        self.show_number(0, protectable=False)

    def show_number(self, chosen: int, *, protectable: bool) -> None:
        """Show how many channels are selected, and enable the possible actions."""
        self._prune.setText(tr("Prune {count:,}", count=chosen) if chosen else tr("Prune"))
        self._protect.setText(tr("Protect {count:,}", count=chosen) if chosen else tr("Protect"))
        self._prune.setEnabled(chosen > 0)
        self._protect.setEnabled(chosen > 0 and protectable)
        self._prune.setToolTip(tr(PRUNE if chosen else NOTHING))
        if protectable:
            self._protect.setToolTip(tr(PROTECT if chosen else NOTHING))
        else:
            self._protect.setToolTip(tr(NOTHING_TO_PROTECT))
