"""The engine: four worker threads with a job queue. It does not depend on the GUI.

Pictures and resolving must not wait for a save that takes half a minute, or for an evaluation
that takes an hour. Each thread therefore runs the jobs of one kind: quick jobs, long jobs, idle
jobs, and evaluations.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Protocol

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
IDLE_HEAD_START_S = 0.1
"""Time since its start for which an idle job runs alone. Most are over by then, and each further
thread that runs Python slows the window down."""
THREAD_NAME_PREFIX = "prune-gui-engine"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work for the engine.

    Attributes:
        title: shown while the job runs: "Saving model.safetensors"; a message for `tr`. The log
            has it untranslated.
        lane: a newer job of the same lane replaces an older one that waits, and stops one that has
            run for `SUPERSEDED_TIMEOUT_S`. None: no job replaces this one.
        urgent: runs before waiting jobs that are not urgent.
        long: runs beside later jobs that are not long, and after all jobs that were submitted
            before it and are not idle.
        idle: starts when there are no other jobs, after `IDLE_DELAY_S`, and runs beside later ones.
        rests: pauses where it checks whether it is cancelled, while there are jobs that do not run
            in the background. It must not hold there what others wait for.
        writes: writes files, so that `Engine.close` waits for it even in a hurry.
        evaluates: runs an evaluator. It has the lowest priority, runs beside all other jobs, and
            delays none of them.
        spreads: may run its tasks on the cluster of the settings. An urgent or idle job does so
            only if it is connected already: it must not wait for a connection.
        discard: called with a result that nobody gets because the engine closes, such as an open
            file.
    """

    title: str
    work: Callable[[Monitor], object]
    lane: str | None = None
    urgent: bool = False
    long: bool = False
    idle: bool = False
    rests: bool = False
    writes: bool = False
    evaluates: bool = False
    spreads: bool = False
    discard: Callable[[Any], None] = lambda _: None


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
    """The job has processed `done` of `total` bytes, `skipped` of them in an earlier run."""

    done: int
    total: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Reported(Event):
    """The job has found something, and continues; see `Monitor.report`."""

    found: object


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
"""Nice value of the engine's threads: about a tenth of the processor time of a thread at 0."""
EVALUATION_NICENESS = 15
"""Nice value of the thread for evaluations, and of the processes that it starts."""


class _Kind(Enum):
    QUICK = "quick"
    LONG = "long"
    IDLE = "idle"
    EVALUATION = "evaluation"

    @classmethod
    def of(cls, job: Job) -> _Kind:
        """Return the kind of a job."""
        if job.evaluates:
            return cls.EVALUATION
        return cls.IDLE if job.idle else cls.LONG if job.long else cls.QUICK


_BACKGROUND = (_Kind.IDLE, _Kind.EVALUATION)
"""The kinds of jobs that an idle job does not wait for."""


class _Run:
    """A waiting or running job; also its cancel token for `Monitor`."""

    def __init__(self, ticket: int, job: Job, rest: Callable[[_Run], None]) -> None:
        self.ticket = ticket
        self.job = job
        self._rest = rest
        self.kind = _Kind.of(job)
        self.cancelled = False
        self.superseded = False
        self.started = 0.0

    def is_set(self) -> bool:
        if self.job.rests:
            self._rest(self)
        is_overdue = self.superseded and time.monotonic() - self.started > SUPERSEDED_TIMEOUT_S
        return self.cancelled or is_overdue


def _lower_priority(kind: _Kind) -> None:
    """Lower the scheduling priority of this thread, for jobs of a kind, below that of the window.

    Only on Linux, where this affects this thread and those that it starts; elsewhere it would
    affect the whole process.
    """
    if sys.platform == "linux":
        niceness = EVALUATION_NICENESS if kind is _Kind.EVALUATION else NICENESS
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


class Spreading(Protocol):
    """Returns a block that runs the tasks of a job elsewhere, such as `ClusterConnection.use`."""

    def __call__(self, *, may_wait: bool) -> AbstractContextManager[None]:
        """Return the block; `may_wait` says whether the job may wait for a connection."""


