"""A callback after the first paint of a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

TIMEOUT_MS: Final = 1000
"""Limit of the wait for the first paint; a window may open minimized or on another desktop."""


class FirstPaint(QObject):
    """Calls a function once, after a window has been painted or `TIMEOUT_MS` have passed.

    The object lives as long as the window: PySide6 6.11 sometimes crashes if it is deleted earlier.
    """

    def __init__(self, window: QWidget, then: Callable[[], object]) -> None:
        super().__init__(window)
        self._then = then
        self._timer = QTimer(self, singleShot=True, interval=TIMEOUT_MS)
        self._timer.timeout.connect(self._finish)
        self._timer.start()
        self._handle = window.windowHandle()
        self._handle.installEventFilter(self)

    def eventFilter(self, _: QObject, event: QEvent) -> bool:  # noqa: N802
        """Start the timer at 0 ms on an expose event, so that `then` runs after the paint."""
        if event.type() == QEvent.Type.Expose:
            self._timer.start(0)
        return False

    def _finish(self) -> None:
        self._handle.removeEventFilter(self)
        self._then()
