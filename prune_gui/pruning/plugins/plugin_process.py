"""The process of a plug-in as seen by the program: whatever it does only causes a `Fault` here."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import socket
import threading
import time
import weakref
from contextlib import suppress
from io import BufferedRandom
from typing import Any, Final

from prune_gui.isolated.messages import NO_START, POLL_INTERVAL_S, ask, readable
from prune_gui.isolated.processes import (
    GuardedProcess,
    SupervisorProcess,
    held,
    is_open,
    search_path,
    working_folder,
)
from prune_gui.monitor import check_cancelled
from prune_gui.pruning.plugins.faults import Fault, ReportedFault, raise_fault

log = logging.getLogger(__name__)

LOAD_LIMIT_S: Final = 120
"""Timeout for running a file or importing a package, including all its imports."""
GRACE_S: Final = 1.0
"""Timeout for the exit of the process after the connection is closed."""


class PluginProcess:
    """The code of one plug-in, in a process that is started on demand."""

    def __init__(self, origin: dict[str, Any]) -> None:
        self.path = origin.get("path")
        # of the code, or of the name of the entry point
        self.origin_digest = hashlib.sha256(json.dumps(origin).encode()).hexdigest()
        self._load = {
            "do": "load",
            "folder": working_folder(),
            "search_path": search_path(),
            **origin,
        }
        self._lock = threading.Lock()
        self._running: tuple[SupervisorProcess, GuardedProcess, socket.socket] | None = None

    @staticmethod
    def prepare() -> None:
        """Start the supervisor in the background."""
        with suppress(OSError):
            _running_supervisor()

    def load(self) -> Any:  # noqa: ANN401 - any JSON value
        """Run the code in a new process, and return the descriptions of its classes, unchecked."""
        with held(self._lock):
            return self._start().get("classes")

    def ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        """Send a request and return the reply, in `limit_s` seconds without starting a process."""
        with held(self._lock):
            if not self._is_idle():
                self._start()
            return self._ask(request, limit_s, file)

    def end_idle(self) -> None:
        """End the process if it is idle; the next request starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _is_idle(self) -> bool:
        """Return whether a process waits for a request, and sent no unexpected message."""
        if self._running is None:
            return False
        supervisor, process, connection = self._running
        waits = not readable([connection], 0) and not process.has_ended
        return waits and supervisor.is_alive  # otherwise it is being killed

    def _start(self) -> dict[str, Any]:
        self._end()
        try:
            supervisor = _running_supervisor()
            supervisor.wait_until_ready()
            connection, worker_end = socket.socketpair()
            weakref.finalize(self, connection.close)  # an idle process ends then
            with worker_end, open(os.devnull, "wb") as devnull:  # noqa: PTH123 - a device
                output = 2 if is_open(2) else devnull.fileno()
                process = supervisor.start([output, output, worker_end.fileno()])
        except OSError as error:
            raise Fault("no_start", reason=error.strerror or str(error)) from error
        self._running = supervisor, process, connection
        try:
            return self._ask(self._load, LOAD_LIMIT_S)
        except ReportedFault:
            self._end()
            raise

    def _ask(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None = None
    ) -> dict[str, Any]:
        try:
            reply = self._reply(request, limit_s, file)
            raise_fault(reply)
        except ReportedFault:
            raise
        except BaseException:  # the process may be busy, or in an unknown state
            self._end()
            raise
        return reply

    def _reply(
        self, request: dict[str, Any], limit_s: float, file: BufferedRandom | None
    ) -> dict[str, Any]:
        assert self._running is not None
        _, process, connection = self._running
        deadline = time.monotonic() + limit_s

        def check() -> None:
            ready = readable([connection, process], POLL_INTERVAL_S)
            check_cancelled()
            if time.monotonic() > deadline:
                raise Fault("time", seconds=round(limit_s))
            if connection not in ready and process.has_ended:
                raise _end_fault(process)

        try:
            reply = ask(connection, request, check, *([] if file is None else [file.fileno()]))
        except ConnectionError:
            readable([process], GRACE_S)
            raise _end_fault(process) from None
        except ValueError as error:
            log.info("A plug-in sent an invalid answer: %s", error)
            raise Fault("bad_answer") from error
        if not isinstance(reply, dict):
            raise Fault("bad_answer")
        return reply

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            _, process, connection = running
            process.end()
            connection.close()


def _end_fault(process: GuardedProcess) -> Fault:
    if not process.has_ended:
        return Fault("no_answer")
    code = process.exit_code or 0
    if code >= NO_START:
        return Fault("no_start", reason=os.strerror(code - NO_START))
    if code >= 0:
        return Fault("exit_code", status=code)
    try:
        return Fault("signal", signal=signal.Signals(-code).name)
    except ValueError:  # a signal without a name
        return Fault("signal", signal=str(-code))


_supervisor: SupervisorProcess | None = None
_starting = threading.Lock()


def _running_supervisor() -> SupervisorProcess:
    """Return the supervisor of all plug-ins, which has imported torch; start it if necessary."""
    global _supervisor
    with _starting:
        if _supervisor is None or not _supervisor.is_alive:
            _supervisor = SupervisorProcess("prune_gui.pruning.plugins.worker")
        return _supervisor
