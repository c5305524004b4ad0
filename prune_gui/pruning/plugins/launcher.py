"""The fork server as the program sees it: started when it is first needed, ended at exit."""

from __future__ import annotations

import atexit
import errno
import json
import os
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

POLL_S: Final = 0.05
"""Between two looks at whether to go on waiting."""
START_LIMIT_S: Final = 120
END_LIMIT_S: Final = 5
RECEIVE_BYTES: Final = 1 << 16
START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from prune_gui.pruning.plugins.fork_server import main; main()"
)


def _command() -> list[str]:
    """Return what starts the fork server: isolated, with nothing of the working folder."""
    return [sys.executable, "-I", "-u", "-X", "utf8", "-c", START, json.dumps(search_path())]


def search_path() -> list[str]:
    """Return where Python looks for modules, without the working folder.

    A folder that this program itself is imported from stays.
    """
    ours = Path(__file__).parents[3]
    try:
        here = Path.cwd()
    except OSError:  # it is deleted
        here = None
    folders = [Path(folder) for folder in sys.path if os.path.isabs(folder)]  # noqa: PTH117
    kept = [folder for folder in folders if folder != here or folder == ours]
    return [str(folder) for folder in dict.fromkeys([*kept, ours])]


class ForkServer:
    """The process that forks those of the plug-ins; see `fork_server`."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                _command(), stdin=theirs.fileno(), stdout=subprocess.DEVNULL,
                cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._socket.settimeout(POLL_S)
        self._lock = threading.Lock()
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until it has loaded torch.

        Raises:
            OSError: it does not start.
            Cancelled: the work should stop.
        """
        deadline = time.monotonic() + START_LIMIT_S

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
        """Return the number of a new process that serves a connection, and prints as this one does.

        Raises:
            OSError: there is none.
        """
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - no file
            output = 2 if _is_open(2) else nothing.fileno()
            process = self.ask(FORK, 0, [connection.fileno(), output])
        if process < 0:
            raise OSError(-process, os.strerror(-process))
        return process

    def ask(self, command: bytes, process: int, passed: Sequence[int] = ()) -> int:
        """Return the reply to a command of `messages`.

        Args:
            command: what to do.
            process: what to do it to.
            passed: descriptors.

        Raises:
            OSError: there is none; the server is ended.
        """
        deadline = time.monotonic() + END_LIMIT_S

        def check() -> None:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        with self._lock:
            try:
                message = [REQUEST.pack(command, process)]
                socket.send_fds(self._socket, message, passed)
                [reply] = REPLY.unpack(read(self._socket, REPLY.size, check))
            except BaseException:  # the next reply would be taken for that of another command
                self.close()
                raise
        return int(reply)

    def how_ended(self, process: int) -> int:
        """Return the exit code of a process, as `Popen.returncode`, or `RUNS` or `UNKNOWN`."""
        try:
            return self.ask(POLL, process)
        except OSError:
            return UNKNOWN

    def close(self) -> None:
        """End it, and with it all processes that it forked."""
        self._socket.close()
        if not self._is_ready:  # nothing runs yet, and it would notice late
            self._process.kill()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_server: ForkServer | None = None
_starting = threading.Lock()


def fork_server() -> ForkServer:
    """Return the one that runs, or a new one."""
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
    """Hold a lock, however long another thread has it.

    Raises:
        Cancelled: the work should stop.
    """
    while not lock.acquire(timeout=POLL_S):
        check_cancelled()
    try:
        yield
    finally:
        lock.release()


def read(connection: socket.socket, size: int, check: Callable[[], None]) -> bytes:
    """Return so many bytes, calling `check` again and again while there are none.

    Raises:
        ConnectionError: there will be none.
    """
    octets = bytearray()
    while len(octets) < size:
        try:
            more = connection.recv(min(size - len(octets), RECEIVE_BYTES))
        except TimeoutError:
            check()
            continue
        if not more:
            raise ConnectionError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        octets += more
    return bytes(octets)


def write(connection: socket.socket, octets: memoryview, check: Callable[[], None]) -> None:
    """Send bytes, calling `check` again and again while nobody takes them."""
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
