"""The notice that the checkpoint changed on disk, with a button that reloads it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QFileSystemWatcher, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from prune_gui.errors import one_line
from prune_gui.file_stamps import FileStamps
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr, trn
from prune_gui.session.changes import Changes

SETTLE_DELAY_MS: Final = 500
"""Time without a change after which a file counts as completely written."""
MAX_NAME_CHARS: Final = 60
"""Limit of a shown file name."""


class ReloadNotice(QWidget):
    """Watches the files of the open checkpoint; visible from a change until the reload."""

    def __init__(self, workbench: Workbench, reload: QAction) -> None:
        super().__init__()
        self._workbench = workbench
        self._stamps = FileStamps()
        self._watcher = QFileSystemWatcher(self)
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_DELAY_MS)
        self._settle_timer.timeout.connect(self._look)
        self._watcher.fileChanged.connect(self._settle_timer.start)
        self._watcher.directoryChanged.connect(self._settle_timer.start)
        self._text = Message()
        self._text.setWordWrap(False)
        button = QToolButton()
        button.setText(tr("Reload"))
        button.setToolTip(reload.toolTip())
        button.clicked.connect(reload.trigger)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._text)
        layout.addWidget(button)
        workbench.changed.connect(self._on_changed)
        self.hide()

    @property
    def text(self) -> str:
        """The text of the notice; "" while it is hidden."""
        return "" if self.isHidden() else self._text.text()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._watch()

    def _watch(self) -> None:
        """Watch the files of the open checkpoint, and their folders.

        Qt stops watching a file that is replaced; the folder then reports the new file.
        """
        session = self._workbench.session
        assert session is not None
        self.hide()
        self._settle_timer.stop()
        if watched := self._watcher.files() + self._watcher.directories():
            self._watcher.removePaths(watched)
        self._stamps = session.stamps
        files = [path.absolute() for path, state in session.stamps.states if state]
        folders = dict.fromkeys(path.parent for path in files)
        self._watcher.addPaths([str(path) for path in (*files, *folders)])
        self._look()

    def _look(self) -> None:
        changed = self._stamps.changed()
        if changed:
            name = one_line(changed[0].name, MAX_NAME_CHARS)
            more = len(changed) - 1
            self._text.say(
                trn(
                    "{name} and {count:,} more file changed on disk",
                    "{name} and {count:,} more files changed on disk",
                    more,
                    name=name,
                )
                if more
                else tr("{name} changed on disk", name=name)
            )
        self.setVisible(bool(changed))
        unwatched = {str(path.absolute()) for path in changed} - set(self._watcher.files())
        if unwatched:
            self._watcher.addPaths(sorted(unwatched))
