"""The button of the status bar that says where jobs run, if that is not this machine."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QToolButton, QWidget

from prune_gui.cluster.connection import ClusterState
from prune_gui.errors import one_line
from prune_gui.gui.cluster import Cluster
from prune_gui.language import tr, trn

MAX_ADDRESS_CHARS: Final = 40
"""Limit of a shown address; the tool tip has all of it."""


class ClusterIndicator(QToolButton):
    """Shows the cluster of the settings and its state; hidden if jobs run on this machine."""

    def __init__(self, cluster: Cluster, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
