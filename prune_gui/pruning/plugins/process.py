"""The process of a plug-in as seen by the program.

Whatever the plug-in does there, to its process or to the connection, only causes a `Fault` here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from typing import Any, Final

from prune_gui.monitor import check_cancelled
from prune_gui.pruning.plugins.faults import Fault
from prune_gui.pruning.plugins.launcher import (
    POLL_INTERVAL_S,
    fork_server,
    held,
    read,
    search_path,
    write,
)
from prune_gui.pruning.plugins.messages import KILL, RUNS, UNKNOWN, pack, unpack

log = logging.getLogger(__name__)

LOAD_LIMIT_S: Final = 120
"""Timeout for running a file or importing a package, including all its imports."""
GRACE_S: Final = 1.0
"""Timeout for the exit of the process after the connection is closed."""


@contextmanager
def shared_file() -> Iterator[BufferedRandom]:
    """Open an anonymous file, in memory on Linux, whose descriptor can be passed to a process."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("prune-gui")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with os.fdopen(descriptor, "w+b") as shared:
        yield shared


class _Worker:
    """One process that runs the code of a plug-in."""

    def __init__(self) -> None:
        self._server = fork_server()
        self._server.wait_until_ready()
        self._socket, worker_end = socket.socketpair()
        weakref.finalize(self, self._socket.close)  # an idle process ends then
        with worker_end:
            self._process = self._server.fork(worker_end)
        self._socket.settimeout(POLL_INTERVAL_S)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request. If not, it has ended, or sent an unexpected message."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0) and self._server.how_ended(self._process) == RUNS

    def ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None
    ) -> dict[str, Any]:
        """Send a request and return the reply.

        Args:
            limit_s: timeout in seconds.
        """
        deadline = time.monotonic() + limit_s

        def check() -> None:
            check_cancelled()
            if time.monotonic() > deadline:
                raise Fault("time", seconds=round(limit_s))
            exit_code = self._server.how_ended(self._process)
            if exit_code not in (RUNS, UNKNOWN):
                raise _end(exit_code)

        unsent = memoryview(pack(request))
        try:
            if file is not None:
                unsent = unsent[socket.send_fds(self._socket, [unsent], [file.fileno()]) :]
            write(self._socket, unsent, check)
            reply = unpack(lambda size: read(self._socket, size, check))
        except ConnectionError:
            raise self._connection_fault() from None
        except ValueError as error:
            log.info("A plug-in sent an invalid answer: %s", error)
            raise Fault("bad_answer") from error
        if not isinstance(reply, dict):
            raise Fault("bad_answer")
        raise_fault(reply)
        return reply

    def end(self) -> None:
        """Kill the process and all that it started."""
        with suppress(OSError):
            self._server.ask(KILL, self._process)
        self._socket.close()

    def _connection_fault(self) -> Fault:
        """Return the fault that describes a closed connection."""
        deadline = time.monotonic() + GRACE_S
        while (exit_code := self._server.how_ended(self._process)) == RUNS:
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_INTERVAL_S)
        return Fault("no_answer") if exit_code in (RUNS, UNKNOWN) else _end(exit_code)


class PluginProcess:
    """The code of one plug-in, in a process that is started on demand.

    Attributes:
        path: path of the file; None for an entry point.
        origin_digest: a digest of the code, or of the name of the entry point.
    """

    def __init__(self, origin: dict[str, Any]) -> None:
        self.path = origin.get("path")
        self.origin_digest = hashlib.sha256(json.dumps(origin).encode()).hexdigest()
        self._load = {"do": "load", "folder": _folder(), "search_path": search_path(), **origin}
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    @staticmethod
    def prepare() -> None:
        """Start the fork server in the background."""
        with suppress(OSError):
            fork_server()

    def load(self) -> Any:  # noqa: ANN401 - any JSON value
        """Run the code in a new process, and return the descriptions of its classes, unchecked."""
        with held(self._lock):
            return self._start().get("classes")

    def ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        """Send a request and return the reply; concurrent requests wait for each other.

        Args:
            limit_s: timeout in seconds, without the time to start a process if there is none.
        """
        with held(self._lock):
            if self._worker is None or not self._worker.is_idle:
                self._start()
            return self._ask(request, limit_s, file)

    def end_idle(self) -> None:
        """End the process if it is idle; the next request starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _start(self) -> dict[str, Any]:
        self._end()
        try:
            self._worker = _Worker()
        except OSError as error:
            raise Fault("no_start", reason=error.strerror or str(error)) from error
        try:
            return self._ask(self._load, LOAD_LIMIT_S)
        except ReportedFault:
            self._end()
            raise

    def _ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.ask(request, limit_s, file)
        except ReportedFault:
            raise
        except BaseException:  # the process may be busy, or in an unknown state
            self._end()
            raise

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


class ReportedFault(Fault):
    """A fault that the process itself reported, and after which it continues."""


def raise_fault(reply: dict[str, Any]) -> None:
    """Raise the fault that a reply reports, if any, and log its traceback."""
    if "fault" not in reply:
        return
    try:
        fault = ReportedFault.received(reply["fault"], reply["fields"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fault("bad_answer") from error
    if trace := reply.get("trace"):
        log.info("The code of a plug-in failed\n%s", trace)
    raise fault


def _end(code: int) -> Fault:
    """Return the fault that describes the end of a process."""
    if code >= 0:
        return Fault("exit_code", status=code)
    try:
        return Fault("signal", signal=signal.Signals(-code).name)
    except ValueError:  # a signal without a name
        return Fault("signal", signal=str(-code))


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # the working folder was deleted
        return "/"
