"""Jobs that are submitted one by one, so that other jobs of the window run between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPushButton, QWidget

from prune_gui.engine import Dropped, Event, Failed, Finished, Job
from prune_gui.gui.bridge import Bridge
from prune_gui.gui.dialogs import questions
from prune_gui.gui.widgets import layouts
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session.changes import Changes


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
        def ignore(_: object) -> None:
            pass

        if self._remaining_jobs:
            self._ticket = self._bridge.run(self._remaining_jobs.pop(), ignore, ignore)
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


class JobSequenceDialog(QDialog):
    """A modeless dialog whose default button runs a job sequence; closing it cancels the sequence.

    It closes when another checkpoint is opened in the window, unless it is `writing`.
    """

    def __init__(self, workbench: Workbench, title: str, run: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._workbench = workbench
        self._sequence = JobSequence(workbench.bridge, self)
        self._sequence.came.connect(self._take_result)
        self._sequence.failed.connect(self._fail)
        self._sequence.ended.connect(self._refresh)
        close = QDialogButtonBox.StandardButton.Close
        self.buttons = layouts.dialog_buttons(self, close)
        self.buttons.button(close).setAutoDefault(False)
        self.run = self._add_button(run, self._run)
        self.run.setDefault(True)
        self.cancel = self._add_button(tr("Ca&ncel"), self._sequence.cancel)
        workbench.changed.connect(self._on_changed)

    @property
    def writing(self) -> bool:
        """Whether files are being written, so that only the user closes the dialog."""
        return False

    def done(self, result: int) -> None:
        """Stop and close, unless the user decides to finish writing."""
        if not self.writing or questions.ask_cancel_saving(self):
            self._sequence.cancel()
            super().done(result)

    @abstractmethod
    def _run(self) -> None:
        """Start the sequence."""

    @abstractmethod
    def _take_result(self, index: int, result: Any) -> None:  # noqa: ANN401 - of the jobs
        """Show the result of a job."""

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
        """Enable the default button if `ready`, or Cancel while the sequence is running.

        The focus moves from one to the other. Qt would move it to another button.
        """
        running = self._sequence.running
        active, inactive = (self.cancel, self.run) if running else (self.run, self.cancel)
        active.setEnabled(running or ready)
        if self.focusWidget() is inactive:
            active.setFocus()
        inactive.setEnabled(False)
