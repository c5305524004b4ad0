"""Jobs that are submitted one by one, so that other jobs of the window run between them."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox

from prune_gui.gui.bridge import Bridge
from prune_gui.language import tr
from prune_gui.worker import Dropped, Event, Failed, Finished, Job


class JobSequenceButtons(QDialogButtonBox):
    """The buttons of a dialog that runs a job sequence: Run, Cancel, Save table and Close."""

    def __init__(self, dialog: QDialog) -> None:
        super().__init__(QDialogButtonBox.StandardButton.Close, dialog)
        role = QDialogButtonBox.ButtonRole.ActionRole
        self.run = self.addButton(tr("&Run"), role)  # starts the sequence; the default button
        self.cancel = self.addButton(tr("Ca&ncel"), role)  # cancels the sequence, not the dialog
        self.save = self.addButton(tr("Save &table as CSV…"), role)
        self.run.setDefault(True)
        self.button(QDialogButtonBox.StandardButton.Close).setAutoDefault(False)
        self.rejected.connect(dialog.reject)

    def follow(self, *, ready: bool, running: bool) -> None:
        """Enable Run if `ready`, or Cancel while `running`.

        The focus moves from one to the other. Qt would move it to Save table or to Close.
        """
        active, inactive = (self.cancel, self.run) if running else (self.run, self.cancel)
        active.setEnabled(running or ready)
        if self.window().focusWidget() is inactive:
            active.setFocus()
        inactive.setEnabled(False)


class JobSequence(QObject):
    """Runs jobs one after the other, until all are done, one fails, or the user cancels."""

    came = Signal(int, object)  # (index, result) the job at an index, from 0, is done
    failed = Signal(str, object)  # (title, error) a job failed, which ended the sequence
    ended = Signal()  # the sequence has no more jobs

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._remaining_jobs: list[Job] = []
        self._ticket: int | None = None
        self._index = 0
        bridge.happened.connect(self._follow)

    @property
    def running(self) -> bool:
        return self._ticket is not None

    def start(self, jobs: Iterable[Job]) -> None:
        """Run jobs. Must not be called while the sequence is running."""
        self._remaining_jobs = list(jobs)[::-1]
        self._index = 0
        self._next()

    def cancel(self) -> None:
        """Cancel the running job and drop the others; a late result is ignored."""
        ticket, self._ticket = self._ticket, None
        self._remaining_jobs.clear()
        if ticket is not None:
            self._bridge.cancel(ticket)
            self.ended.emit()

    def _next(self) -> None:
        if self._remaining_jobs:
            self._ticket = self._bridge.run(self._remaining_jobs.pop(), _ignore, _ignore)
        else:
            self._ticket = None
            self.ended.emit()

    def _follow(self, event: Event) -> None:
        """Run the next job after one ends.

        Callbacks of the bridge are not used: they would be called even after this is deleted.
        """
        if event.ticket != self._ticket:
            return
        if isinstance(event, Finished):
            index, self._index = self._index, self._index + 1
            self.came.emit(index, event.result)
            if event.ticket == self._ticket:
                self._next()
        elif isinstance(event, Failed | Dropped):
            self._remaining_jobs.clear()
            if isinstance(event, Failed):
                self.failed.emit(tr(event.job.title), event.error)
            self._next()


def _ignore(_: object) -> None:
    pass
