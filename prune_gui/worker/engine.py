"""The engine: one worker thread with a job queue. It does not depend on the GUI."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.memory import OutOfMemoryError, is_out_of_memory
from prune_gui.monitor import Monitor

log = logging.getLogger(__name__)

SUPERSEDED_TIMEOUT_S = 0.4
"""Time since its start after which a running job stops if a newer job of its lane waits. Without
this grace, a slider that moves faster than previews are computed would never show one."""
PROGRESS_INTERVAL_S = 0.05
"""Minimum time between two progress events, since the window has to draw each."""
CLOSE_TIMEOUT_S = 30.0
"""Timeout of `Engine.close` for the running job, in seconds."""
HURRIED_CLOSE_TIMEOUT_S = 0.1
"""Timeout of `Engine.close` with `hurry` for a job that does not write files."""
IDLE_DELAY_S = 0.3
"""Delay between a job and the next idle one, in which the window may submit other jobs."""


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work for the engine.

    Attributes:
        title: shown while the job runs: "Saving model.safetensors"; a message for `tr`. The log
            has it untranslated.
        work: does the work and returns the result.
        lane: a newer job of the same lane replaces an older one that waits, and stops one that has
            run for `SUPERSEDED_TIMEOUT_S`. None: no job replaces this one.
        urgent: runs before waiting jobs that are not urgent.
        idle: runs after all other jobs, and only after `IDLE_DELAY_S`.
        writes: writes files, so that `Engine.close` waits for it even in a hurry.
    """

    title: str
    work: Callable[[Monitor], object]
    lane: str | None = None
    urgent: bool = False
    idle: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the state of the job with this ticket."""

    ticket: int
    job: Job


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The job has started."""


@dataclass(frozen=True, slots=True)
class Progressed(Event):
    """The job has processed `done` of `total` bytes."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The job has returned a result."""

    result: object


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The job has raised an error: one caused by input, or a bug."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """The job was cancelled, or replaced by a newer job of its lane."""


NICENESS = 10
"""Nice value of the engine's thread: about a tenth of the processor time of a thread at 0."""


class _Run:
    """A waiting or running job; also its cancel token for `Monitor`."""

    def __init__(self, ticket: int, job: Job) -> None:
        self.ticket = ticket
        self.job = job
        self.cancelled = False
        self.superseded = False
        self.started = 0.0

    def is_set(self) -> bool:
        is_overdue = self.superseded and time.monotonic() - self.started > SUPERSEDED_TIMEOUT_S
        return self.cancelled or is_overdue


def _priority(job: Job) -> int:
    """Return the priority of a job: lower numbers run first."""
    return 0 if job.urgent else 2 if job.idle else 1


def _lower_priority() -> None:
    """Lower the scheduling priority of this thread below that of the window.

    Only on Linux, where this affects this thread and those that it starts; elsewhere it would
    affect the whole process.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class Engine:
    """Runs jobs on one thread of its own, in order of priority, then of submission.

    Args:
        notify: called with every event, on the thread where it happens; must not block.
        ended: called by the thread just before it ends.
    """

    def __init__(
        self, notify: Callable[[Event], None], ended: Callable[[], None] = lambda: None
    ) -> None:
        self._notify = notify
        self._ended = ended
        self._tickets = count(1)
        self._waiting: deque[_Run] = deque()
        self._running: _Run | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="prune-gui-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> int:
        """Queue a job and return its ticket."""
        run = _Run(next(self._tickets), job)
        dropped: list[_Run] = []
        with self._changed:
            if job.lane is not None:
                dropped = [other for other in self._waiting if other.job.lane == job.lane]
                for other in dropped:
                    self._waiting.remove(other)
                if self._running and self._running.job.lane == job.lane:
                    self._running.superseded = True
            position = sum(_priority(other.job) <= _priority(job) for other in self._waiting)
            self._waiting.insert(position, run)
            self._changed.notify()
        for other in dropped:
            self._notify(Dropped(other.ticket, other.job))
        return run.ticket

    def cancel(self, ticket: int) -> None:
        """Cancel a job: a waiting job is dropped, a running job stops at its next check."""
        with self._changed:
            if self._running and self._running.ticket == ticket:
                self._running.cancelled = True
            waiting = [run for run in self._waiting if run.ticket == ticket]
            for run in waiting:
                self._waiting.remove(run)
        for run in waiting:
            self._notify(Dropped(run.ticket, run.job))

    def stop(self) -> None:
        """Cancel all jobs, so that the thread ends soon. No further event is sent."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            if self._running:
                self._running.cancelled = True
            self._changed.notify()

    def close(self, *, hurry: bool = False) -> bool:
        """Cancel all jobs and wait for the thread to end.

        Args:
            hurry: wait only briefly for a job that does not write, since some jobs, such as
                compiling, cannot be stopped.

        Returns:
            Whether the thread ended. If not, it ends with the process, and files that the job reads
            stay open.
        """
        self.stop()
        running = self._running
        is_hurried = hurry and not (running and running.job.writes)
        self._thread.join(HURRIED_CLOSE_TIMEOUT_S if is_hurried else CLOSE_TIMEOUT_S)
        if self._thread.is_alive() and running and not is_hurried:
            log.warning("%s did not stop; it ends with the program", running.job.title)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        _lower_priority()
        while run := self._next():
            self._send(Started(run.ticket, run.job))
            self._send(self._do(run))
        self._ended()

    def _next(self) -> _Run | None:
        with self._changed:
            delay_idle = self._running is not None and not self._running.job.idle
            self._running = None
            if delay_idle:
                self._changed.wait_for(self._is_busy, IDLE_DELAY_S)
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._running = self._waiting.popleft()
            self._running.started = time.monotonic()
            return self._running

    def _is_busy(self) -> bool:
        """Return whether the engine was closed, or the next waiting job is not idle."""
        return self._closed or (bool(self._waiting) and not self._waiting[0].job.idle)

    def _do(self, run: _Run) -> Event:
        last_progress = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal last_progress
            if (now := time.monotonic()) - last_progress >= PROGRESS_INTERVAL_S:
                last_progress = now
                self._send(Progressed(run.ticket, run.job, done, total))

        try:
            monitor = Monitor(progress, run)
            with monitor.in_charge():
                result = run.job.work(monitor)
        except Cancelled:
            return Dropped(run.ticket, run.job)
        except PruneGuiError as error:
            log.warning("%s: %s", run.job.title, error)
            return Failed(run.ticket, run.job, error)
        except BaseException as error:
            # The thread must survive any error in a job. The error is logged and sent as an event.
            log.exception("%s failed", run.job.title)
            reported_error = OutOfMemoryError() if is_out_of_memory(error) else error
            return Failed(run.ticket, run.job, reported_error)
        if run.job.lane is None and not run.job.idle:  # the others are too frequent for the log
            log.info("%s took %.2f s", run.job.title, time.monotonic() - run.started)
        return Finished(run.ticket, run.job, result)

    def _send(self, event: Event) -> None:
        if not self._closed:
            self._notify(event)
