"""A dialog that submits its jobs one by one, so that other jobs of the window run between them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPushButton, QWidget

from prune_gui.engine import Dropped, Event, Failed, Finished, Job
from prune_gui.gui.dialogs import questions
from prune_gui.gui.widgets import layouts
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session.changes import Changes

log = logging.getLogger(__name__)


class JobSequenceDialog(QDialog):
    """A modeless dialog whose default button runs jobs, until one fails or the user cancels.

    Closing it cancels them. It closes when another checkpoint is opened in the window, unless it
    is `writing`.
    """

    ended = Signal()  # there are no more jobs

    def __init__(self, workbench: Workbench, title: str, run: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._workbench = workbench
        self._remaining_jobs: list[Job] = []
        self._ticket: int | None = None
        self._index = 0
        close = QDialogButtonBox.StandardButton.Close
        self.buttons = layouts.dialog_buttons(self, close)
        self.buttons.button(close).setAutoDefault(False)
        self.run = self._add_button(run, self._run)
        self.run.setDefault(True)
        self.cancel = self._add_button(tr("Ca&ncel"), self.stop)
        self.ended.connect(self._refresh)
        workbench.bridge.happened.connect(self._go_on)
        workbench.changed.connect(self._on_changed)

    @property
    def running(self) -> bool:
        return self._ticket is not None

    @property
    def writing(self) -> bool:
        """Whether files are being written, so that only the user closes the dialog."""
        return False

    def done(self, result: int) -> None:
        """Stop and close, unless the user decides to finish writing."""
        if not self.writing or questions.ask_cancel_saving(self):
            self.stop()
            super().done(result)

    def stop(self) -> None:
        """Cancel the running job and drop the others; a late result is ignored."""
        ticket, self._ticket = self._ticket, None
        self._remaining_jobs.clear()
        if ticket is not None:
            self._workbench.bridge.cancel(ticket)
            self.ended.emit()

    def _start(self, jobs: Iterable[Job]) -> None:
        """Run jobs. Must not be called while others are running."""
        self._remaining_jobs = list(jobs)[::-1]
        self._index = 0
        self._next()

    def _next(self) -> None:
        if self._remaining_jobs:
            job = self._remaining_jobs.pop()
            self._ticket = self._workbench.bridge.run(job, lambda _: None, lambda _: None)
        else:
            self._ticket = None
            self.ended.emit()

    def _go_on(self, event: Event) -> None:
        """Run the next job after one ends.

        Callbacks of the bridge are not used: they would be called even after this is deleted.
        """
        if event.ticket != self._ticket:
            return
        if isinstance(event, Finished):
            index, self._index = self._index, self._index + 1
            try:
                self._take_result(index, event.result)
            except Exception as error:
                log.exception("Taking the result of a job")
                self._end(tr(event.job.title), error)
            else:
                if event.ticket == self._ticket:
                    self._next()
        elif isinstance(event, Failed):
            self._end(tr(event.job.title), event.error)
        elif isinstance(event, Dropped):
            self._end()

    def _end(self, title: str = "", error: BaseException | None = None) -> None:
        """Drop the jobs that remain, and show the error if there is one."""
        self._remaining_jobs.clear()
        if error is not None:
            self._fail(title, error)
        self._next()

    @abstractmethod
    def _run(self) -> None:
        """Start the jobs."""

    @abstractmethod
    def _take_result(self, index: int, result: Any) -> None:  # noqa: ANN401 - of the jobs
        """Show the result of the job at an index, from 0."""

    @abstractmethod
    def _refresh(self) -> None:
        """Enable the widgets for the current state."""

    def _fail(self, title: str, error: BaseException) -> None:
        self._workbench.failed.emit(title, error)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file and not self.writing:
            self.close()
        if changes.recipe:
            self._refresh()

    def _add_button(self, text: str, act: Callable[[], object]) -> QPushButton:
        button = self.buttons.addButton(text, QDialogButtonBox.ButtonRole.ActionRole)
        button.clicked.connect(act)
        return button

    def _enable_buttons(self, *, ready: bool) -> None:
        """Enable the default button if `ready`, or Cancel while jobs are running.

        The focus moves from one to the other. Qt would move it to another button.
        """
        active, inactive = (self.cancel, self.run) if self.running else (self.run, self.cancel)
        active.setEnabled(self.running or ready)
        if self.focusWidget() is inactive:
            active.setFocus()
        inactive.setEnabled(False)
