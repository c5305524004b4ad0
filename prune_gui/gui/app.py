"""Start and end of the application."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from prune_gui.checkpoint.formats import format_by_suffix
from prune_gui.errors import CheckpointError
from prune_gui.gui.runtime.gc_timer import GcTimer
from prune_gui.gui.runtime.locale import set_language
from prune_gui.gui.runtime.log_feed import LogFeed, log_qt
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.runtime.single_instance import OpenRequest, SingleInstance, activation_token
from prune_gui.gui.runtime.startup import FirstPaint, make_classes, run_sliced
from prune_gui.gui.widgets.theme import Theme, app_icon
from prune_gui.gui.window import MainWindow
from prune_gui.gui.windows import Windows
from prune_gui.language import tr
from prune_gui.session import CrashTrace, Settings, log_path
from prune_gui.session.end_signals import end_signals

INTERRUPTED_EXIT_CODE: Final = 130
SWITCH_INTERVAL_S: Final = 0.0001
"""Thread switch interval of the interpreter, in seconds.

The GUI thread waits at most this long for the GIL, which painting a table takes hundreds of times.
"""

log = logging.getLogger(__name__)


def run(
    checkpoint: Path | None,
    recipe: Path | None,
    methods: Sequence[Path] = (),
    *,
    new_instance: bool = False,
) -> int:
    """Show the first window, open the given files, and return the exit code after the last closes.

    If the program runs already, its window opens the files, and this start ends at once, unless a
    new instance is wanted. To name methods on the command line counts as consent to run them.
    """
    crash_trail = CrashTrace()
    crash_trail.start()
    log_qt()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("prune-gui")
    app.setApplicationDisplayName("Prune GUI")
    app.setDesktopFileName("prune-gui")
    request = OpenRequest(
        checkpoint=checkpoint and checkpoint.absolute(),
        recipe=recipe and recipe.absolute(),
        methods=tuple(path.absolute() for path in methods),
        token=activation_token(os.environ),
    )
    single_instance = SingleInstance(app)
    if not new_instance and single_instance.hand_over(request):
        crash_trail.stop()
        return 0
    app.setWindowIcon(app_icon())
    log_feed = LogFeed()
    log_feed.start()
    preferences = Preferences(Settings.load(), app)
    set_language(app, preferences.now.language)
    Theme(app, preferences.now.theme, preferences.now.density).follow(preferences)
    gc_timer = GcTimer(app)
    windows = Windows(preferences, log_path(), crash_trail.last, app)
    windows.ready.connect(gc_timer.settle)
    windows.left.connect(gc_timer.look_again)
    single_instance.requested.connect(windows.serve)
    app.lastWindowClosed.connect(single_instance.close)  # the program ends
    log_feed.logged.connect(windows.log)
    _catch_faults(windows)
    # The timer delays `app.exit`, which has no effect before `exec` has started.
    with end_signals(lambda code: QTimer.singleShot(0, app, partial(app.exit, code))):
        after_first_paint(windows.make(), partial(_prepare_first_window, windows, request))
        code = INTERRUPTED_EXIT_CODE
        try:
            code = app.exec()
            return code
        finally:
            sys.excepthook = sys.__excepthook__
            single_instance.close()
            if not windows.close():
                atexit.register(_end_at_once, code)
            gc_timer.stop()
            log_feed.stop()
            crash_trail.stop()


def _end_at_once(code: int) -> None:
    """End the process without interpreter shutdown, because another thread is still running."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the program has no console
            stream.flush()
    os._exit(code)


def after_first_paint(window: MainWindow, begin: Callable[[], None]) -> None:
    """Call `begin` after `window` is painted and all Qt classes exist.

    Creating the classes takes several iterations of the event loop.
    """
    FirstPaint(window, lambda: run_sliced(make_classes(), window, begin))


def _prepare_first_window(windows: Windows, request: OpenRequest) -> None:
    """Create a view in the first window, then open the checkpoint and load the libraries.

    The view comes first so that neither thread does other work during its creation.
    """
    window = windows.front
    if window is not None:  # None if the user has closed it already
        window.views.make_ahead(partial(_open_files, windows, window, request))


def _names_one_of(path: Path | None, checkpoints: Sequence[Path]) -> bool:
    """Return whether a path is that of a checkpoint, or of the folder that is opened as it."""
    if path is not None and checkpoints and path.is_dir():
        from prune_gui.checkpoint.folder import find_checkpoint  # not needed at startup

        with suppress(CheckpointError, OSError):  # opening the folder reports it
            path, _ = find_checkpoint(path)
    return path in checkpoints


def _open_files(windows: Windows, window: MainWindow, request: OpenRequest) -> None:
    if window not in windows:  # the user closed it meanwhile
        return
    restored = window.recovery.offer(lambda: windows.open().recovery)
    # Its window may be restored already.
    checkpoint = None if _names_one_of(request.checkpoint, restored) else request.checkpoint
    target_window = windows.open() if restored and checkpoint is not None else window
    if window.last_crash is not None:
        window.menu_actions.refresh()
        window.status.say(tr("Prune GUI crashed in the last session. See Help > Last crash."))
    file_format = checkpoint and format_by_suffix(checkpoint)
    opens_fast = bool(file_format and file_format.opens_without_torch) and not request.methods
    if opens_fast:  # needs no libraries: show it before they load
        target_window.commands.open_path(checkpoint, request.recipe)
    windows.begin(window)
    for path in request.methods:
        target_window.workbench.load_methods(path)
    if not opens_fast:
        target_window.commands.open_path(checkpoint, request.recipe)
    windows.serve_early()


def _catch_faults(windows: Windows) -> None:
    """Log every unhandled exception, and show those of the GUI thread in the front window."""

    def on_gui_thread(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.critical("Internal error", exc_info=(kind, error, trace))
        if (front := windows.front) is not None:
            front.show_fault(tr("The last action"), error)

    def on_other_thread(fault: threading.ExceptHookArgs) -> None:
        if fault.exc_value is not None:
            trace = (fault.exc_type, fault.exc_value, fault.exc_traceback)
            log.critical("Internal error in %s", fault.thread, exc_info=trace)

    sys.excepthook = on_gui_thread
    threading.excepthook = on_other_thread
