"""Tasks on the workers of a Dask cluster. This is the only module that imports `distributed`.

Each task is one message with the pickled work: paths of checkpoints, spans and predicates. Workers
read the files themselves, and answer with histograms and other small results.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.opening import address_of, reopen
from prune_gui.errors import Cancelled, ClusterError, PruneGuiError
from prune_gui.executor import Executor, Result, Task, current_executor, use_executor
from prune_gui.language import tr
from prune_gui.monitor import CancelFlag, Monitor, check_cancelled

if TYPE_CHECKING:
    from distributed import Client as Client
    from distributed import Future, LocalCluster, Security

LOCAL: Final = "local:"
"""Begins the name of a cluster of processes on this machine: "local:4" has four workers."""
IGNORE_CTRL_C: Final = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
"""Run by each worker process of this machine: Ctrl-C in a terminal also reaches them."""
MAX_LOCAL_WORKERS: Final = 256
SCHEDULER: Final = re.compile(
    r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})"
)
"""The address of a scheduler; the group is the port."""
MAX_PORT: Final = 65535
CONNECT_TIMEOUT_S: Final = 10
POLL_S: Final = 0.2
"""Interval between two checks for cancellation."""
WORKERS_CHECK_S: Final = 2.0
"""Interval between two checks that the cluster has workers."""
NO_WORKERS_TIMEOUT_S: Final = 30.0
"""How long a cluster may have no worker: a batch system starts lost ones again."""
BATCHES_PER_THREAD: Final = 4
"""So many messages for each thread of the workers even out their speeds."""
MAX_BATCH: Final = 16
"""Maximum number of tasks in a message."""


def check_address(where: str) -> None:
    """Check that a text can name a cluster, without a connection; see `open_cluster`."""
    if where.startswith(LOCAL):
        count = where.removeprefix(LOCAL)
        valid = count.isascii() and count.isdecimal() and 1 <= int(count) <= MAX_LOCAL_WORKERS
    else:
        match = SCHEDULER.fullmatch(where)
        valid = match is not None and 1 <= int(match[1]) <= MAX_PORT
    if not valid:
        raise ClusterError(
            "{where} names no cluster. Use the address of a scheduler, such as "
            "tcp://host:8786, or local:4 for 4 processes on this machine.",
            where=where,
        )


def check_installed() -> None:
    """Check that the package `distributed` is installed, without importing it."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise _not_installed()


@contextmanager
def open_cluster(where: str, cancel: CancelFlag | None = None) -> Iterator[Client]:
    """Connect to a cluster, or start one on this machine, and close it after the block."""
    distributed = _distributed()
    logging.getLogger(distributed.__name__).setLevel(logging.WARNING)  # not each connection
    with ExitStack() as stack:
        security = distributed.Security()
        if where.startswith(LOCAL):
            check_address(where)
            try:
                security = distributed.Security.temporary()  # no other user can connect
            except ImportError as error:  # it needs cryptography
                raise _not_installed() from error
            workers = int(where.removeprefix(LOCAL))
            cluster = stack.enter_context(_local_cluster(distributed, workers, security))
            where = cluster.scheduler_address
        yield stack.enter_context(_connected(distributed, where, cancel, security))


@contextmanager
def use_cluster(client: Client | None) -> Iterator[None]:
    """Run large tasks on the workers of a cluster within a block; None changes nothing."""
    with use_executor(current_executor() if client is None else DaskExecutor(client)):
        yield


def count_workers(client: Client, timeout: float) -> int | None:
    """Return the number of workers of a cluster; None if its scheduler was lost."""
    if client.status != "running":
        return None
    try:
        return len(client.sync(client.scheduler.ncores, workers=None, callback_timeout=timeout))
    except TimeoutError:
        raise
    except OSError:
        return None


