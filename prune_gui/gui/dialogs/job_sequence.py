"""Jobs that are handed to the engine one by one, so that the window's own go between them."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox

from prune_gui.gui.bridge import Bridge
from prune_gui.language import tr
from prune_gui.worker import Dropped, Event, Failed, Finished, Job


class JobSequenceButtons(QDialogButtonBox):
    """What a dialog needs that runs a series: Run, Cancel, Save table and Close.

    Attributes:
        run: the default one.
        cancel: of the series, not of the dialog.
        save: the table of results.
    """

    def __init__(self, dialog: QDialog) -> None:
        super().__init__(QDialogButtonBox.StandardButton.Close, dialog)
        role = QDialogButtonBox.ButtonRole.ActionRole
        self.run = self.addButton(tr("&Run"), role)
        self.cancel = self.addButton(tr("Ca&ncel"), role)
        self.save = self.addButton(tr("Save &table as CSV…"), role)
        self.run.setDefault(True)
        self.button(QDialogButtonBox.StandardButton.Close).setAutoDefault(False)
        self.rejected.connect(dialog.reject)

    def follow(self, *, ready: bool, running: bool) -> None:
        """Offer Run if all is ready for it, and Cancel while it runs.

        The focus goes with them: Qt would give it to Save table, or to Close.
        """
        now, before = (self.cancel, self.run) if running else (self.run, self.cancel)
        now.setEnabled(running or ready)
        if self.window().focusWidget() is before:
            now.setFocus()
        before.setEnabled(False)


class JobSequence(QObject):
    """Runs some jobs, one after the other, until all are done, one fails or somebody cancels.

    Signals:
        came: (place, result) the job at a place, from 0, is done.
        failed: (title, error) a job failed, and so ended the series.
        ended: no job of the series is left to run.
    """

    came = Signal(int, object)
    failed = Signal(str, object)
    ended = Signal()

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._left: list[Job] = []
        self._ticket: int | None = None
        self._place = 0
        bridge.happened.connect(self._follow)

    @property
    def running(self) -> bool:
        """Whether a job waits or runs."""
        return self._ticket is not None

    def start(self, jobs: Iterable[Job]) -> None:
        """Run jobs; only to be called while none runs."""
        self._left = list(jobs)[::-1]
        self._place = 0
        self._next()

    def cancel(self) -> None:
        """Run no more; what the job that runs would still bring is left out."""
        ticket, self._ticket = self._ticket, None
        self._left.clear()
        if ticket is not None:
            self._bridge.cancel(ticket)
            self.ended.emit()

    def _next(self) -> None:
        if self._left:
            self._ticket = self._bridge.run(self._left.pop(), _ignore, _ignore)
        else:
            self._ticket = None
            self.ended.emit()

    def _follow(self, event: Event) -> None:
        """Go on with the next job. Callbacks would come even after the series is gone."""
        if event.ticket != self._ticket:
            return
        if isinstance(event, Finished):
            place, self._place = self._place, self._place + 1
            self.came.emit(place, event.result)
            if event.ticket == self._ticket:
                self._next()
        elif isinstance(event, Failed | Dropped):
            self._left.clear()
            if isinstance(event, Failed):
                self.failed.emit(tr(event.job.title), event.error)
            self._next()


def _ignore(_: object) -> None:
    pass
