"""The settings as all windows see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from prune_gui.session import Settings

Change = Callable[[Settings], Settings]


class Preferences(QObject):
    """The one place where settings are kept and changed.

    Each change begins with what is on disk: another program may have written there meanwhile, and
    what it wrote stays, but for the setting that is changed here. What cannot be written counts in
    this program, and is written with the next change.

    Args:
        settings: as they were when the program started.

    Attributes:
        now: the settings as they are now.

    Signals:
        changed: (name) that attribute of `now` has another value.
    """

    changed = Signal(str)

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now = settings
        self._unwritten: list[Change] = []

    def change(self, name: str, value: object) -> None:
        """Change the setting of that name, now and for later."""
        self._keep(lambda settings: settings.model_copy(update={name: value}))

    def remember(self, path: Path) -> None:
        """Put a checkpoint first among those opened lately."""
        self._keep(lambda settings: settings.with_recent(path))

    def _keep(self, change: Change) -> None:
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
