"""The settings as all windows see them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from prune_gui.session import Settings


class Preferences(QObject):
    """The one place where settings are kept and changed.

    Each change begins with what is on disk: another program may have written there meanwhile, and
    what it wrote stays, but for the setting that is changed here.

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

    def change(self, name: str, value: object) -> None:
        """Change the setting of that name, now and for later."""
        self._keep(Settings.load().model_copy(update={name: value}))

    def remember(self, path: Path) -> None:
        """Put a checkpoint first among those opened lately."""
        self._keep(Settings.load().with_recent(path))

    def _keep(self, settings: Settings) -> None:
        before, self.now = self.now, settings
        settings.save()
        for name in Settings.model_fields:
            if getattr(before, name) != getattr(settings, name):
                self.changed.emit(name)
