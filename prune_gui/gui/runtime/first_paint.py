"""Waiting until a window is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

UNSEEN: Final = 1000
"""Milliseconds after which nobody looks at the window: it came up minimized, or elsewhere."""


class FirstPaint(QObject):
    """Calls a function once a window has been painted, or nobody is there to see it.

    It stays as long as the window: PySide6 6.11 crashes at times if it is deleted when it is done.

    Args:
        window: that is being shown.
        then: is called once.
    """

    def __init__(self, window: QWidget, then: Callable[[], object]) -> None:
        super().__init__(window)
        self._then = then
        self._wait = QTimer(self, singleShot=True, interval=UNSEEN)
        self._wait.timeout.connect(self._go_on)
        self._wait.start()
        self._handle = window.windowHandle()
        self._handle.installEventFilter(self)

    def eventFilter(self, _: QObject, event: QEvent) -> bool:  # noqa: N802
        """Notice that the window is about to be painted; what waits comes after that."""
        if event.type() == QEvent.Type.Expose:
            self._wait.start(0)
        return False

    def _go_on(self) -> None:
        self._handle.removeEventFilter(self)
        self._then()
