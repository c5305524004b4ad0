"""Starting and ending the application."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from prune_gui.gui.runtime.first_paint import FirstPaint
from prune_gui.gui.runtime.gc_timer import GcTimer
from prune_gui.gui.runtime.locale import speak
from prune_gui.gui.runtime.log_feed import LogFeed
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.runtime.qt_classes import make_classes
from prune_gui.gui.runtime.qt_log import log_qt
from prune_gui.gui.runtime.sliced_work import SlicedWork
from prune_gui.gui.widgets.icons import app_icon
from prune_gui.gui.widgets.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.windows import Windows
from prune_gui.language import tr
from prune_gui.session import CrashTrail, Settings, log_path
from prune_gui.session.end_signals import end_signals

INTERRUPTED: Final = 130
SWITCH_INTERVAL: Final = 0.0001
"""Seconds for which the engine may keep the interpreter from the window: a table that is painted
asks for it hundreds of times."""

log = logging.getLogger(__name__)


def run(checkpoint: Path | None, recipe: Path | None, methods: Sequence[Path] = ()) -> int:
    """Show the window, open what is asked for, and return the exit code once it is closed.

    Args:
        checkpoint: to open.
        recipe: for it.
        methods: Python files of pruning methods that the user named and so agreed to run.
    """
    trail = CrashTrail()
    trail.start()
    log_qt()
    sys.setswitchinterval(SWITCH_INTERVAL)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("prune-gui")
    app.setApplicationDisplayName("Prune GUI")
    app.setDesktopFileName("prune-gui")
    app.setWindowIcon(app_icon())
    feed = LogFeed()
    feed.start()
    preferences = Preferences(Settings.load(), app)
    speak(app, preferences.now.language)
    Theme(app, preferences.now.theme).follow(preferences)
    collector = GcTimer(app)
    windows = Windows(preferences, log_path(), trail.last, app)
    windows.ready.connect(collector.settle)
    windows.left.connect(collector.look_again)
    feed.logged.connect(windows.log)
    _catch_faults(windows)
    # Not `app.exit` at once: it does nothing as long as `exec` has not begun.
    with end_signals(lambda code: QTimer.singleShot(0, app, partial(app.exit, code))):
        once_seen(windows.make(), partial(_begin, windows, checkpoint, recipe, methods))
        code = INTERRUPTED
        try:
            code = app.exec()
            return code
        finally:
            sys.excepthook = sys.__excepthook__
            if not windows.close():
                atexit.register(_end_at_once, code)
            collector.stop()
            feed.stop()
            trail.stop()


def _end_at_once(code: int) -> None:
    """End the process around a thread that still works: it must not see the interpreter go."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # there is none where the program has no console
            stream.flush()
    os._exit(code)


def once_seen(window: MainWindow, begin: Callable[[], None]) -> None:
    """Begin when a window is painted and the classes of Qt are made, which takes a few turns."""
    FirstPaint(window, lambda: SlicedWork(make_classes(), window, begin))


def _begin(
    windows: Windows, checkpoint: Path | None, recipe: Path | None, methods: Sequence[Path]
) -> None:
    """Have a view made for the first window, then open the checkpoint and load the libraries.

    In this order, so that nothing else is done on either thread while the view is made.
    """
    window = windows.front
    if window is not None:  # not closed already
        window.views.make_ahead(partial(_go_on, windows, window, checkpoint, recipe, methods))


def _go_on(
    windows: Windows,
    window: MainWindow,
    checkpoint: Path | None,
    recipe: Path | None,
    methods: Sequence[Path],
) -> None:
    if window not in windows:  # closed meanwhile
        return
    back = window.recovery.offer(lambda: windows.open().recovery)
    if checkpoint is not None and checkpoint.absolute() in back:
        checkpoint = None  # it is there with its steps
    place = windows.open() if back and checkpoint is not None else window
    if window.last_crash is not None:
        window.acts.refresh()
        window.status.say(
            tr("Prune GUI crashed when it was last used: Help > Last crash tells where.")
        )
    first = checkpoint is not None and checkpoint.suffix == ".safetensors" and not methods
    if checkpoint is not None and first:  # opens without the libraries: show it
        place.commands.open_path(checkpoint, recipe)
    windows.begin(window)
    for path in methods:
        place.workbench.load_methods(path)
    if checkpoint is not None and not first:
        place.commands.open_path(checkpoint, recipe)


def _catch_faults(windows: Windows) -> None:
    """Write every fault to the log, and say so once in the window that the user is at."""

    def on_this_thread(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.critical("A fault of the program", exc_info=(kind, error, trace))
        if (front := windows.front) is not None:
            front.show_fault(tr("The last action"), error)

    def on_another(fault: threading.ExceptHookArgs) -> None:
        if fault.exc_value is not None:
            trace = (fault.exc_type, fault.exc_value, fault.exc_traceback)
            log.critical("A fault of the program in %s", fault.thread, exc_info=trace)

    sys.excepthook = on_this_thread
    threading.excepthook = on_another
