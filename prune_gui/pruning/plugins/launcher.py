"""The fork server as seen by the program: started on first use, ended at exit."""

from __future__ import annotations

import atexit
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prune_gui.monitor import check_cancelled
from prune_gui.pruning.plugins.messages import FORK, POLL, READY, REPLY, REQUEST, UNKNOWN

POLL_INTERVAL_S: Final = 0.05
"""Interval between checks for cancellation and timeouts."""
START_TIMEOUT_S: Final = 120
REPLY_TIMEOUT_S: Final = 5
"""Timeout for a reply of the fork server, and for its exit."""
RECEIVE_BYTES: Final = 1 << 16
START_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from prune_gui.pruning.plugins.fork_server import main; main()"
)


def _command() -> list[str]:
    """Return the command line of the fork server: isolated from the working folder."""
    return [sys.executable, "-I", "-u", "-X", "utf8", "-c", START_CODE, json.dumps(search_path())]


def search_path() -> list[str]:
    """Return the folders of `sys.path` as absolute paths, without the working folder.

    The folder from which this program is imported is always included.
    """
    own_root = Path(__file__).parents[3]
    try:
        working_folder = Path.cwd()
    except OSError:  # the working folder was deleted
        working_folder = None
    folders = [Path(folder) for folder in sys.path if os.path.isabs(folder)]  # noqa: PTH117
    kept = [folder for folder in folders if folder != working_folder or folder == own_root]
    return [str(folder) for folder in dict.fromkeys([*kept, own_root])]


class ForkServer:
    """The process that forks the plug-in processes; see module `fork_server`."""

    def __init__(self) -> None:
        self._socket, server_end = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                _command(), stdin=server_end.fileno(), stdout=subprocess.DEVNULL,
                cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError:
            self._socket.close()
            raise
        finally:
            server_end.close()
        self._socket.settimeout(POLL_INTERVAL_S)
        self._lock = threading.Lock()
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether the server process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until the server has imported torch."""
        deadline = time.monotonic() + START_TIMEOUT_S

        def check() -> None:
            check_cancelled()
            if time.monotonic() > deadline:
                self.close()
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        with held(self._lock):
            if not self._is_ready:
                read(self._socket, len(READY), check)
                self._is_ready = True

    def fork(self, connection: socket.socket) -> int:
        """Fork a process that serves a connection and prints to our stderr; return its pid."""
        with open(os.devnull, "wb") as devnull:  # noqa: PTH123 - a device
            output = 2 if _is_open(2) else devnull.fileno()
            process = self.ask(FORK, 0, [connection.fileno(), output])
        if process < 0:
            raise OSError(-process, os.strerror(-process))
        return process

    def ask(self, command: bytes, process: int, passed: Sequence[int] = ()) -> int:
        """Send a command of `messages` and return the reply."""
        deadline = time.monotonic() + REPLY_TIMEOUT_S

        def check() -> None:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        with self._lock:
            try:
                message = [REQUEST.pack(command, process)]
                socket.send_fds(self._socket, message, passed)
                [reply] = REPLY.unpack(read(self._socket, REPLY.size, check))
            except (
                BaseException
            ):  # otherwise a late reply would be read as that of the next command
                self.close()
                raise
        return int(reply)

    def how_ended(self, process: int) -> int:
        """Return the exit code of a process, as in `Popen.returncode`, or `RUNS` or `UNKNOWN`."""
        try:
            return self.ask(POLL, process)
        except OSError:
            return UNKNOWN

    def close(self) -> None:
        """End the server and all processes that it forked."""
        self._socket.close()
        self._process.send_signal(signal.SIGCONT)  # a plug-in may have stopped it
        if not self._is_ready:  # it has forked nothing, and would notice the closed socket late
            self._process.kill()
        try:
            self._process.wait(REPLY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_server: ForkServer | None = None
_starting = threading.Lock()


def fork_server() -> ForkServer:
    """Return the running fork server, or start one."""
    global _server
    with _starting:
        if _server is None or not _server.is_alive:
            _server = ForkServer()
        return _server


@atexit.register
def _end_server() -> None:
    if _server is not None:
        _server.close()


@contextmanager
def held(lock: threading.Lock) -> Iterator[None]:
    """Acquire a lock, checking for cancellation while another thread holds it."""
    while not lock.acquire(timeout=POLL_INTERVAL_S):
        check_cancelled()
    try:
        yield
    finally:
        lock.release()


def read(connection: socket.socket, size: int, check: Callable[[], None]) -> bytes:
    """Receive exactly `size` bytes; call `check` every POLL_INTERVAL_S while waiting.

    Raises:
        ConnectionError: the other side has closed the connection.
    """
    octets = bytearray()
    while len(octets) < size:
        try:
            received = connection.recv(min(size - len(octets), RECEIVE_BYTES))
        except TimeoutError:
            check()
            continue
        if not received:
            raise ConnectionError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        octets += received
    return bytes(octets)


def write(connection: socket.socket, octets: memoryview, check: Callable[[], None]) -> None:
    """Send bytes; call `check` every POLL_INTERVAL_S while the socket buffer is full."""
    while octets:
        try:
            octets = octets[connection.send(octets) :]
        except TimeoutError:
            check()


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
