"""The cluster of the settings: its state, where it is shown, and the field that sets it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QToolButton, QWidget

from prune_gui.cluster import check_address, check_installed
from prune_gui.cluster.connection import ClusterConnection, ClusterState
from prune_gui.errors import ClusterError, one_line
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import TIGHT_PX
from prune_gui.language import deferred, tr, trn
from prune_gui.session.settings import MAX_ADDRESS_LENGTH

MAX_ADDRESS_CHARS: Final = 40
"""Limit of a shown address; the tool tip has all of it."""
HERE, CLUSTER = 0, 1
"""The indices of the places."""
EXAMPLES: Final = deferred("tcp://host:8786, or local:4")


class Cluster(QObject):
    """Follows the setting *Run on*; shared by all windows."""

    changed = Signal()  # `state` changed
    moved = Signal()  # jobs run elsewhere from now on
    _from_connection = Signal(object)

    def __init__(self, preferences: Preferences, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self._told: set[str] = set()
        self.state = ClusterState()
        self._from_connection.connect(self._follow, Qt.ConnectionType.QueuedConnection)
        self.connection = ClusterConnection(self._from_connection.emit)
        self._move("run_on")
        preferences.changed.connect(self._move)

    def is_new(self, error: ClusterError) -> bool:
        """Return whether an error is new since the cluster last worked; count it as shown."""
        is_new = str(error) not in self._told
        self._told.add(str(error))
        return is_new

    def _move(self, setting: str) -> None:
        if setting == "run_on":
            self._told.clear()
            self.connection.change(self._preferences.now.run_on)
            self.moved.emit()

    def _follow(self, state: ClusterState) -> None:
        if state.workers:
            self._told.clear()
        self.state = state
        self.changed.emit()


class ClusterIndicator(QToolButton):
    """Shows the cluster of the settings and its state; hidden if jobs run on this machine."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.setAutoRaise(True)
        cluster.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        state = self._cluster.state
        self.setText(_summary(state))
        self.setToolTip(str(state.error) if state.error else _explanation(state))
        self.setVisible(bool(state.where))


def _summary(state: ClusterState) -> str:
    where = one_line(state.where, MAX_ADDRESS_CHARS)
    if state.error is not None:
        return tr("No connection to {where}", where=where)
    if state.connecting:
        return tr("Connecting to {where} …", where=where)
    if state.workers is None:
        return tr("On cluster {where}", where=where)
    return trn(
        "On cluster {where}, {count} worker",
        "On cluster {where}, {count} workers",
        state.workers,
        where=where,
    )


def _explanation(state: ClusterState) -> str:
    where = one_line(state.where)
    if state.connecting or state.workers is not None:
        return tr("Jobs that read many parameters run on {where}.", where=where)
    return tr("The next job that reads many parameters connects to {where}.", where=where)


class RunOnField(QWidget):
    """Chooses this machine, or a cluster by its address, which is checked before it is accepted."""

    changed = Signal(str)  # (address) the user chose this valid cluster; "" for this machine

    def __init__(self) -> None:
        super().__init__()
        self.accepted = ""  # where jobs run: a valid address, or "" for this machine
        self.place = QComboBox()
        self.place.addItems([tr("This machine"), tr("Dask cluster")])
        self.address = QLineEdit(maxLength=MAX_ADDRESS_LENGTH, placeholderText=tr(EXAMPLES))
        self.address.setAccessibleName(tr("Address of the cluster"))
        self.address.hide()
        self.problem = Message()
        layouts.column(self.place, self.address, self.problem, of=self, margin=0, gap=TIGHT_PX)
        self.setFocusProxy(self.place)
        self.place.currentIndexChanged.connect(self._check)
        self.place.activated.connect(lambda _: self.address.setFocus())  # unless it is hidden
        self.address.editingFinished.connect(self._check)

    def set_address(self, address: str) -> None:
        """Show where jobs run, and emit `changed` if that differs; "" for this machine."""
        self.address.setText(address)
        self.place.setCurrentIndex(CLUSTER if address else HERE)
        self._check()

    def _check(self) -> None:
        is_cluster = self.place.currentIndex() == CLUSTER
        self.address.setVisible(is_cluster)
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
