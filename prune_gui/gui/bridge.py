"""The engine as the window uses it; the only place where the engine's threads call into Qt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal, Slot

from prune_gui.engine import Dropped, Engine, Event, Failed, Finished, Job, Started
from prune_gui.language import deferred, tr
from prune_gui.worker.jobs import device_job, threads_jobs

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.gui.cluster import Cluster
    from prune_gui.monitor import Monitor

Result = TypeVar("Result")


class Bridge(QObject):
    """Runs jobs on the engine and delivers their events to the GUI thread."""

    happened = Signal(object)  # (event) an `Event` of the engine, emitted on the GUI thread
    failed = Signal(str, object)  # (title, error) a job failed that has no callback for it
    ended = Signal()  # the engine has no jobs left, and its last thread is about to end
    _from_engine = Signal(object)
    _engine_ended = Signal()

    def __init__(self, cluster: Cluster | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: dict[int, tuple[Callable[[Any], None], Callable[[BaseException], None]]] = {}
        self._running: dict[int, Job] = {}
        self._closing: list[Checkpoint] = []  # to be closed after the last job that reads them
        self._from_engine.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._engine_ended.connect(self.ended, Qt.ConnectionType.QueuedConnection)
        self._last_acts: list[Callable[[], None]] = []
        self._engine = Engine(
            self._from_engine.emit, self._end, cluster.connection.use if cluster else None
        )

    def waits_for(self, ticket: int | None) -> bool:
        """Return whether the last event of a job (finished, failed or dropped) is still to come."""
        return ticket in self._waiting

    def job_before(self, ticket: int | None) -> Job | None:
        """Return the job that a queued quick job waits for; None if it waits for none."""
        if ticket in self._running or not self.waits_for(ticket):
            return None
        running = self._running.values()
        return next((job for job in running if not (job.long or job.idle or job.evaluates)), None)

    def run(
        self,
        job: Job,
        then: Callable[[Result], None],
        failed: Callable[[BaseException], None] | None = None,
    ) -> int:
        """Queue a job, and return its ticket.

        `then` or `failed` is called on the GUI thread; neither if the job is dropped. Without
        `failed`, the signal of this name is emitted.
        """
        ticket = self._engine.submit(job)
        failed = failed or partial(self.failed.emit, tr(job.title))
        self._waiting[ticket] = then, failed
        return ticket

    def run_job(
        self,
        lane: str,
        work: Callable[[Monitor], Result],
        then: Callable[[Result], None],
        *,
        spreads: bool = False,
    ) -> int:
        """Run `work` urgently on the engine; a newer job of a lane replaces an older one."""
        job = Job(deferred("Drawing"), work, lane=lane, urgent=True, spreads=spreads)
        return self.run(job, then)

    def load(
        self, work: Callable[[], object], then: Callable[[], None], *, idle: bool = False
    ) -> int:
        """Run imports for the GUI on a thread of the engine, which does not block the window."""
        job = Job(deferred("Starting the engine"), lambda _: work(), idle=idle)
        return self.run(job, lambda _: then())

    def use_threads(self, count: int | None) -> None:
        """Set the number of worker threads; None for the default of torch."""
        for job in threads_jobs(count):
            self.run(job, lambda _: None)

    def use_device(self, name: str) -> None:
        """Set where corrections are computed; see `prune_gui.pruning.devices.find_device`."""
        self.run(device_job(name), lambda _: None)

    def close_unused(self, checkpoint: Checkpoint) -> None:
        """Close a checkpoint after the queued jobs, which may still read from it.

        Idle jobs are not waited for.
        """
        self._closing.append(checkpoint)
        title = deferred("Closing {name}", name=checkpoint.path.name)
        close = Job(title, lambda _: checkpoint.close(), long=True)
        after_evaluations = Job(title, lambda _: None, evaluates=True)

        def then(_: None) -> None:
            self.run(close, lambda _: self._closing.remove(checkpoint))

        self.run(after_evaluations, then)

    def at_end(self, act: Callable[[], None]) -> None:
        """Call a function when the engine has stopped, on its last thread."""
        self._last_acts.append(act)

    def cancel(self, ticket: int) -> None:
        self._engine.cancel(ticket)

    def stop(self) -> None:
        """Cancel every job. `ended` is emitted when the engine has stopped."""
        self._waiting.clear()
        self._engine.stop()

    def close(self, *, hurry: bool = False) -> bool:
        """Cancel every job and end the engine's threads as `Engine.close` does.

        Returns whether they ended. If not, they may still read, and no checkpoint is closed.
        """
        self._waiting.clear()
        if not self._engine.close(hurry=hurry):
            return False
        QCoreApplication.sendPostedEvents(self, QEvent.Type.MetaCall)
        for checkpoint in self._closing:
            checkpoint.close()
        self._closing.clear()
        return True

    def _end(self) -> None:
        for act in self._last_acts:
            act()
        self._engine_ended.emit()

    @Slot(object)
    def _deliver(self, event: Event) -> None:
        callbacks = None
        if isinstance(event, Started):
            self._running[event.ticket] = event.job
        elif isinstance(event, Finished | Failed | Dropped):
            self._running.pop(event.ticket, None)
            callbacks = self._waiting.pop(event.ticket, None)
        self.happened.emit(event)
        if callbacks is not None:
            then, failed = callbacks
            if isinstance(event, Finished):
                then(event.result)
            elif isinstance(event, Failed):
                failed(event.error)
        elif isinstance(event, Finished):  # after `close`
            event.job.discard(event.result)
