"""The field of the settings for where jobs run."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QVBoxLayout, QWidget

from prune_gui.cluster import check_address, check_installed
from prune_gui.errors import ClusterError
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.spacing import TIGHT_PX
from prune_gui.language import deferred, tr
from prune_gui.session.settings import MAX_ADDRESS_LENGTH

HERE, CLUSTER = 0, 1
"""The indices of the places."""
EXAMPLES: Final = deferred("tcp://host:8786, or local:4")


class RunOnField(QWidget):
    """Chooses this machine, or a cluster by its address, which is checked before it is accepted.

    Attributes:
        accepted: where jobs run: a valid address, or "" for this machine.

    Signals:
        changed: (address) the user chose this valid cluster; "" for this machine.
    """

    changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.accepted = ""
        self.place = QComboBox()
        self.place.addItems([tr("This machine"), tr("Dask cluster")])
        self.address = QLineEdit()
        self.address.setMaxLength(MAX_ADDRESS_LENGTH)
        self.address.setPlaceholderText(tr(EXAMPLES))
        self.address.setAccessibleName(tr("Address of the cluster"))
        self.address.hide()
        self.problem = Message()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(TIGHT_PX)
        for widget in (self.place, self.address, self.problem):
            layout.addWidget(widget)
        self.setFocusProxy(self.place)
        self.place.currentIndexChanged.connect(self._on_place_changed)
        self.place.activated.connect(self._on_place_chosen)
        self.address.editingFinished.connect(self._check)

    def set_address(self, address: str) -> None:
        """Show where jobs run, and emit `changed` if that differs; "" for this machine."""
        self.address.setText(address)
        self.place.setCurrentIndex(CLUSTER if address else HERE)
        self._check()

    def _on_place_changed(self, place: int) -> None:
        self.address.setVisible(place == CLUSTER)
        self._check()

    def _on_place_chosen(self, place: int) -> None:
        if place == CLUSTER:
            self.address.setFocus()

    def _check(self) -> None:
        """Accept what is shown, or say why not."""
        is_cluster = self.place.currentIndex() == CLUSTER
        address = self.address.text().strip() if is_cluster else ""
        problem, is_error = "", False
        if is_cluster:
            try:
                check_installed()
                if address:
                    check_address(address)
                else:
                    problem = tr("Jobs run on this machine until you type an address.")
            except ClusterError as error:
                problem, is_error = str(error), True
        self.problem.say(problem, warning=is_error)
        if not problem and address != self.accepted:
            self.accepted = address
            self.changed.emit(address)
