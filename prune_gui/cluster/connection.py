"""The connection to the cluster of the settings, which all jobs share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from prune_gui.cluster.dask_executor import DaskExecutor, count_workers, open_cluster
from prune_gui.errors import Cancelled, ClusterError, PruneGuiError
from prune_gui.executor import Executor, Result, Task, use_executor
from prune_gui.language import tr
from prune_gui.monitor import Monitor, check_cancelled

if TYPE_CHECKING:
    from prune_gui.cluster.dask_executor import Client

THREAD_NAME: Final = "prune-gui-cluster"
WATCH_INTERVAL_S: Final = 1.0
"""Interval between two looks at the workers of a cluster."""
POLL_S: Final = 0.1
"""Interval between two checks for cancellation while a job waits for the connection."""
CLOSE_TIMEOUT_S: Final = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Where jobs run, and the state of the connection."""

    where: str = ""  # as in `open_cluster`; "" is this machine
    connecting: bool = False
    workers: int | None = None  # None without a connection, which the next job opens
    error: ClusterError | None = None  # why the last attempt failed, or the connection ended


class ClusterConnection:
    """Opens a connection when a job first needs it, and keeps it for the next jobs."""

    def __init__(self, notify: Callable[[ClusterState], None]) -> None:
        self._notify = notify  # called with every new state, on any thread; must not block
        self._lock = threading.Lock()
        self._current: _Link | None = None
        self._links: list[_Link] = []

    def change(self, where: str) -> None:
        """Run jobs elsewhere from now on; a running job stays where it is."""
        with self._lock:
            old, self._current = self._current, None
            if where:
                self._current = _Link(where, self._forward)
                self._links = [one for one in self._links if one.is_open]
                self._links.append(self._current)
            if old is not None:
                self._close_if_unused(old)
        self._notify(ClusterState(where))

    @contextmanager
    def use(self, *, may_wait: bool) -> Iterator[None]:
        """Run the tasks of a job on the chosen cluster, if it is connected or the job may wait."""
        with self._lock:
            link = self._current
            if link is not None and (may_wait or link.is_connected):
                link.users += 1
            else:
                link = None
        if link is None:
            yield
            return
        try:
            with use_executor(link):
                yield
        finally:
            with self._lock:
                link.users -= 1
                self._close_if_unused(link)

    def _close_if_unused(self, link: _Link) -> None:
        if link is not self._current and not link.users:
            link.close()

    def close(self) -> bool:
        """Close the connection; return whether its thread ended. Jobs that still use it fail."""
        with self._lock:
            links, self._links, self._current = self._links, [], None
        for link in links:
            link.close()
        ended = [link.join() for link in links]
        return all(ended)

    def _forward(self, link: _Link, state: ClusterState) -> None:
        if link is self._current:
            self._notify(state)


class _Link(Executor):
    """A connection to one cluster, which a thread opens and closes."""

    def __init__(self, where: str, notify: Callable[[_Link, ClusterState], None]) -> None:
        self._where = where
        self._notify = partial(notify, self)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._executor: DaskExecutor | None = None
        self._error: ClusterError | None = None
        self.users = 0  # number of jobs that hold it

    @property
    def is_open(self) -> bool:
        return not self._closing.is_set() or self._thread is not None

    @property
    def is_connected(self) -> bool:
        return self._executor is not None

    def map(
        self, work: Callable[[Task, Monitor], Result], tasks: Sequence[Task], monitor: Monitor
    ) -> Iterator[Result]:
        executor = self._connected(monitor)
        try:
            yield from executor.map(work, tasks, monitor)
        except ClusterError as problem:
            raise _with_way_out(str(problem)) from problem
        except Exception as problem:
            if self._executor is executor or isinstance(problem, PruneGuiError):
                raise
            raise _with_way_out(_lost(self._where)) from problem  # the client was closed meanwhile

    def close(self) -> None:
        with self._changed:
            self._closing.set()
            self._changed.notify_all()

    def join(self) -> bool:
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)
        return thread is None or not thread.is_alive()

    def _connected(self, monitor: Monitor) -> DaskExecutor:
        """Return the connected executor; wait for it."""
        with self._changed:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._serve, name=THREAD_NAME, daemon=True)
                self._thread.start()
            thread = self._thread
            while self._executor is None:
                if self._thread is not thread or thread is None:
                    raise self._error or Cancelled
                monitor.advance()
                check_cancelled()
                self._changed.wait(POLL_S)
            return self._executor

    def _serve(self) -> None:
        """Open the connection, and close it when it is lost or no longer needed."""
        self._notify(ClusterState(self._where, connecting=True))
        error: ClusterError | None = None
        try:
            with open_cluster(self._where, self._closing) as client:
                with self._changed:
                    self._executor = DaskExecutor(client)
                    self._changed.notify_all()
                try:
                    self._watch(client)
                finally:
                    self._executor = None
        except Cancelled:
            pass
        except ClusterError as problem:
            error = _with_way_out(str(problem))
        except Exception as problem:  # the jobs that wait must get an error
            log.exception("The connection to %s failed", self._where)
            text = tr("The cluster {where} failed: {reason}.", where=self._where, reason=problem)
            error = _with_way_out(text)
        self._notify(ClusterState(self._where, error=error))
        with self._changed:
            self._error, self._thread = error, None
            self._changed.notify_all()

    def _watch(self, client: Client) -> None:
        known = None
        while True:
            try:
                workers = count_workers(client, WATCH_INTERVAL_S)
            except TimeoutError:
                workers = known  # the scheduler is busy
            if workers is None and not self._closing.is_set():
                raise ClusterError(_lost(self._where))
            if workers != known:
                known = workers
                self._notify(ClusterState(self._where, workers=workers))
            if self._closing.wait(WATCH_INTERVAL_S):
                return


def _lost(where: str) -> str:
    return tr("The scheduler {address} was lost. Start it again, and try again.", address=where)


def _with_way_out(text: str) -> ClusterError:
    way_out = tr("Edit > Settings > Run on changes where jobs run.")
    return ClusterError(f"{text} {way_out}")
