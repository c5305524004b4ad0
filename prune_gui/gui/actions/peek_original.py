"""A key that shows the unpruned checkpoint while it is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench

KEY: Final = Qt.Key.Key_B
RELEASE_DELAY_MS: Final = 60
"""Delay after a key release before it counts. X11 sends a release and a press for each repeat."""


class PeekOriginal(QObject):
    """Makes the workbench show the unchanged file while B is held anywhere in a window.

    A shortcut detects the press, because text fields take precedence over shortcuts and still get
    the letter. A shortcut does not report the release, so an event filter on the application
    watches for it until the key is released or the window is deactivated.
    """

    def __init__(self, workbench: Workbench, window: QWidget) -> None:
        super().__init__(window)
        self._workbench = workbench
        shortcut = QShortcut(QKeySequence(KEY), window)
        shortcut.setAutoRepeat(False)
        shortcut.activated.connect(self._press)
        self._release_timer = QTimer(self, singleShot=True, interval=RELEASE_DELAY_MS)
        self._release_timer.timeout.connect(self._release)

    def eventFilter(self, _: QObject, event: QEvent) -> bool:  # noqa: N802
        """Detect the release of the key, and the deactivation of the window."""
        match event.type():
            case QEvent.Type.KeyRelease if isinstance(event, QKeyEvent):
                if event.key() == KEY and not event.isAutoRepeat():
                    self._release_timer.start()
            case QEvent.Type.WindowDeactivate:
                self._release()
        return False

    def _press(self) -> None:
        self._release_timer.stop()
        _application().installEventFilter(self)
        self._workbench.draft.show_original(on=True)

    def _release(self) -> None:
        self._release_timer.stop()
        _application().removeEventFilter(self)
        self._workbench.draft.show_original(on=False)


def _application() -> QCoreApplication:
    application = QCoreApplication.instance()
    assert application is not None
    return application
