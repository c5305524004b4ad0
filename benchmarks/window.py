"""The real window for a benchmark, and how long it stands still."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEventLoop, QObject, Qt, QTimer, SignalInstance
from PySide6.QtWidgets import QApplication

from prune_gui.gui import app as application
from prune_gui.gui.runtime.gc_timer import GcTimer
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.session import Settings

AFTERWARDS = 500
"""Milliseconds after a job in which what follows from it is still a part of it."""


@dataclass(frozen=True, slots=True)
class Beats:
    """How a job went.

    Attributes:
        seconds: it took.
        longest: seconds between two beats of the heart, until a while after it.
    """

    seconds: float
    longest: float


class Heart(QObject):
    """Beats every millisecond.

    Attributes:
        longest: seconds that it ever did not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._last = time.perf_counter()
        self._timer = QTimer(self, interval=1, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.longest = max(self.longest, now - self._last)
        self._last = now

    def during(self, start: Callable[[], object], until: SignalInstance) -> Beats:
        """Run a job."""
        self._beat()
        self.longest = 0.0
        began = time.perf_counter()
        wait_for(until, start)
        seconds = time.perf_counter() - began
        wait(AFTERWARDS)
        return Beats(seconds, self.longest)


def wait_for(happened: SignalInstance, start: Callable[[], object]) -> None:
    """Start something, and let the window live until a signal tells of its end."""
    loop = QEventLoop()
    happened.connect(loop.quit)
    QTimer.singleShot(0, start)
    loop.exec()
    happened.disconnect(loop.quit)


def wait(milliseconds: int) -> None:
    """Let the window live for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


@contextmanager
def opened_window() -> Iterator[MainWindow]:
    """Show the window of the program, nothing open and no library of the engine loaded yet."""
    sys.setswitchinterval(application.SWITCH_INTERVAL)
    qt = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory() as folder:
        bench, collector = Workbench(), GcTimer(qt)
        bench.ready.connect(collector.settle)
        Theme(qt, "light")
        window = MainWindow(bench, Preferences(Settings()), Path(folder) / "log")
        window.show()
        loop = QEventLoop()
        application.once_seen(window, partial(window.views.make_ahead, loop.quit))
        loop.exec()
        try:
            yield window
        finally:
            window.close()
            bench.close()
            collector.stop()
