"""The only place where the engine's thread calls into Qt."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal, Slot

from prune_gui.worker import Dropped, Engine, Event, Failed, Finished, Job


class Bridge(QObject):
    """Runs jobs on the engine and delivers their events to the GUI thread.

    Signals:
        happened: (event) an `Event` of the engine, emitted on the GUI thread.
        ended: the engine has no jobs left, and its thread is about to end.
    """

    happened = Signal(object)
    ended = Signal()
    _from_engine = Signal(object)
    _engine_ended = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: dict[
            int, tuple[Callable[[object], None], Callable[[BaseException], None]]
        ] = {}
        self._from_engine.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._engine_ended.connect(self.ended, Qt.ConnectionType.QueuedConnection)
        self._engine = Engine(self._from_engine.emit, self._engine_ended.emit)

    def waits_for(self, ticket: int | None) -> bool:
        """Return whether the last event of a job (finished, failed or dropped) is still to come."""
        return ticket in self._waiting

    def run(
        self,
        job: Job,
        then: Callable[[object], None],
        failed: Callable[[BaseException], None],
    ) -> int:
        """Queue a job, and return its ticket.

        `then` or `failed` is called on the GUI thread; neither if the job is dropped.
        """
        ticket = self._engine.submit(job)
        self._waiting[ticket] = then, failed
        return ticket

    def cancel(self, ticket: int) -> None:
        """Cancel a job."""
        self._engine.cancel(ticket)

    def stop(self) -> None:
        """Cancel every job. `ended` is emitted when the engine has stopped."""
        self._waiting.clear()
        self._engine.stop()

    def close(self, *, hurry: bool = False) -> bool:
        """Cancel every job and end the engine's thread as `Engine.close` does.

        Returns whether the thread ended.
        """
        self._waiting.clear()
        return self._engine.close(hurry=hurry)

    @Slot(object)
    def _deliver(self, event: Event) -> None:
        callbacks = None
        if isinstance(event, Finished | Failed | Dropped):
            callbacks = self._waiting.pop(event.ticket, None)
        self.happened.emit(event)
        if callbacks is not None:
            then, failed = callbacks
            if isinstance(event, Finished):
                then(event.result)
            elif isinstance(event, Failed):
                failed(event.error)
