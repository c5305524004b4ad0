"""Saving the pruned checkpoint: the dialog, the job, and what happens if the job fails."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from prune_gui.checkpoint.remote.access import FetchLimitError
from prune_gui.engine import Dropped, Event
from prune_gui.errors import PruneGuiError
from prune_gui.gui.remote_files import RemoteFiles
from prune_gui.language import join_clauses, tr, trn
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.gui.saving.save_dialog import SaveDialog
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session import Session, Settings
    from prune_gui.session.changes import Changes


class CheckpointSaving:
    """Asks where to save the pruned checkpoint, and saves it.

    The dialog is kept until the file is written: if that fails or is cancelled, the dialog has the
    same input when it is shown again.
    """

    def __init__(self, window: QWidget, workbench: Workbench, remote: RemoteFiles) -> None:
        self._window = window
        self._workbench = workbench
        self._remote = remote
        self._dialog: SaveDialog | None = None
        self._ticket: int | None = None
        self._keeps_code: bool | None = None
        workbench.changed.connect(self._on_changed)
        workbench.files.saved.connect(self._tell_size)
        workbench.bridge.happened.connect(self._follow)

    @property
    def is_running(self) -> bool:
        return self._workbench.bridge.waits_for(self._ticket)

    def cancel(self) -> None:
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)

    def ask(self, session: Session, settings: Settings) -> None:
        from prune_gui.gui.saving.output_boxes import pruned_path  # not needed at startup
        from prune_gui.gui.saving.save_dialog import SaveDialog  # not needed at startup

        if self._dialog is None:
            suggested = pruned_path(session.checkpoint.path)
            self._dialog = SaveDialog(self._workbench, suggested, settings.form, self._window)
        self._show(self._dialog)

    def _show(self, dialog: SaveDialog) -> None:
        if dialog.exec():
            self._start(dialog)
        else:
            self._forget()

    def _start(self, dialog: SaveDialog) -> None:
        self._keeps_code = dialog.keeps_code
        save = self._workbench.files.save
        self._ticket = save(dialog.path, dialog.options, failed=self._explain)

    def _explain(self, error: BaseException) -> None:
        """Show the dialog again, with the error; a fault of the program is reported as usual.

        If too much would be fetched, ask whether to fetch it, and then save.
        """
        if self._dialog is not None and isinstance(error, FetchLimitError):
            self._remote.ask(error, partial(self._start, self._dialog))
        elif self._dialog is None or not isinstance(error, PruneGuiError):
            self._workbench.failed.emit(tr("Saving the pruned checkpoint"), error)
        else:
            self._dialog.explain(str(error))
            self._show(self._dialog)

    def _follow(self, event: Event) -> None:
        if event.ticket == self._ticket and isinstance(event, Dropped):
            self._workbench.noted.emit(tr("Saving was cancelled; no file was changed."))

    def _tell_size(self, path: Path) -> None:
        """Show the exact size of the new file or of all files in the new folder."""
        url = Location.at(path).url
        if url is not None:
            self._workbench.noted.emit(tr("Saved {path}", path=url))
            return
        files = filter(Path.is_file, path.rglob("*")) if path.is_dir() else [path]
        nbytes = sum(file.stat().st_size for file in files)
        size = trn("{count:,} byte", "{count:,} bytes", nbytes)
        saved = tr("Saved {path} ({size})", path=path, size=size)
        if self._keeps_code is not None:
            names_code, without = tr("which names code"), tr("tensors only")
            saved = join_clauses([saved, names_code if self._keeps_code else without])
        self._workbench.noted.emit(saved)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file or changes.saved:
            self._forget()

    def _forget(self) -> None:
        if self._dialog is not None:
            self._dialog.deleteLater()
            self._dialog = None
