"""Long work of the window's own thread, done between what the user does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from PySide6.QtCore import QObject, QTimer

SLICE: Final = 0.01
"""Seconds of a turn of the event loop after which the next part waits for another one."""


class SlicedWork(QObject):
    """Does a part of some work in each turn of the event loop, or several that are short.

    Args:
        parts: does the next part whenever it is asked for one.
        parent: with which the work ends, done or not.
        then: is called when all of it is done.
    """

    def __init__(
        self, parts: Iterator[object], parent: QObject, then: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(parent)
        self._parts = parts
        self._then = then
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._go_on)
        self._turn.start()

    def _go_on(self) -> None:
        until = time.perf_counter() + SLICE
        for _ in self._parts:
            if time.perf_counter() >= until:
                self._turn.start()  # anew: behind the timers that are due by now
                return
        self._then()
        self.deleteLater()
