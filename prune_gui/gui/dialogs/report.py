"""The dialog that writes a report on the stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QUrl
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QWidget

from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog
from prune_gui.gui.saving.output_boxes import typed_path
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.language import deferred, tr
from prune_gui.worker.jobs import report_job

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench

EXPLANATION: Final = deferred(
    "One HTML page with the steps, the zeros and their patterns, kept energy and norms of every "
    "layer, warnings, and a section for a model card. It needs no network and no other file."
)
PAGES: Final = deferred("Web pages (*.html)")
WIDTH_PX: Final = 560


class ReportDialog(JobSequenceDialog):
    """Asks where to write a report on the stack, writes it, and opens it."""

    def __init__(self, workbench: Workbench, folder: Path, parent: QWidget) -> None:
        super().__init__(workbench, tr("Report"), tr("&Write"), parent)
        self._folder = folder
        self._written: Path | None = None
        self._is_pending = False
        explanation = QLabel(tr(EXPLANATION), wordWrap=True)
        explanation.setFixedWidth(WIDTH_PX)
        explanation.setMinimumHeight(explanation.heightForWidth(WIDTH_PX))
        opened = workbench.opened.checkpoint.path.absolute()
        stem = opened.parent.name if has_several_files(opened) else opened.stem
        self.path = QLineEdit(str(folder / f"{stem}-report.html"))
        self.path.setAccessibleName(tr("File of the report"))
        label = QLabel(tr("F&ile"))
        label.setBuddy(self.path)
        browse = layouts.button(tr("&Browse…"), self._browse)
        self.table = QCheckBox(tr("&Table of all layers as CSV, in a second file"))
        self.folders = QCheckBox(tr("Name the &folders of the files in the report"))
        self.overwrite = QCheckBox(tr("Re&place existing files"))
        draft, self.note = Message(), Message()
        if workbench.draft.current is not None:
            draft.say(tr("The previewed step is not in the report: add or apply it first."))
        keep_room(self.note, lines=2)
        policy = self.note.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.note.setSizePolicy(policy)
        self.open_button = self._add_button(tr("&Open the report"), self._open)
        path_row = layouts.row(label, (self.path, 1), browse)
        options = self.table, self.folders, self.overwrite
        notes = draft, self.note, layouts.STRETCH
        layouts.column(explanation, path_row, *options, *notes, self.buttons, of=self)
        self.resize(self.minimumSizeHint())
        self.path.textChanged.connect(self._refresh)
        self._refresh()
        self.path.setFocus()

    def _browse(self) -> None:
        if path := questions.ask_output(self, tr("Report"), self.path.text(), tr(PAGES)):
            self.path.setText(path)

    def _run(self) -> None:
        page = typed_path(self.path.text(), self._folder)
        job = report_job(
            self._workbench.opened,
            self._workbench.comparison.reference,
            page,
            page.with_suffix(".csv") if self.table.isChecked() else None,
            with_folders=self.folders.isChecked(),
            overwrite=self.overwrite.isChecked(),
        )
        self._written, self._is_pending = None, True
        self.note.say(tr("Writing…"), warning=False)
        self._start([job])
        self.run.setFocus()  # it moves on to Cancel
        self._refresh()

    def _take_result(self, _index: int, path: Path) -> None:
        self._written, self._is_pending = path, False
        self.note.say(tr("Wrote {name}", name=one_line(path.name)), warning=False)

    def _fail(self, title: str, error: BaseException) -> None:
        self._is_pending = False
        self.note.say(str(error) if isinstance(error, PruneGuiError) else "")
        if not isinstance(error, PruneGuiError):
            self._workbench.failed.emit(title, error)

    def _open(self) -> None:
        if self._written is not None:
            questions.open_outside(self, QUrl.fromLocalFile(str(self._written.absolute())))

    def _refresh(self) -> None:
        if self._is_pending and not self.running:  # it was cancelled, here or in the status bar
            self._is_pending = False
            self.note.say(tr("Cancelled; nothing was changed."), warning=False)
        self.open_button.setEnabled(not self.running and self._written is not None)
        if self._written and self.focusWidget() is self.cancel:
            self.open_button.setFocus()
        self._enable_buttons(ready=bool(self.path.text().strip()))
