"""The status bar: what the engine is doing, how much is pruned, how much memory is in use."""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QStatusBar, QToolButton, QWidget

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.worker import Event, Job, Progressed, Started

PATIENCE: Final = 200
"""Milliseconds after which a job is worth mentioning."""
MEMORY_PERIOD: Final = 2000
"""Milliseconds between two looks at the memory in use."""
NOTE_PERIOD: Final = 10_000
"""Milliseconds for which a note stays."""
SOONEST: Final = 1.0
"""Seconds of a job after which the time left is told."""
FINE: Final = 1000
"""Steps of the progress bar: bytes do not fit its integers."""


class StatusBar(QStatusBar):
    """Follows the engine; Cancel stops the job that it shows.

    Signals:
        busy_changed: a job that can be cancelled is shown, or no longer.
    """

    busy_changed = Signal()

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._ticket: int | None = None
        self._began = 0.0
        self._title = QLabel()
        self._progress = QProgressBar()
        self._progress.setMaximumWidth(220)
        self._progress.setAccessibleName(tr("Progress"))
        self._cancel = QToolButton()
        self._cancel.setText(tr("Cancel"))
        self._cancel.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._cancel.setToolTip(tr("Stop this and leave things as they were  (Esc)"))
        self._cancel.clicked.connect(self.cancel)
        self._job = (self._title, self._progress, self._cancel)
        for widget in self._job:
            self.addWidget(widget)
        self._note = QLabel()
        self.addWidget(self._note, 1)
        self._pruned = QLabel()
        self._pruned.setToolTip(tr("Entries pruned by the stack and the draft, of all that can be"))
        self._memory = QLabel()
        self._memory.setToolTip(tr("Memory of this program, mapped pages of the file included"))
        self.addPermanentWidget(self._pruned)
        self.addPermanentWidget(self._memory)
        self._before = QLabel(tr("Before: the checkpoint as it is in the file"))
        self._before.hide()
        self.addWidget(self._before)
        self._patience = QTimer(self, singleShot=True, interval=PATIENCE)
        self._patience.timeout.connect(self._show_job)
        self._forget = QTimer(self, singleShot=True, interval=NOTE_PERIOD)
        self._forget.timeout.connect(self._note.clear)
        self._clock = QTimer(self, interval=MEMORY_PERIOD)
        self._clock.timeout.connect(self._show_memory)
        for watch in (self._show_memory, self._clock.start):
            workbench.ready.connect(watch)  # by then the engine has loaded what is asked
        workbench.bridge.happened.connect(self._follow)
        workbench.resolved_changed.connect(self._show_pruned)
        workbench.resolved_changed.connect(self._show_before)
        workbench.opened.connect(self._pruned.clear)
        self._cancel.setIcon(icon("cancel"))
        self.setMinimumHeight(self.sizeHint().height())  # the window is not to move for a job
        self._hide_job()

    def say(self, note: str) -> None:
        """Show a sentence for a while."""
        note = one_line(note)
        self._note.setText(note)
        self._note.setToolTip(note)
        self._forget.start()

    @property
    def busy(self) -> bool:
        """Whether a job is shown that can be cancelled."""
        return not self._cancel.isHidden()

    def cancel(self) -> None:
        """Stop the job that is shown."""
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)

    def _follow(self, event: Event) -> None:
        if isinstance(event, Started):
            self._begin(event.ticket, event.job)
        elif event.ticket != self._ticket:
            return
        elif isinstance(event, Progressed):
            if event.total:
                self._progress.setRange(0, FINE)
                # The total may grow on the way; what is shown does not go back for it.
                share = FINE * event.done // event.total
                self._progress.setValue(max(self._progress.value(), share))
                self._tell_time_left()
        else:
            self._ticket = None
            self._hide_job()

    def _tell_time_left(self) -> None:
        """Say how long it will take if it goes on like this, once that can be told."""
        passed, share = time.monotonic() - self._began, self._progress.value() / FINE
        if passed >= SOONEST and share > 0:
            left = formatting.duration(passed * (1 - share) / share)
            self._progress.setFormat(tr("%p %, {time} left", time=left))

    def _begin(self, ticket: int, job: Job) -> None:
        self._ticket, self._began = ticket, time.monotonic()
        self._progress.setFormat(tr("%p %"))
        self._title.setText(tr("{job} …", job=one_line(tr(job.title))))
        self._progress.setRange(0, 0)
        self._progress.reset()
        if not job.idle:  # of which the user need not know
            self._patience.start()

    def _show_job(self) -> None:
        self._cancel.setIcon(icon("cancel"))
        for widget in self._job:
            widget.show()
        self.busy_changed.emit()

    def _hide_job(self) -> None:
        self._patience.stop()
        for widget in self._job:
            widget.hide()
        self.busy_changed.emit()

    def _show_pruned(self) -> None:
        if self._workbench.shown is not None:
            pruned, total = self._workbench.shown.total
            self._pruned.setText(
                tr(
                    "{pruned} of {total} pruned ({share})",
                    pruned=formatting.short_count(pruned),
                    total=formatting.short_count(total),
                    share=formatting.sparsity(pruned, total),
                )
            )

    def _show_before(self) -> None:
        self._before.setVisible(self._workbench.before)
        self._note.setVisible(not self._workbench.before)

    def _show_memory(self) -> None:
        import psutil

        used = psutil.Process().memory_info().rss / 2**30
        self._memory.setText(tr("Memory {size:.1f} GB", size=used))
