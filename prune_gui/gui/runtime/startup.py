"""What happens between the first paint and the first file: Qt classes are created in slices.

PySide6 creates a class on first use, and crashes if two threads do so at once. The import of
pyqtgraph uses all of them; once they exist, another thread can import it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

TIMEOUT_MS: Final = 1000
"""Limit of the wait for the first paint; a window may open minimized or on another desktop."""


SLICE_S: Final = 0.01
"""Time after which the work returns to the event loop."""
MODULES: Final = ("QtCore", "QtGui", "QtWidgets", "QtSvg", "QtOpenGLWidgets", "QtTest")
"""PySide6 modules whose classes pyqtgraph uses."""


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


def run_sliced(parts: Iterator[object], parent: QObject, then: Callable[[], object]) -> None:
    """Run work in slices of about `SLICE_S`, one per iteration of the event loop."""

    def run_slice() -> None:
        deadline = time.perf_counter() + SLICE_S
        for _ in parts:
            if time.perf_counter() >= deadline:
                timer.start()  # runs after the other timers that are due
                return
        then()
        timer.deleteLater()

    timer = QTimer(parent, singleShot=True, interval=0)
    timer.timeout.connect(run_slice)
    timer.start()


def make_classes() -> Iterator[str]:
    """Create one class after another, and yield the name of each. Existing classes take no time."""
    for name in MODULES:
        with suppress(ImportError):  # some modules are optional for pyqtgraph
            module = import_module(f"PySide6.{name}")
            for member in dir(module):
                getattr(module, member)
                yield member
