"""Waiting for a change of a workbench."""

from __future__ import annotations

from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

from prune_gui.gui.workbench import Workbench


def change(qtbot: QtBot, workbench: Workbench, field: str) -> SignalBlocker:
    """Return a context manager that waits until a field of `Changes` is set."""
    return qtbot.waitSignal(
        workbench.changed, timeout=60_000, check_params_cb=lambda changes: getattr(changes, field)
    )
