"""The process of a plug-in as the program sees it: asked, waited for, ended.

Nothing that the plug-in does there, to itself or to the connection, comes to more here than a
`Fault`.
"""

from __future__ import annotations

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
    POLL_S,
    fork_server,
    held,
    read,
    search_path,
    write,
)
from prune_gui.pruning.plugins.messages import KILL, RUNS, UNKNOWN, pack, unpack

log = logging.getLogger(__name__)

LOAD_LIMIT_S: Final = 120
"""For running a file, or importing a package, with all that it imports."""
GRACE_S: Final = 1.0
"""Between the end of a connection and that of the process."""


@contextmanager
def shared_file() -> Iterator[BufferedRandom]:
    """Open a file in memory, or one without a name, that another process can be given."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("prune-gui")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with os.fdopen(descriptor, "w+b") as shared:
        yield shared


class _Worker:
    """One process that runs the code of a plug-in.

    Raises:
        OSError: it cannot be started.
        Cancelled: the work should stop.
    """

    def __init__(self) -> None:
        self._server = fork_server()
        self._server.wait_until_ready()
        self._socket, theirs = socket.socketpair()
        weakref.finalize(self, self._socket.close)  # then it ends, once it waits for a request
        with theirs:
            self._process = self._server.fork(theirs)
        self._socket.settimeout(POLL_S)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request; if not, it has ended, or said what nobody asked for."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0) and self._server.how_ended(self._process) == RUNS

    def ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None
    ) -> dict[str, Any]:
        """Return the reply to a request.

        Args:
            request: for `worker`.
            limit_s: how long it may take.
            file: handed over with it.

        Raises:
            Fault: there is none, or it tells of one.
            Cancelled: the work should stop.
        """
        deadline = time.monotonic() + limit_s

        def check() -> None:
            check_cancelled()
            if time.monotonic() > deadline:
                raise Fault("time", seconds=round(limit_s))
            ended = self._server.how_ended(self._process)
            if ended not in (RUNS, UNKNOWN):
                raise _end(ended)

        octets = memoryview(pack(request))
        try:
            if file is not None:
                octets = octets[socket.send_fds(self._socket, [octets], [file.fileno()]) :]
            write(self._socket, octets, check)
            reply = unpack(lambda size: read(self._socket, size, check))
        except ConnectionError:
            raise self._loss() from None
        except ValueError as error:
            log.info("A plug-in sent what is no answer: %s", error)
            raise Fault("bad_answer") from error
        if not isinstance(reply, dict):
            raise Fault("bad_answer")
        raise_fault(reply)
        return reply

    def end(self) -> None:
        """End it, whatever it does, and what it started."""
        with suppress(OSError):
            self._server.ask(KILL, self._process)
        self._socket.close()

    def _loss(self) -> Fault:
        """Return why there is nobody at the other end."""
        deadline = time.monotonic() + GRACE_S
        while (ended := self._server.how_ended(self._process)) == RUNS:
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        return Fault("no_answer") if ended in (RUNS, UNKNOWN) else _end(ended)


class PluginProcess:
    """The code of one plug-in, in a process that is started when it is needed.

    Args:
        origin: what to load: for a file "path" and "source", else "entry_point".

    Attributes:
        path: of the file.
    """

    def __init__(self, origin: dict[str, Any]) -> None:
        self.path = origin.get("path")
        self._load = {"do": "load", "folder": _folder(), "search_path": search_path(), **origin}
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    @staticmethod
    def prepare() -> None:
        """Have the fork server started soon; who needs it waits for it."""
        with suppress(OSError):
            fork_server()

    def load(self) -> Any:  # noqa: ANN401 - whatever it says
        """Run the code in a new process, and return what it says of its classes.

        Raises:
            Fault: it cannot be run.
            Cancelled: the work should stop.
        """
        with held(self._lock):
            return self._start().get("classes")

    def ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        """Return the reply to a request; one after the other.

        Args:
            request: for `worker`.
            limit_s: how long it may take, beside the start of a process where there is none.
            file: handed over with it.

        Raises:
            Fault: there is none, or it tells of one.
            Cancelled: the work should stop.
        """
        with held(self._lock):
            if self._worker is None or not self._worker.is_idle:
                self._start()
            return self._ask(request, limit_s, file)

    def rest(self) -> None:
        """End the process unless it is at work; the next request starts another."""
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
        except Told:
            self._end()
            raise

    def _ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.ask(request, limit_s, file)
        except Told:
            raise
        except BaseException:  # it may be at work still, or in a state that nobody knows
            self._end()
            raise

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


class Told(Fault):
    """What the process of a plug-in told of, and goes on after."""


def raise_fault(reply: dict[str, Any]) -> None:
    """Raise the fault that a reply tells of, if it does; the log gets the traceback.

    Raises:
        Told: it does.
        Fault: it is no reply.
    """
    if "fault" not in reply:
        return
    try:
        told = Told.received(reply["fault"], reply["fields"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fault("bad_answer") from error
    if trace := reply.get("trace"):
        log.info("The code of a plug-in failed\n%s", trace)
    raise told


def _end(code: int) -> Fault:
    """Return how a process ended."""
    if code >= 0:
        return Fault("exit_code", status=code)
    try:
        return Fault("signal", signal=signal.Signals(-code).name)
    except ValueError:  # one that has no name
        return Fault("signal", signal=str(-code))


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it is deleted
        return "/"
