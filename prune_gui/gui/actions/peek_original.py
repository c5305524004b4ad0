"""A look at the checkpoint as it was, for as long as a key is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench

KEY: Final = Qt.Key.Key_B
PATIENCE: Final = 60
"""Milliseconds until a key that was let go counts as that. One that repeats itself may be let go
and pressed again each time, as far as X11 tells."""


class PeekOriginal(QObject):
    """Has the workbench show the file as it is while B is held anywhere in a window.

    A shortcut takes the key, so that a field for text, which comes first, still gets its letter.
    No shortcut tells when its key is let go: from then on all events are looked at until it is, or
    until the window is no longer the one that would hear of it.
    """

    def __init__(self, workbench: Workbench, window: QWidget) -> None:
        super().__init__(window)
        self._workbench = workbench
        shortcut = QShortcut(QKeySequence(KEY), window)
        shortcut.setAutoRepeat(False)
        shortcut.activated.connect(self._press)
        self._let_go = QTimer(self, singleShot=True, interval=PATIENCE)
        self._let_go.timeout.connect(self._release)

    def eventFilter(self, _: QObject, event: QEvent) -> bool:  # noqa: N802
        """Notice that the key is let go."""
        match event.type():
            case QEvent.Type.KeyRelease if isinstance(event, QKeyEvent):
                if event.key() == KEY and not event.isAutoRepeat():
                    self._let_go.start()
            case QEvent.Type.WindowDeactivate:
                self._release()
        return False

    def _press(self) -> None:
        self._let_go.stop()
        _application().installEventFilter(self)
        self._workbench.show_before(on=True)

    def _release(self) -> None:
        self._let_go.stop()
        _application().removeEventFilter(self)
        self._workbench.show_before(on=False)


def _application() -> QCoreApplication:
    application = QCoreApplication.instance()
    assert application is not None
    return application
