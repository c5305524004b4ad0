"""The status bar: the running job, the pruned share, and the memory in use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QStatusBar

from prune_gui import number_formats
from prune_gui.engine import Dropped, Event, Failed, Finished, Job, Progressed, Started
from prune_gui.errors import one_line
from prune_gui.gui.cluster import ClusterIndicator
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes

JOB_DELAY_MS: Final = 200  # delay before a running job is shown
MEMORY_INTERVAL_MS: Final = 2000  # interval between updates of the memory in use
NOTE_DURATION_MS: Final = 10_000  # time for which a note is shown
MIN_ESTIMATE_S: Final = 1.0  # run time of a job before its remaining time is estimated
LONGEST_DURATION_S: Final = 90 * 60
"""A remaining time with a long text, for which the progress bar has room."""
PROGRESS_STEPS: Final = 1000
"""Range of the progress bar. Byte counts do not fit its 32-bit integers."""


@dataclass(slots=True)
class _RunningJob:
    """A running job and its progress."""

    ticket: int
    job: Job
    start_time: float  # when it started what was not skipped, by `time.monotonic`
    steps: int | None = None  # its progress in [0, PROGRESS_STEPS]; None until it is known
    skipped: int = 0  # those of `steps` that an earlier run has done


class StatusBar(QStatusBar):
    """Shows a running job, a long one or else an evaluation first, with a button to cancel it."""

    busy_changed = Signal()  # `busy` may have changed
    settings_wanted = Signal()  # the user clicked where jobs run

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._running: list[_RunningJob] = []
        self._shown: _RunningJob | None = None
        self._title = QLabel()
        self._progress = layouts.described(QProgressBar(), tr("Progress"))
        longest = _format(LONGEST_DURATION_S).replace("%p", "100")
        self._progress.setFixedWidth(self.fontMetrics().horizontalAdvance(longest) + 2 * GAP_PX)
        tip = tr("Cancel this job and change nothing  (Esc)")
        self._cancel = layouts.tool_button(tr("Cancel"), self.cancel, tip, icon="cancel")
        self._job = (self._title, self._progress, self._cancel)
        for widget in self._job:
            self.addWidget(widget)
        self._note = ElidedLabel(tr("Message"))
        self.addWidget(self._note, 1)
        self._preparation = self._add_label(
            tr(
                "The loops that read and prune weights are compiled for this processor, once per "
                "installation. Until then, large parameters take longer."
            )
        )
        self._preparation.hide()
        if workbench.cluster is not None:
            indicator = ClusterIndicator(workbench.cluster)
            indicator.clicked.connect(self.settings_wanted)
            self.addPermanentWidget(indicator)
        self._pruned = self._add_label(
            tr("Weights pruned by the stack and the draft, of all prunable weights")
        )
        self._zeros = self._add_label(
            tr("Share of zeros in the file. Not all of them count as pruned.")
        )
        self._memory = self._add_label(
            tr("Memory of this program, mapped pages of the file included")
        )
        self._file_shown = QLabel(tr("The file as opened"))
        self._file_shown.hide()
        self.addWidget(self._file_shown)
        self._job_timer = QTimer(self, singleShot=True, interval=JOB_DELAY_MS)
        self._job_timer.timeout.connect(lambda: self._show_job(shown=True))
        self._note_timer = QTimer(self, singleShot=True, interval=NOTE_DURATION_MS)
        self._note_timer.timeout.connect(lambda: self._note.say(""))
        self._memory_timer = QTimer(self, interval=MEMORY_INTERVAL_MS)
        self._memory_timer.timeout.connect(self._show_memory)
        for watch in (self._show_memory, self._memory_timer.start):
            workbench.ready.connect(watch)  # the engine's libraries are loaded by then
        workbench.bridge.happened.connect(self._follow)
        workbench.changed.connect(self._on_changed)
        # The layout must not move when a job is shown.
        self.setMinimumHeight(self.sizeHint().height())
        self._show_job(shown=False)

    def _add_label(self, tip: str) -> QLabel:
        label = QLabel()
        label.setToolTip(tip)
        label.setContentsMargins(GAP_PX, 0, GAP_PX, 0)
        self.addPermanentWidget(label)
        return label

    def show_preparation(self, done: int, total: int) -> None:
        """Show that `done` of `total` parts of the engine are compiled, until all are."""
        text = tr(
            "Compiling loops, once per installation: {done} of {total}", done=done, total=total
        )
        self._preparation.setText(text)
        self._preparation.setVisible(done < total)

    def say(self, note: str) -> None:
        self._note.say(one_line(note), tip=one_line(note))
        self._note_timer.start()

    @property
    def busy(self) -> bool:
        return not self._cancel.isHidden()

    def cancel(self) -> None:
        if self._shown is not None:
            self._workbench.bridge.cancel(self._shown.ticket)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._pruned.clear()
        if changes.file or changes.zeros or changes.resolution:
            self._show_zeros()
        if changes.resolution:
            self._show_pruned()
            shows_original = self._workbench.draft.shows_original
            self._file_shown.setVisible(shows_original)
            self._note.setVisible(not shows_original)

    def _follow(self, event: Event) -> None:
        if event.job.idle:  # idle jobs are not shown
            return
        if isinstance(event, Started):
            self._running.append(_RunningJob(event.ticket, event.job, time.monotonic()))
            self._show_main_job()
        elif isinstance(event, Progressed):
            for running in self._running:
                if running.ticket == event.ticket and event.total:
                    # The total may grow while the job runs; the bar never moves backwards.
                    share = PROGRESS_STEPS * event.done // event.total
                    running.steps = max(running.steps or 0, share)
                    skipped = PROGRESS_STEPS * event.skipped // event.total
                    if skipped > running.skipped:
                        running.skipped, running.start_time = skipped, time.monotonic()
                    if running is self._shown:
                        self._show_progress(running)
        elif isinstance(event, Finished | Failed | Dropped):
            self._running = [one for one in self._running if one.ticket != event.ticket]
            self._show_main_job()

    def _show_main_job(self) -> None:
        """Show the long job that runs, or else the evaluation, or else the quick job."""
        main = max(self._running, key=lambda one: (one.job.long, one.job.evaluates), default=None)
        if main is self._shown:
            return
        self._shown = main
        if main is None:
            self._job_timer.stop()
            self._show_job(shown=False)
            return
        self._title.setText(tr("{job} …", job=one_line(tr(main.job.title))))
        self._show_progress(main)
        self._job_timer.start()

    def _show_progress(self, running: _RunningJob) -> None:
        self._progress.setFormat(tr("%p %"))
        if running.steps is None:
            self._progress.setRange(0, 0)
            self._progress.reset()
            return
        self._progress.setRange(0, PROGRESS_STEPS)
        self._progress.setValue(running.steps)
        elapsed, done = time.monotonic() - running.start_time, running.steps - running.skipped
        if elapsed >= MIN_ESTIMATE_S and done > 0:
            left = PROGRESS_STEPS - running.steps
            self._progress.setFormat(_format(elapsed * left / done))

    def _show_job(self, *, shown: bool) -> None:
        if shown or self.busy:
            for widget in self._job:
                widget.setVisible(shown)
            self.busy_changed.emit()

    def _show_pruned(self) -> None:
        if self._workbench.shown is not None:
            pruned, total = self._workbench.shown.total
            text = tr(
                "{pruned} of {total} pruned ({share})",
                pruned=number_formats.short_count(pruned),
                total=number_formats.short_count(total),
                share=number_formats.sparsity(pruned, total),
            )
            self._pruned.setText(text)

    def _show_zeros(self) -> None:
        session = self._workbench.session
        self._zeros.setText(session.file_zeros.summary() if session is not None else "")
        self._zeros.setVisible(self._workbench.unpruned_zeros > 0)

    def _show_memory(self) -> None:
        import psutil  # not needed at startup

        used = number_formats.short_bytes(psutil.Process().memory_info().rss)
        self._memory.setText(tr("Memory {size}", size=used))


def _format(seconds: float) -> str:
    return tr("%p %, {time} left", time=number_formats.duration(seconds))
