"""The settings, shared by all windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from prune_gui.session import Settings

Change = Callable[[Settings], Settings]

WRITE_DELAY_MS: Final = 500
"""Delay of the list of recent files, which would be written while a file is being painted."""


class Preferences(QObject):
    """Holds the settings, and writes every change to disk.

    A change is applied to the settings on disk, which another program may have changed meanwhile;
    its other changes are kept. A change that cannot be written is effective in this program, and is
    written together with the next one.
    """

    changed = Signal(str)  # (name) an attribute of `now` changed

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now = settings
        self._unwritten: list[Change] = []
        self._write_timer = QTimer(self, singleShot=True, interval=WRITE_DELAY_MS)
        self._write_timer.timeout.connect(self.write)

    def change(self, name: str, value: object) -> None:
        self._unwritten.append(lambda settings: settings.model_copy(update={name: value}))
        self.write()

    def remember(self, path: Path) -> None:
        """Add a recent file. It is written soon, or with a change that comes before."""
        self._unwritten.append(lambda settings: settings.with_recent(path))
        self._use(self._unwritten[-1](self.now))
        self._write_timer.start()

    def write(self) -> None:
        """Write all changes that are not on disk yet."""
        self._write_timer.stop()
        if not self._unwritten:
            return
        written = Settings.update(self._with_unwritten)
        self._use(written or self._with_unwritten(self.now))
        if written is not None:
            self._unwritten.clear()

    def _use(self, settings: Settings) -> None:
        before, self.now = self.now, settings
        for name in Settings.model_fields:
            if getattr(before, name) != getattr(self.now, name):
                self.changed.emit(name)

    def _with_unwritten(self, settings: Settings) -> Settings:
        for change in self._unwritten:
            settings = change(settings)
        return settings
