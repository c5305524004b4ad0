"""Long work on the GUI thread, split into slices between which the user's events are handled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from PySide6.QtCore import QObject, QTimer

SLICE_S: Final = 0.01
"""Time after which the work returns to the event loop."""


class SlicedWork(QObject):
    """Runs work in slices of about `SLICE_S`, one per iteration of the event loop."""

    def __init__(
        self, parts: Iterator[object], parent: QObject, then: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(parent)
        self._parts = parts
        self._then = then
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self._run_slice)
        self._timer.start()

    def _run_slice(self) -> None:
        deadline = time.perf_counter() + SLICE_S
        for _ in self._parts:
            if time.perf_counter() >= deadline:
                self._timer.start()  # runs after the other timers that are due
                return
        self._then()
        self.deleteLater()
