"""The dialog that writes a report on the stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QWidget,
)

from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs.job_sequence import JobSequence
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.language import deferred, tr
from prune_gui.worker.report_job import report_job

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session.changes import Changes

EXPLANATION: Final = deferred(
    "One HTML page with the steps, the zeros and their patterns, kept energy and norms of every "
    "layer, warnings, and a section for a model card. It needs no network and no other file."
)
PAGES: Final = deferred("Web pages (*.html)")
WIDTH_PX: Final = 560


class ReportDialog(QDialog):
    """Asks where to write a report on the stack, writes it, and opens it.

    The dialog is modeless, and closes when another checkpoint is opened.
    """

    def __init__(self, workbench: Workbench, folder: Path, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Report"))
        self._workbench = workbench
        self._written: Path | None = None
        self._is_pending = False
        self._sequence = JobSequence(workbench.bridge, self)
        explanation = QLabel(tr(EXPLANATION))
        explanation.setWordWrap(True)
        explanation.setFixedWidth(WIDTH_PX)
        explanation.setMinimumHeight(explanation.heightForWidth(WIDTH_PX))
        self.path = QLineEdit(str(folder / f"{self._stem()}-report.html"))
        self.path.setAccessibleName(tr("File of the report"))
        self.table = QCheckBox(tr("&Table of all layers as CSV, in a second file"))
        self.folders = QCheckBox(tr("Name the &folders of the files in the report"))
        self.overwrite = QCheckBox(tr("Re&place existing files"))
        draft = Message()
        if workbench.draft.current is not None:
            draft.say(tr("The previewed step is not in the report: add or apply it first."))
        self.note = Message()
        keep_room(self.note, lines=2)
        policy = self.note.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.note.setSizePolicy(policy)
        layouts.column(
            explanation,
            self._make_path_row(),
            self.table,
            self.folders,
            self.overwrite,
            draft,
            self.note,
            layouts.STRETCH,
            self._make_buttons(),
            of=self,
        )
        self.resize(self.minimumSizeHint())
        self._sequence.came.connect(lambda _, path: self._finish(path))
        self._sequence.failed.connect(self._fail)
        self._sequence.ended.connect(self._end)
        self.path.textChanged.connect(self._refresh)
        workbench.changed.connect(self._on_changed)
        self._refresh()
        self.path.setFocus()

    def done(self, result: int) -> None:
        self._sequence.cancel()
        super().done(result)

    def _stem(self) -> str:
        session = self._workbench.session
        assert session is not None
        path = session.checkpoint.path.absolute()
        return path.parent.name if has_several_files(path) else path.stem

    def _make_path_row(self) -> QHBoxLayout:
        label = QLabel(tr("F&ile"))
        label.setBuddy(self.path)
        browse = layouts.button(tr("&Browse…"), self._browse)
        return layouts.row(label, (self.path, 1), browse)

    def _make_buttons(self) -> QDialogButtonBox:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        role = QDialogButtonBox.ButtonRole.ActionRole
        self.write = buttons.addButton(tr("&Write"), role)
        self.cancel = buttons.addButton(tr("Ca&ncel"), role)
        self.open_button = buttons.addButton(tr("&Open the report"), role)
        self.write.setDefault(True)
        self.write.clicked.connect(self._write)
        self.cancel.clicked.connect(self._sequence.cancel)
        self.open_button.clicked.connect(self._open)
        buttons.button(QDialogButtonBox.StandardButton.Close).setAutoDefault(False)
        buttons.rejected.connect(self.reject)
        return buttons

    def _browse(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self,
            tr("Report"),
            self.path.text(),
            tr(PAGES),
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if path:
            self.path.setText(path)

    def _write(self) -> None:
        session = self._workbench.session
        if session is None:
            return
        page = Path(self.path.text().strip())
        job = report_job(
            session,
            page,
            page.with_suffix(".csv") if self.table.isChecked() else None,
            with_folders=self.folders.isChecked(),
            overwrite=self.overwrite.isChecked(),
        )
        self._written, self._is_pending = None, True
        self.note.say(tr("Writing…"), warning=False)
        self._sequence.start([job])
        self.cancel.setEnabled(True)
        self.cancel.setFocus()
        self._refresh()

    def _end(self) -> None:
        if self._is_pending:  # it was cancelled, here or in the status bar
            self._is_pending = False
            self.note.say(tr("Cancelled; nothing was changed."), warning=False)
        self._refresh()

    def _finish(self, path: Path) -> None:
        self._written, self._is_pending = path, False
        self.note.say(tr("Wrote {name}", name=one_line(path.name)), warning=False)

    def _fail(self, title: str, error: BaseException) -> None:
        self._is_pending = False
        self.note.say(str(error) if isinstance(error, PruneGuiError) else "")
        if not isinstance(error, PruneGuiError):
            self._workbench.failed.emit(title, error)

    def _open(self) -> None:
        if self._written is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._written.absolute())))

    def _refresh(self) -> None:
        running = self._sequence.running
        self.write.setEnabled(not running and bool(self.path.text().strip()))
        self.open_button.setEnabled(not running and self._written is not None)
        if not running and self.focusWidget() is self.cancel:  # Qt would move it to the file
            (self.open_button if self._written else self.write).setFocus()
        self.cancel.setEnabled(running)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.close()
