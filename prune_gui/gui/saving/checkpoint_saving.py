"""Saving the pruned checkpoint: the job, the notice that it succeeded, and what else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QToolBar, QToolButton, QWidget

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.checkpoint.remote.access import FetchLimitError
from prune_gui.engine import Dropped, Event
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.panels.notices import Notice
from prune_gui.gui.remote_files import RemoteFiles
from prune_gui.gui.widgets.theme import icon
from prune_gui.language import join_clauses, tr
from prune_gui.location import Location
from prune_gui.number_formats import short_bytes

if TYPE_CHECKING:
    from prune_gui.gui.saving.save_dialog import SaveDialog
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Form, Recipe
    from prune_gui.session import Session
    from prune_gui.session.changes import Changes


class CheckpointSaving:
    """Asks where to save the pruned checkpoint, and saves it.

    The dialog is kept until the file is written: if that fails or is cancelled, the dialog has the
    same input when it is shown again.
    """

    def __init__(self, window: QWidget, workbench: Workbench, remote: RemoteFiles) -> None:
        self.notice = SavedNotice(workbench)
        self.notice.folder_wanted.connect(self._show_folder)
        self.notice.code_wanted.connect(self._copy_code)
        self._window = window
        self._workbench = workbench
        self._remote = remote
        self._dialog: SaveDialog | None = None
        self._ticket: int | None = None
        self._then: Callable[[], object] | None = None
        self._saved: tuple[Session, Recipe, Form] | None = None  # what was saved last
        workbench.changed.connect(self._on_changed)
        workbench.files.saved.connect(self._tell)
        workbench.bridge.happened.connect(self._follow)

    @property
    def is_running(self) -> bool:
        return self._workbench.bridge.waits_for(self._ticket)

    def cancel(self) -> None:
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)

    def ask(self, form: Form, then: Callable[[], object] | None = None) -> None:
        """Ask where to save, and save; `then` is called after that, unless the user cancels."""
        from prune_gui.gui.saving.output_boxes import suggested_path  # not needed at startup
        from prune_gui.gui.saving.save_dialog import SaveDialog  # not needed at startup

        if self._dialog is None:
            suggested = suggested_path(self._workbench.opened.checkpoint)
            self._dialog = SaveDialog(self._workbench, suggested, form, self._window)
        self._then = then
        self._show(self._dialog)

    def _show(self, dialog: SaveDialog) -> None:
        if dialog.exec():
            self._start(dialog)
        else:
            self._then = None
            self._forget()

    def _start(self, dialog: SaveDialog) -> None:
        session = self._workbench.opened
        self._saved = session, session.recipe, dialog.form
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

    def _tell(self, path: Path) -> None:
        """Show the size of the new file, or of the shards and their index in the new folder.

        It is verified: saving fails unless what is read back is what was to be written.
        """
        location, size = Location.at(path), ""
        if location.url is None:
            files = _weight_files(path) if path.is_dir() else [path]
            size = short_bytes(sum(file.stat().st_size for file in files))
        parts = tr("Saved {name}", name=one_line(location.name)), size, tr("verified")
        self.notice.show_saved(path, join_clauses(filter(None, parts)))
        if self._then is not None:
            QTimer.singleShot(0, self._window, self._then)
            self._then = None

    def _show_folder(self, path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(folder)):
            self._workbench.noted.emit(tr("No program shows folders: {path}", path=folder))

    def _copy_code(self, path: Path) -> None:
        assert self._saved is not None
        session, recipe, form = self._saved

        def work(monitor: Monitor) -> str:
            from prune_gui.recipe.compaction.plan import compact_plan  # torch: slow to import
            from prune_gui.recipe.loading_code import loading_code  # torch: slow to import

            changes: Mapping[str, object] = {}
            if form == "compact":
                changes = compact_plan(session.resolver.resolve(recipe, monitor), monitor).changes
            with open_checkpoint(path) as saved:
                return loading_code(saved, changes)

        def copy(code: str) -> None:
            QGuiApplication.clipboard().setText(code)
            self._workbench.noted.emit(tr("Copied the code"))

        self._workbench.bridge.run_job("script", work, copy)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file or changes.saved:
            self._forget()

    def _forget(self) -> None:
        """Delete the dialog, and with it the input."""
        if self._dialog is not None:
            self._dialog.deleteLater()
            self._dialog = None


def _weight_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that `Size.nbytes` counts: those of weights, and an index."""
    for path in folder.rglob("*"):
        if path.suffix in known_suffixes() or fnmatch(path.name, "*.index*.json"):
            yield path


MORE: Final = "qt_toolbar_ext_button"
"""Qt's name of the button with the menu."""


class SavedNotice(Notice):
    """Names the saved checkpoint; buttons that do not fit into a narrow window are in a menu."""

    open_wanted = Signal(object)  # (path) this and the others: the user clicked the button
    compare_wanted = Signal(object)  # (path)
    folder_wanted = Signal(object)  # (path)
    code_wanted = Signal(object)  # (path)

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, "", "")
        self.button.hide()
        self._path = Path()
        self._bar = QToolBar()
        self._lines.addWidget(self._bar)
        for text, wanted in (
            (tr("Open"), self.open_wanted),
            (tr("Compare with the original"), self.compare_wanted),
            (tr("Show in folder"), self.folder_wanted),
            (tr("Copy code to load"), self.code_wanted),
        ):
            action = self._bar.addAction(text)
            action.triggered.connect(lambda _=False, wanted=wanted: wanted.emit(self._path))
        for button in self._bar.findChildren(QToolButton):
            button.setAutoRaise(button.objectName() == MORE)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_saved(self, path: Path, text: str) -> None:
        """Offer what can be done with the checkpoint at a path."""
        self._path, self._is_closed = path, False
        for button in self._bar.findChildren(QToolButton, MORE):
            button.setIcon(icon("down"))  # Qt's is black in any theme
        self.say(text)

    def _wanted_text(self) -> str:
        return self._text

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._text = ""
        super()._on_changed(changes)
