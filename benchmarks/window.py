"""The real window for a benchmark, and the measurement of its longest pause."""

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
from prune_gui.recipe import Step
from prune_gui.session import Settings
from prune_gui.session.changes import Changes
from prune_gui.session.history import DraftState

SETTLE_MS = 500
"""Time after a job that still counts as a part of it, for its follow-up work."""


Accept = Callable[..., bool]


def always(*_: object) -> bool:
    """Accept every emission of a signal."""
    return True


def draft_step(bench: Workbench, step: Step) -> None:
    """Make a step the draft, and preview it."""
    bench.draft.change(lambda session: session.note_draft(DraftState.of(step)))


def is_resolved(changes: Changes) -> bool:
    """Accept the change of a workbench that shows a new resolution."""
    return changes.resolution


@dataclass(frozen=True, slots=True)
class Timing:
    """Measurements of a job.

    Attributes:
        seconds: duration of the job.
        longest: longest time between two beats in seconds, until `SETTLE_MS` after the job.
    """

    seconds: float
    longest: float


class PauseMeter(QObject):
    """Measures pauses of the event loop with a timer of 1 ms.

    Attributes:
        longest: longest time between two beats in seconds.
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

    def measure(
        self, start: Callable[[], object], until: SignalInstance, accept: Accept = always
    ) -> Timing:
        """Run a job until a signal as `wait_for` does, and return its measurements."""
        self._beat()
        self.longest = 0.0
        start_time = time.perf_counter()
        wait_for(until, start, accept)
        seconds = time.perf_counter() - start_time
        wait(SETTLE_MS)
        return Timing(seconds, self.longest)


def wait_for(signal: SignalInstance, start: Callable[[], object], accept: Accept = always) -> None:
    """Call `start`, and run the event loop until the signal is emitted with accepted arguments."""
    loop = QEventLoop()

    def stop(*arguments: object) -> None:
        if accept(*arguments):
            loop.quit()

    signal.connect(stop)
    QTimer.singleShot(0, start)
    loop.exec()
    signal.disconnect(stop)


def wait(milliseconds: int) -> None:
    """Run the event loop for a time."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


@contextmanager
def opened_window() -> Iterator[MainWindow]:
    """Show the main window without a checkpoint and before the engine loads its libraries."""
    sys.setswitchinterval(application.SWITCH_INTERVAL_S)
    qt = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory() as folder:
        bench, gc_timer = Workbench(), GcTimer(qt)
        bench.ready.connect(gc_timer.settle)
        Theme(qt, "light")
        window = MainWindow(bench, Preferences(Settings()), Path(folder) / "log")
        window.show()
        loop = QEventLoop()
        application.after_first_paint(window, partial(window.views.make_ahead, loop.quit))
        loop.exec()
        try:
            yield window
        finally:
            window.leave()  # without questions about a draft or unsaved steps
            bench.close()
            gc_timer.stop()