class DaskExecutor(Executor):
    """Runs tasks on the workers of a cluster; Dask runs those of a lost worker on another one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._distributed = _distributed()

    def map(
        self, work: Callable[[Task, Monitor], Result], tasks: Sequence[Task], monitor: Monitor
    ) -> Iterator[Result]:
        """Yield ``work(task, monitor)`` for every task, in order; see `Executor.map`."""
        with self._explained():
            threads = sum(self._nthreads().values()) or 1
            size = min(max(len(tasks) // (threads * BATCHES_PER_THREAD), 1), MAX_BATCH)
            futures = [
                self._client.submit(
                    _run_batch,
                    _pickled((work, tasks[first : first + size])),
                    _version(),
                    pure=False,
                )
                for first in range(0, len(tasks), size)
            ]
            try:
                yield from self._results(futures, monitor)
            finally:
                self._client.cancel(futures)

    def _results(self, futures: Sequence[Future[Any]], monitor: Monitor) -> Iterator[Any]:
        """Yield the results of all batches in order, each as soon as those before it are known."""
        ready: dict[Future[Any], list[Any]] = {}
        pending = set(futures)
        for future in futures:
            while future not in ready:
                done = self._wait(pending, monitor)
                pending -= done
                for one, (results, nbytes) in zip(done, self._client.gather([*done]), strict=True):
                    if isinstance(results, Exception):
                        raise results
                    ready[one] = results
                    monitor.advance(nbytes)
            yield from ready.pop(future)

    def _wait(self, pending: set[Future[Any]], monitor: Monitor) -> set[Future[Any]]:
        """Return the futures that are done: at least one."""
        last_seen = last_check = time.monotonic()
        while True:
            monitor.advance()
            check_cancelled()
            try:
                with self._client.as_current():
                    waited = self._distributed.wait(pending, POLL_S, "FIRST_COMPLETED")
            except self._distributed.TimeoutError:
                pass
            else:
                done: set[Future[Any]] = waited.done
                return done
            now = time.monotonic()
            if now - last_check > WORKERS_CHECK_S:
                last_check = now
                if self._nthreads():
                    last_seen = now
                elif now - last_seen > NO_WORKERS_TIMEOUT_S:
                    raise ClusterError(
                        "The cluster lost all of its workers. Start workers, and try again."
                    )

    def _nthreads(self) -> dict[str, int]:
        threads: dict[str, int] = self._client.nthreads()
        return threads

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import asyncio  # slow to import
        import concurrent.futures

        from distributed.comm import CommClosedError

        lost = (asyncio.CancelledError, concurrent.futures.CancelledError, CommClosedError)
        try:
            yield
        except self._distributed.KilledWorker as error:
            raise ClusterError(
                "Several workers of the cluster ended during the same task, perhaps because "
                "their memory is too small. Start workers with more memory."
            ) from error
        except ImportError as error:
            raise ClusterError(
                "A worker of the cluster cannot load a library: {reason}. Install "
                "prune-gui {version} on all workers.",
                reason=error,
                version=_version(),
            ) from error
        except lost as error:
            raise ClusterError(
                "The scheduler of the cluster was lost. Start it again, and try again."
            ) from error


class _TaskCancelled:
    """A flag of the task that the calling thread of a worker runs: whether nobody waits for it."""

    def __init__(self) -> None:
        worker = _distributed().get_worker()
        self._state = worker.state.tasks.get(worker.get_current_task())

    def is_set(self) -> bool:
        return self._state is not None and self._state.state == "cancelled"


def _pickled(value: object) -> bytes:
    """Pickle work and tasks; a worker opens the checkpoints in them again, see `reopen`."""
    import cloudpickle  # a dependency of distributed

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: object) -> object:
            if isinstance(part, Checkpoint):
                return reopen, address_of(part)
            return super().reducer_override(part)

    file = BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def _run_batch(pickled: bytes, wanted_version: str) -> tuple[list[Any] | Exception, int]:
    """Return the results of tasks, or an error, and the bytes that they counted as done.

    Errors that input can cause are returned: Dask would log those that are raised.
    """
    if _version() != wanted_version:
        message = tr(
            "A worker of the cluster has prune-gui {version}. Install {wanted} on all workers.",
            version=_version(),
            wanted=wanted_version,
        )
        return ClusterError(message), 0
    import cloudpickle  # a dependency of distributed

    monitor = Monitor(cancel=_TaskCancelled())
    try:
        with monitor.in_charge():
            work, tasks = cloudpickle.loads(pickled)
            return [work(task, monitor) for task in tasks], monitor.done
    except Cancelled:
        return [], 0  # nobody reads it
    except (PruneGuiError, OSError) as error:
        return error, 0


def _local_cluster(distributed: ModuleType, workers: int, security: Security) -> LocalCluster:
    threads = max(1, (os.cpu_count() or 1) // workers)
    try:
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
            preload=[IGNORE_CTRL_C],
            security=security,
        )
    except (OSError, RuntimeError) as error:  # TimeoutError is an OSError
        raise ClusterError(
            "The worker processes cannot be started: {reason}", reason=error
        ) from error


@contextmanager
def _connected(
    distributed: ModuleType, address: str, cancel: CancelFlag | None, security: Security
) -> Iterator[Client]:
    from distributed.utils import LoopRunner

    try:
        # A client that cannot connect leaves a thread.
        LoopRunner().run_sync(_reach, address, cancel, security)
        client = distributed.Client(
            address, timeout=CONNECT_TIMEOUT_S, set_as_default=False, security=security
        )
    except (OSError, ValueError) as error:
        raise ClusterError(
            "The scheduler {address} cannot be reached. Check the address, and that the "
            "scheduler runs.",
            address=address,
        ) from error
    try:
        with client:
            yield client
    finally:
        client._loop_runner.stop()  # a client that gave up its lost scheduler left it running


async def _reach(address: str, cancel: CancelFlag | None, security: Security) -> None:
    import asyncio  # slow to import

    from distributed.comm import connect

    arguments = security.get_connection_args("client")
    attempt = asyncio.ensure_future(connect(address, timeout=CONNECT_TIMEOUT_S, **arguments))
    while not attempt.done():
        await asyncio.wait([attempt], timeout=POLL_S)
        if cancel is not None and cancel.is_set():
            attempt.cancel()
            await asyncio.wait([attempt])
            raise Cancelled
    comm = await attempt
    await comm.close()


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise _not_installed() from error
    module: ModuleType = distributed
    return module


def _not_installed() -> ClusterError:
    return ClusterError(
        "A cluster needs the package distributed. Install it with: {command}",
        command='pip install "prune-gui[cluster]"',
    )


def _version() -> str:
    from importlib.metadata import version  # slow to import

    return version("prune-gui")
