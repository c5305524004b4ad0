"""The cluster of the settings, as the windows use it."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal

from prune_gui.cluster.connection import ClusterConnection, ClusterState
from prune_gui.errors import ClusterError
from prune_gui.gui.runtime.preferences import Preferences


class Cluster(QObject):
    """Follows the setting *Run on*; shared by all windows.

    Attributes:
        connection: the connection that the engines use.
        state: the current state of the connection.

    Signals:
        changed: `state` changed.
        moved: jobs run elsewhere from now on.
    """

    changed = Signal()
    moved = Signal()
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
