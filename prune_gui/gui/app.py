"""Starting and ending the application."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from prune_gui.gui.collector import Collector
from prune_gui.gui.icons import app_icon
from prune_gui.gui.log_feed import LogFeed
from prune_gui.gui.qt_log import log_qt
from prune_gui.gui.speech import speak
from prune_gui.gui.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session import CrashTrail, Settings, log_path

INTERRUPTED: Final = 130
SWITCH_INTERVAL: Final = 0.001
"""Seconds for which the engine may keep the interpreter from the window."""

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
    settings = Settings.load()
    speak(app, settings.language)
    theme = Theme(app, settings.theme)
    workbench = Workbench()
    collector = Collector(app)
    workbench.ready.connect(collector.settle)
    window = MainWindow(workbench, theme, settings, log_path())
    feed.logged.connect(window.log.add)
    window.last_crash = trail.last
    _catch_faults(window)
    signal.signal(signal.SIGINT, lambda *_: app.exit(INTERRUPTED))
    window.show()
    QTimer.singleShot(0, lambda: _begin(window, checkpoint, recipe, methods))
    try:
        return app.exec()
    finally:
        sys.excepthook = sys.__excepthook__
        workbench.close()
        collector.stop()
        feed.stop()
        trail.stop()


def _begin(
    window: MainWindow, checkpoint: Path | None, recipe: Path | None, methods: Sequence[Path]
) -> None:
    """Open the checkpoint and load the engine's libraries, behind the window."""
    if window.recovery.offer():
        checkpoint = None  # another one comes back
    if window.last_crash is not None:
        window.acts.refresh()
        window.status.say(
            tr("Prune GUI crashed when it was last used: Help > Last crash tells where.")
        )
    first = checkpoint is not None and checkpoint.suffix == ".safetensors" and not methods
    if checkpoint is not None and first:  # opens without the libraries: show it
        window.commands.open_path(checkpoint, recipe)
    window.workbench.warm_up()
    if (threads := window.commands.settings.threads) is not None:
        window.workbench.use_threads(threads)
    for path in methods:
        window.workbench.load_methods(path)
    if checkpoint is not None and not first:
        window.commands.open_path(checkpoint, recipe)


def _catch_faults(window: MainWindow) -> None:
    """Write every fault to the log, and say so once in the window."""

    def on_this_thread(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.critical("A fault of the program", exc_info=(kind, error, trace))
        window.show_fault(tr("The last action"), error)

    def on_another(fault: threading.ExceptHookArgs) -> None:
        if fault.exc_value is not None:
            trace = (fault.exc_type, fault.exc_value, fault.exc_traceback)
            log.critical("A fault of the program in %s", fault.thread, exc_info=trace)

    sys.excepthook = on_this_thread
    threading.excepthook = on_another
