"""The open main windows, and the state that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget

from prune_gui.gui.cluster import Cluster
from prune_gui.gui.runtime.log_feed import LogEntry
from prune_gui.gui.runtime.loop_compiler import LoopCompiler
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.runtime.single_instance import OpenRequest
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import Method
from prune_gui.session import Crash

CASCADE_PX: Final = QPoint(32, 32)
"""Offset between the top left corners of successive windows."""


def cascaded_position(frame: QRect, screen: QRect) -> QPoint:
    """Return a position below and to the right of `frame`, or at the top left if it leaves that."""
    moved = frame.translated(CASCADE_PX)
    return moved.topLeft() if screen.contains(moved) else screen.topLeft()


def fit(window: QWidget, free: QSize) -> None:
    """Shrink and maximize a window that is larger than the available size of its screen."""
    if window.size() != window.size().boundedTo(free):
        window.resize(window.size().boundedTo(free))
        window.setWindowState(Qt.WindowState.WindowMaximized)


class Windows(QObject):
    """Creates and deletes the main windows, each with its own workbench and engine.

    All windows share one process: libraries are loaded, and loops are compiled, once. A closed
    window stays in memory, hidden, until its engine has ended.
    """

    ready = Signal()  # the engine of a window has loaded its libraries
    left = Signal()  # a window and its workbench are deleted

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
        self._compiler = LoopCompiler(self)
        self._cluster = Cluster(preferences, self)
        self._early_requests: list[OpenRequest] | None = []

    def __iter__(self) -> Iterator[MainWindow]:
        return iter(tuple(self._open))

    @property
    def front(self) -> MainWindow | None:
        """The active window, or the parent of the active dialog; else the newest window, if any."""
        widget = QApplication.activeWindow()
        while widget is not None:
            if widget in self._open:
                return widget
            widget = widget.parentWidget()
        return self._open[-1] if self._open else None

    def make(self) -> MainWindow:
        """Create and show an empty window; its engine has not loaded its libraries yet."""
        workbench = Workbench(self._cluster)
        window = MainWindow(workbench, self._preferences, self._log_file)
        window.last_crash = self._last_crash
        window.another_wanted.connect(self.open)
        window.quit_wanted.connect(self.quit)
        window.closed.connect(partial(self._closed, window))
        workbench.ready.connect(self.ready)
        workbench.loops_missing.connect(self._compiler.start)
        self._compiler.advanced.connect(window.status.show_preparation)
        workbench.methods_loaded.connect(partial(self._renew_methods, workbench))
        workbench.bridge.ended.connect(partial(self._delete, window))
        front = self.front
        if front is not None:
            window.docks.restore(*front.docks.layout())
            if not front.isMaximized() and not front.isFullScreen():
                screen = front.screen().availableGeometry()
                window.move(cascaded_position(front.frameGeometry(), screen))
            window.log.add(front.log.model.rows)
        else:
            free = window.screen().availableSize()
            if window.docks.share_a_place:
                window.docks.stack("Modules", "Pruning")
            fit(window, free)
        self._open.append(window)
        self._share_memory()
        window.show()
        return window

    def begin(self, window: MainWindow) -> None:
        """Load the libraries of a window's engine, and apply the settings of threads and device."""
        window.workbench.warm_up()
        if (threads := self._preferences.now.threads) is not None:
            window.workbench.bridge.use_threads(threads)
        if (device := self._preferences.now.device) != "automatic":
            window.workbench.bridge.use_device(device)

    def open(self, checkpoint: Path | None = None) -> MainWindow:
        """Show another window, and open a checkpoint in it if one is given."""
        window = self.make()
        window.views.make_ahead()
        self.begin(window)  # before opening: two engines that import at once slow each other down
        window.commands.open_path(checkpoint)
        return window

    def serve(self, request: OpenRequest) -> None:
        """Open what a later start of the program was given, and bring its window to the front.

        Requests that arrive before `serve_early` are served then.
        """
        if self._early_requests is not None:
            self._early_requests.append(request)
            return
        window = self._shows(request) or self._unused() or self.open()
        for path in request.methods:
            window.workbench.load_methods(path)
        if request.checkpoint is not None and window is not self._shows(request):
            window.commands.open_path(request.checkpoint, request.recipe)
        elif request.checkpoint is None and request.recipe is not None:
            window.commands.use_recipe(request.recipe)
        window.bring_to_front(request.token)

    def serve_early(self) -> None:
        """Serve the requests that arrived before the first window was ready."""
        requests, self._early_requests = self._early_requests or [], None
        for request in requests:
            self.serve(request)

    def _shows(self, request: OpenRequest) -> MainWindow | None:
        """Return the window that shows what is requested already, if any."""
        if request.checkpoint is None:
            return self.front
        opened = (window for window in self if window.workbench.files.path == request.checkpoint)
        return next(opened, None) if request.recipe is None else None

    def _unused(self) -> MainWindow | None:
        """Return the front window, if nothing is open or being opened in it."""
        front = self.front
        return front if front is not None and front.workbench.files.path is None else None

    def quit(self) -> None:
        """Close all windows, unless the user declines for one of them."""
        front = self.front
        windows = sorted(self, key=lambda window: window is not front)
        if all(window.may_close() for window in windows):
            for window in reversed(windows):  # the front window is last: its layout is saved
                window.leave()

    def log(self, entries: Sequence[LogEntry]) -> None:
        for window in self:
            window.log.add(entries)

    def close(self) -> bool:
        """End all engines and the cluster at the end of the program; return whether all ended.

        Waits for engines that write a file, but not for engines that only read.
        """
        self._compiler.stop()
        self._preferences.write()
        windows = (*self._open, *self._leaving)
        for window in windows:
            window.workbench.bridge.stop()
        ended = [window.workbench.close(hurry=True) for window in windows]
        return all([*ended, self._cluster.connection.close()])

    def _closed(self, window: MainWindow) -> None:
        self._open.remove(window)
        self._leaving.append(window)
        self._share_memory()
        window.workbench.bridge.stop()

    def _share_memory(self) -> None:
        for window in self:
            window.share_memory(len(self._open))

    def _delete(self, window: MainWindow) -> None:
        """Delete a closed window whose engine has ended."""
        if window in self._leaving:
            self._leaving.remove(window)
            window.workbench.close()
            window.views.dismantle()
            window.workbench.deleteLater()
            window.destroyed.connect(self.left, Qt.ConnectionType.QueuedConnection)
            window.deleteLater()

    def _renew_methods(self, loaded_by: Workbench, _: Sequence[type[Method]]) -> None:
        for window in self:
            if window.workbench is not loaded_by:
                window.workbench.renew_methods()