class Engine:
    """Runs the jobs of each kind on one thread, urgent ones first, then in order of submission.

    Args:
        notify: called with every event, on the thread where it happens; must not block.
        ended: called by the last thread just before it ends.
        spreading: the block in which a job that spreads runs; None: as any other.
    """

    def __init__(
        self,
        notify: Callable[[Event], None],
        ended: Callable[[], None] = lambda: None,
        spreading: Spreading | None = None,
    ) -> None:
        self._notify = notify
        self._ended = ended
        self._spreading = spreading
        self._tickets = count(1)
        self._waiting: list[_Run] = []
        self._running: dict[_Kind, _Run] = {}
        self._busy_until = -math.inf
        self._closed = False
        self._changed = threading.Condition()
        self._threads: dict[_Kind, threading.Thread] = {}
        self._serving = set(_Kind)
        for kind in _Kind:
            name = f"{THREAD_NAME_PREFIX}-{kind.value}"
            thread = threading.Thread(target=self._serve, args=(kind,), name=name, daemon=True)
            self._threads[kind] = thread
            thread.start()

    def submit(self, job: Job) -> int:
        """Queue a job and return its ticket."""

        def is_replaced(other: _Run) -> bool:
            return job.lane is not None and other.job.lane == job.lane

        with self._changed:
            run = _Run(next(self._tickets), job, self._rest)
            for other in self._running.values():
                other.superseded |= is_replaced(other)
            dropped = self._take_waiting(is_replaced)
            self._waiting.append(run)
            self._waiting.sort(key=lambda run: not run.job.urgent)  # a stable sort
        for other in dropped:
            self._notify(Dropped(other.ticket, other.job))
        return run.ticket

    def cancel(self, ticket: int) -> None:
        """Cancel a job: a waiting job is dropped, a running job stops at its next check."""
        with self._changed:
            for run in self._running.values():
                run.cancelled |= run.ticket == ticket
            dropped = self._take_waiting(lambda run: run.ticket == ticket)
        for run in dropped:
            self._notify(Dropped(run.ticket, run.job))

    def _take_waiting(self, is_taken: Callable[[_Run], bool]) -> list[_Run]:
        taken = list(filter(is_taken, self._waiting))
        self._waiting = [run for run in self._waiting if run not in taken]
        self._changed.notify_all()
        return taken

    def stop(self) -> None:
        """Cancel all jobs, so that the threads end soon. No further event is sent."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            for run in self._running.values():
                run.cancelled = True
            self._changed.notify_all()

    def close(self, *, hurry: bool = False) -> bool:
        """Cancel all jobs and wait for the threads to end.

        Args:
            hurry: wait only briefly for jobs that do not write, since some jobs, such as compiling,
                cannot be stopped.

        Returns:
            Whether the threads ended. If not, they end with the process, and files that their jobs
            read stay open.
        """
        self.stop()
        for kind, thread in self._threads.items():
            run = self._running.get(kind)
            is_hurried = hurry and not (run and run.job.writes)
            thread.join(HURRIED_CLOSE_TIMEOUT_S if is_hurried else CLOSE_TIMEOUT_S)
            if thread.is_alive() and run and not is_hurried:
                log.warning("%s did not stop; it ends with the program", run.job.title)
        return not any(thread.is_alive() for thread in self._threads.values())

    def _serve(self, kind: _Kind) -> None:
        _lower_priority(kind)
        while run := self._next(kind):
            self._send(Started(run.ticket, run.job))
            self._send(self._do(run))
            self._finish(run)
        with self._changed:
            self._serving.remove(kind)
            is_last = not self._serving
        if is_last:
            self._ended()

    def _next(self, kind: _Kind) -> _Run | None:
        """Wait for a job of a kind that may start, and return it; None when the engine closes."""
        with self._changed:
            while not self._closed:
                run = next((run for run in self._waiting if run.kind is kind), None)
                delay = math.inf if run is None else self._delay(run)
                if run is not None and delay <= 0:
                    self._waiting.remove(run)
                    self._running[kind] = run
                    run.started = time.monotonic()
                    return run
                self._changed.wait(None if delay == math.inf else delay)
        return None

    def _finish(self, run: _Run) -> None:
        with self._changed:
            del self._running[run.kind]
            if run.kind not in _BACKGROUND:
                self._busy_until = time.monotonic()
            self._changed.notify_all()

    def _delay(self, run: _Run) -> float:
        """Return the seconds until the next job of its kind may start; inf while others run."""
        others = (*self._waiting, *self._running.values())
        match run.kind:
            case _Kind.QUICK:
                idle = self._running.get(_Kind.IDLE)
                return idle.started + IDLE_HEAD_START_S - time.monotonic() if idle else 0.0
            case _Kind.LONG:
                before = (other for other in others if other.ticket < run.ticket)
                quick_before = any(other.kind is _Kind.QUICK for other in before)
                return math.inf if quick_before else 0.0
            case _Kind.IDLE:
                if any(other.kind not in _BACKGROUND for other in others):
                    return math.inf
                return self._busy_until + IDLE_DELAY_S - time.monotonic()
            case _Kind.EVALUATION:
                return 0.0

    def _rest(self, run: _Run) -> None:
        """Wait while there are jobs that do not run in the background, unless a job is to stop."""

        def may_go_on() -> bool:
            others = (*self._waiting, *self._running.values())
            is_calm = all(other.kind in _BACKGROUND for other in others)
            return is_calm or run.cancelled or run.superseded

        with self._changed:
            self._changed.wait_for(may_go_on)

    def _do(self, run: _Run) -> Event:
        last_progress, last_skipped = 0.0, 0

        def progress(done: int, total: int) -> None:
            nonlocal last_progress, last_skipped
            now, skipped = time.monotonic(), monitor.skipped
            if now - last_progress >= PROGRESS_INTERVAL_S or skipped > last_skipped:
                last_progress, last_skipped = now, skipped
                self._send(Progressed(run.ticket, run.job, done, total, skipped))

        def report(found: object) -> None:
            self._send(Reported(run.ticket, run.job, found))

        monitor = Monitor(progress, run, report)
        may_wait = not (run.job.urgent or run.job.idle)
        spreading = self._spreading if run.job.spreads else None
        try:
            place = spreading(may_wait=may_wait) if spreading else nullcontext()
            with monitor.in_charge(), place:
                result = run.job.work(monitor)
        except Cancelled:
            return Dropped(run.ticket, run.job)
        except PruneGuiError as error:
            log.warning("%s: %s", run.job.title, error)
            return Failed(run.ticket, run.job, error)
        except BaseException as error:  # the thread must survive any error in a job
            log.exception("%s failed", run.job.title)
            shown = OutOfMemoryError(error) if is_out_of_memory(error) else error
            return Failed(run.ticket, run.job, shown)
        if run.job.lane is None and not run.job.idle:  # the others are too frequent for the log
            log.info("%s took %.2f s", run.job.title, time.monotonic() - run.started)
        return Finished(run.ticket, run.job, result)

    def _send(self, event: Event) -> None:
        if not self._closed:
            self._notify(event)
        elif isinstance(event, Finished):
            event.job.discard(event.result)
