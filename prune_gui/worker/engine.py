"""One thread that does the work, one job after another. It knows nothing of windows."""

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

PATIENCE = 0.4
"""Seconds for which a job may still run once a newer one of its lane waits. Without it, a slider
that moves faster than previews are made would never show one."""
OFTEN = 0.05
"""Seconds between two reports of progress: nobody sees more, and the window has to draw each."""
FAREWELL = 30.0
"""Seconds that `Engine.close` gives the running job."""
MOMENT = 0.1
"""Seconds that it gives one that it is in a hurry to leave."""
REST = 0.3
"""Seconds after a job in which no idle one begins: what came of it is being shown, or asked for."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something for the engine to do.

    Attributes:
        title: for a person, while it runs: "Saving model.safetensors". The log has it as it is, who
            shows it passes it through `tr`.
        work: does it, and returns what is to be shown.
        lane: a newer job of the same lane takes the place of an older one that waits, and after
            some patience stops one that runs: the latest wins. None: every job counts.
        urgent: goes ahead of waiting jobs that are not.
        idle: stays behind all that are not, whenever they come, and begins after a rest.
        writes: it writes files, and whoever is in a hurry waits for it all the same.
    """

    title: str
    work: Callable[[Monitor], object]
    lane: str | None = None
    urgent: bool = False
    idle: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What became of the job with this ticket."""

    ticket: int
    job: Job


@dataclass(frozen=True, slots=True)
class Started(Event):
    """It runs."""


@dataclass(frozen=True, slots=True)
class Progressed(Event):
    """It has done so many of so many bytes."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """It is done."""

    result: object


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """It ended with an error: one that input can cause, or a fault of the program."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """It was cancelled, or a newer job of its lane took its place."""


NICENESS = 10
"""How far the engine steps back: about a tenth of the processor time of who does not."""


class _Run:
    """A job that waits or runs, and the flag that stops it."""

    def __init__(self, ticket: int, job: Job) -> None:
        self.ticket = ticket
        self.job = job
        self.cancelled = False
        self.superseded = False
        self.started = 0.0

    def is_set(self) -> bool:
        late = self.superseded and time.monotonic() - self.started > PATIENCE
        return self.cancelled or late


def _turn(job: Job) -> int:
    """Return which turn it is in: lower ones go first."""
    return 0 if job.urgent else 2 if job.idle else 1


def _step_back() -> None:
    """Let the window go first where it and the engine both want the processor.

    On Linux this is for one thread and those that it starts; elsewhere it would be for all.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class Engine:
    """Runs jobs on one thread of its own, in the order of submission.

    Args:
        notify: told of every event, on whichever thread it happens; must return at once.
        ended: the last thing that the thread does.
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
            ahead = sum(_turn(other.job) <= _turn(job) for other in self._waiting)
            self._waiting.insert(ahead, run)
            self._changed.notify()
        for other in dropped:
            self._notify(Dropped(other.ticket, other.job))
        return run.ticket

    def cancel(self, ticket: int) -> None:
        """Stop a job: one that waits is dropped, one that runs stops at its next step."""
        with self._changed:
            if self._running and self._running.ticket == ticket:
                self._running.cancelled = True
            waiting = [run for run in self._waiting if run.ticket == ticket]
            for run in waiting:
                self._waiting.remove(run)
        for run in waiting:
            self._notify(Dropped(run.ticket, run.job))

    def stop(self) -> None:
        """Drop every job, so that the thread ends soon. Nothing is notified any more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            if self._running:
                self._running.cancelled = True
            self._changed.notify()

    def close(self, *, hurry: bool = False) -> bool:
        """Drop every job and wait for the thread to end.

        Args:
            hurry: do not wait for a job that only reads: compiling, for one, cannot be stopped.

        Returns:
            Whether it ended. If not, it dies with the program, and what the job reads stays open.
        """
        self.stop()
        running = self._running
        leave = hurry and not (running and running.job.writes)
        self._thread.join(MOMENT if leave else FAREWELL)
        if self._thread.is_alive() and running and not leave:
            log.warning("%s did not stop; it ends with the program", running.job.title)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        _step_back()
        while run := self._next():
            self._tell(Started(run.ticket, run.job))
            self._tell(self._do(run))
        self._ended()

    def _next(self) -> _Run | None:
        with self._changed:
            rests = self._running is not None and not self._running.job.idle
            self._running = None
            if rests:
                self._changed.wait_for(self._is_wanted, REST)
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._running = self._waiting.popleft()
            self._running.started = time.monotonic()
            return self._running

    def _is_wanted(self) -> bool:
        """Tell whether there is something to do that cannot rest."""
        return self._closed or (bool(self._waiting) and not self._waiting[0].job.idle)

    def _do(self, run: _Run) -> Event:
        shown = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal shown
            if (now := time.monotonic()) - shown >= OFTEN:
                shown = now
                self._tell(Progressed(run.ticket, run.job, done, total))

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
            # The thread must outlive a fault in any job; the log has it, and the window says so.
            log.exception("%s failed", run.job.title)
            told = OutOfMemoryError() if is_out_of_memory(error) else error
            return Failed(run.ticket, run.job, told)
        if run.job.lane is None and not run.job.idle:  # others come by the dozen
            log.info("%s took %.2f s", run.job.title, time.monotonic() - run.started)
        return Finished(run.ticket, run.job, result)

    def _tell(self, event: Event) -> None:
        if not self._closed:
            self._notify(event)
