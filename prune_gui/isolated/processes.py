"""Processes as seen by the program: new interpreters, and processes under a supervisor."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Final

from prune_gui.isolated.messages import POLL_INTERVAL_S, READY, REPORT, readable, send
from prune_gui.monitor import check_cancelled

START_TIMEOUT_S: Final = 120
END_TIMEOUT_S: Final = 10.0
"""Timeout for a supervisor to end processes; then it is killed, and they with it."""
START_CODE: Final = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main()"
)


def isolated_command(module: str, *arguments: str) -> list[str]:
    """Return the command of an isolated interpreter that calls `main` of a module."""
    options = ["-I", "-u", "-X", "utf8", "-c", START_CODE]
    return [sys.executable, *options, json.dumps(search_path()), module, *arguments]


def search_path() -> list[str]:
    """Return the folders of `sys.path`, absolute: that of this program, not the working folder."""
    own_root = Path(__file__).parents[2]
    folders = [Path(folder) for folder in sys.path if os.path.isabs(folder)]  # noqa: PTH117
    excluded = Path(working_folder())
    kept = [folder for folder in folders if folder != excluded or folder == own_root]
    return [str(folder) for folder in dict.fromkeys([*kept, own_root])]


def working_folder() -> str:
    """Return the working folder; the root folder if it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 - a string
    except OSError:
        return "/"


@contextmanager
def held(lock: threading.Lock) -> Iterator[None]:
    """Acquire a lock, checking for cancellation while another thread holds it."""
    while not lock.acquire(timeout=POLL_INTERVAL_S):
        check_cancelled()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def anonymous_file(*, in_memory: bool = True) -> Iterator[BufferedRandom]:
    """Open a file without a name, whose descriptor can be passed to a process."""
    if sys.platform == "linux" and in_memory:
        descriptor = os.memfd_create("prune-gui")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with os.fdopen(descriptor, "w+b") as opened:
        yield opened


class SupervisorProcess:
    """A supervisor; processes without a command run `serve` of `module` in it. Thread-safe."""

    def __init__(self, module: str = "") -> None:
        self._control, supervisor_end = socket.socketpair()
        with supervisor_end:
            try:
                self._process = subprocess.Popen(
                    isolated_command("prune_gui.isolated.supervisor", module),
                    stdin=supervisor_end.fileno(), stdout=subprocess.DEVNULL,
                    stderr=None if is_open(2) else subprocess.DEVNULL,
                    cwd="/", start_new_session=True,
                )  # fmt: skip
            except OSError:
                self._control.close()
                raise
        self.pid = self._process.pid
        self._lock = threading.Lock()
        self._is_ready = False
        self._is_used = threading.Event()
        self.close = weakref.finalize(self, _end, self._control, self._process, self._is_used)
        """Ends the supervisor, and all processes that it has started; so does the program's end."""

    @property
    def is_alive(self) -> bool:
        """Whether the supervisor runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until it has imported the module."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with held(self._lock):
            while not self._is_ready:
                check_cancelled()
                if time.monotonic() > deadline:
                    self.close()
                    raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                if readable([self._control], POLL_INTERVAL_S):
                    if not self._control.recv(len(READY)):
                        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                    self._is_ready = True

    def start(
        self, descriptors: Sequence[int], argv: Sequence[str] = (), *, remove: Path | None = None
    ) -> GuardedProcess:
        """Start a process.

        Args:
            descriptors: those that it gets from number 1 on, the standard output; the standard
                input is empty. Without `argv`, the last is the connection that it serves.
            argv: the command that it becomes, in the working folder.
            remove: a folder to remove if this program ends before the process.
        """
        report, supervisor_end = socket.socketpair()
        folder = None if remove is None else str(remove)
        request = {"argv": list(argv), "folder": working_folder(), "remove": folder}
        with supervisor_end, self._lock:
            try:
                self._is_used.set()
                send(self._control, request, [supervisor_end.fileno(), *descriptors])
            except BaseException:  # otherwise the supervisor would wait for the rest
                report.close()
                self.close()
                raise
        return GuardedProcess(self, report)

    def resume(self) -> None:
        """Let the supervisor continue, since the code of others may have stopped it."""
        self._process.send_signal(signal.SIGCONT)


class GuardedProcess:
    """A process under a supervisor, with all processes that it starts."""

    def __init__(self, supervisor: SupervisorProcess, report: socket.socket) -> None:
        report.setblocking(False)
        self._supervisor = supervisor
        self._report = report
        self.exit_code: int | None = None  # as in `Popen`, or `NO_START` plus errno
        self.peak = 0  # memory of the largest process that the supervisor has seen, in bytes
        weakref.finalize(self, report.close)  # the supervisor kills it then

    def fileno(self) -> int:
        """Return the descriptor that can be read when the process ends, for `wait`."""
        return self._report.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; then it has an exit code."""
        if self.exit_code is None:
            try:
                octets = self._report.recv(REPORT.size)
            except BlockingIOError:
                return False
            except OSError:
                octets = b""
            # without a report, the supervisor was killed, and the process with it
            complete = len(octets) == REPORT.size
            self.exit_code, self.peak = REPORT.unpack(octets) if complete else (-signal.SIGKILL, 0)
        return True

    def end(self) -> None:
        """Kill the process and all that it started, and wait until they have ended."""
        if not self.has_ended:
            with suppress(OSError):
                self._report.shutdown(socket.SHUT_WR)
            self._supervisor.resume()
            readable([self._report], END_TIMEOUT_S)
            if not self.has_ended:
                self._supervisor.close()
                self.exit_code = -signal.SIGKILL
        self._report.close()


def _end(
    control: socket.socket, supervisor: subprocess.Popen[bytes], is_used: threading.Event
) -> None:
    control.close()
    supervisor.send_signal(signal.SIGCONT)
    if not is_used.is_set():  # it may be importing, and would notice the end late
        supervisor.kill()
    try:
        supervisor.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()


def is_open(descriptor: int) -> bool:
    """Return whether a descriptor is open in this process."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
