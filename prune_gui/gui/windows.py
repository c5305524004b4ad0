"""The main windows that are open, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget

from prune_gui.gui.runtime.log_feed import Entry
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import Method
from prune_gui.session import Crash

CASCADE: Final = QPoint(32, 32)
"""From the corner of a window to that of the next."""


def beside(frame: QRect, screen: QRect) -> QPoint:
    """Return where the next window stands: a little below `frame` and to the right of it."""
    moved = frame.translated(CASCADE)
    return moved.topLeft() if screen.contains(moved) else screen.topLeft()


def fit(window: QWidget, free: QSize) -> None:
    """Let a window that is larger than the free part of its screen fill that."""
    if window.size() != window.size().boundedTo(free):
        window.resize(window.size().boundedTo(free))
        window.setWindowState(Qt.WindowState.WindowMaximized)


class Windows(QObject):
    """Makes main windows, each with a workbench and so an engine of its own, and lets them go.

    All live in one process: libraries are loaded and loops compiled once, and the memory of those
    is there once. A window that is closed is kept, unseen, until its engine has ended.

    Args:
        preferences: the same for all.
        log_file: where faults of the program are written down.
        last_crash: what the program that ran before left; None if it did not die.

    Signals:
        ready: the engine of a window has loaded its libraries.
        left: a window is gone, with its workbench.
    """

    ready = Signal()
    left = Signal()

    def __init__(
        self,
        preferences: Preferences,
        log_file: Path,
        last_crash: Crash | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self._log_file = log_file
        self._last_crash = last_crash
        self._open: list[MainWindow] = []
        self._leaving: list[MainWindow] = []

    def __iter__(self) -> Iterator[MainWindow]:
        return iter(tuple(self._open))

    @property
    def front(self) -> MainWindow | None:
        """The window that the user is at, perhaps in a dialog of it; else the newest, if any."""
        widget = QApplication.activeWindow()
        while widget is not None:
            if widget in self._open:
                return widget
            widget = widget.parentWidget()
        return self._open[-1] if self._open else None

    def make(self) -> MainWindow:
        """Return a new window with nothing open, shown; its engine has loaded nothing yet."""
        workbench = Workbench()
        window = MainWindow(workbench, self._preferences, self._log_file)
        window.last_crash = self._last_crash
        window.another_wanted.connect(self.open)
        window.quit_wanted.connect(self.quit)
        window.closed.connect(partial(self._let_go, window))
        workbench.ready.connect(self.ready)
        workbench.methods_loaded.connect(partial(self._renew_methods, workbench))
        workbench.bridge.ended.connect(partial(self._end, window))
        front = self.front
        if front is not None:
            window.look_like(front)
            if not front.isMaximized() and not front.isFullScreen():
                window.move(beside(front.frameGeometry(), front.screen().availableGeometry()))
            window.log.add(front.log.model.entries)
        else:
            fit(window, window.screen().availableSize())
        self._open.append(window)
        self._share_memory()
        window.show()
        return window

    def begin(self, window: MainWindow) -> None:
        """Have the engine of a window load its libraries, or find them loaded."""
        window.workbench.warm_up()
        if (threads := self._preferences.now.threads) is not None:
            window.workbench.use_threads(threads)

    def open(self, checkpoint: Path | None = None) -> MainWindow:
        """Show another window, and open a checkpoint in it if one is given."""
        window = self.make()
        window.views.make_ahead()
        self.begin(window)  # first: two engines that import at once get in each other's way
        if checkpoint is not None:
            window.commands.open_path(checkpoint)
        return window

    def quit(self) -> None:
        """Close all windows, unless the user would rather keep one of them."""
        front = self.front
        windows = sorted(self, key=lambda window: window is not front)
        if all(window.may_close() for window in windows):
            for window in reversed(windows):  # the front one's place is the one to remember
                window.leave()

    def log(self, entries: Sequence[Entry]) -> None:
        """Show what was logged, in every window: it may be about more than one."""
        for window in self:
            window.log.add(entries)

    def close(self) -> bool:
        """End all engines, as the program is about to end; tell whether they did.

        One that writes a file is waited for, one that only reads is left to die with the program.
        """
        windows = (*self._open, *self._leaving)
        for window in windows:
            window.workbench.stop()
        ended = [window.workbench.close(hurry=True) for window in windows]
        return all(ended)

    def _let_go(self, window: MainWindow) -> None:
        self._open.remove(window)
        self._leaving.append(window)
        self._share_memory()
        window.workbench.stop()

    def _share_memory(self) -> None:
        """Have all windows together keep no more of their pictures than the settings allow."""
        for window in self:
            window.share_memory(len(self._open))

    def _end(self, window: MainWindow) -> None:
        """Get rid of a window whose engine has nothing left to do."""
        if window in self._leaving:
            self._leaving.remove(window)
            window.workbench.close()
            window.dismantle()
            window.workbench.deleteLater()
            window.destroyed.connect(self.left, Qt.ConnectionType.QueuedConnection)
            window.deleteLater()

    def _renew_methods(self, loaded_by: Workbench, _: Sequence[type[Method]]) -> None:
        """Have the other windows know the methods that were loaded in one of them."""
        for window in self:
            if window.workbench is not loaded_by:
                window.workbench.renew_methods()
