"""The settings, shared by all windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from prune_gui.session import Settings

Change = Callable[[Settings], Settings]


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

    def change(self, name: str, value: object) -> None:
        self._apply(lambda settings: settings.model_copy(update={name: value}))

    def remember(self, path: Path) -> None:
        self._apply(lambda settings: settings.with_recent(path))

    def _apply(self, change: Change) -> None:
        before = self.now
        self._unwritten.append(change)
        written = Settings.update(self._with_unwritten)
        if written is not None:
            self._unwritten.clear()
        self.now = written or change(before)
        for name in Settings.model_fields:
            if getattr(before, name) != getattr(self.now, name):
                self.changed.emit(name)

    def _with_unwritten(self, settings: Settings) -> Settings:
        for change in self._unwritten:
            settings = change(settings)
        return settings
