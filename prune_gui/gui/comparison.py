"""The checkpoint that a window compares the open one with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from prune_gui.gui.bridge import Bridge
from prune_gui.worker.jobs import compare_job

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution


class Comparison(QObject):
    """Opens and closes another checkpoint to compare with.

    Attributes:
        resolution: of the other checkpoint, its zeros counted as pruned; None until the user
            chooses one.

    Signals:
        changed: `resolution` changed.
    """

    changed = Signal()

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self.resolution: Resolution | None = None

    def open(self, path: Path) -> None:
        """Open a checkpoint in place of the other one, which stays open until that succeeds."""
        self._bridge.run(compare_job(path), self._replace)

    def close(self) -> None:
        """Close the checkpoint. The engine must have ended."""
        if self.resolution is not None:
            self.resolution.checkpoint.close()
            self.resolution = None

    def _replace(self, resolution: Resolution) -> None:
        if self.resolution is not None:
            self._bridge.close_unused(self.resolution.checkpoint)
        self.resolution = resolution
        self.changed.emit()
