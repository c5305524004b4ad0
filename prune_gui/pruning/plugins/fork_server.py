"""The fork server: a process with torch loaded that forks one process per plug-in without delay.

It has one thread, no window and no state of the program, so it is safe to fork, unlike the program
itself. The program starts it as a new interpreter, isolated and in the root folder, so that no code
in the working folder runs. It ends with the program, and ends all processes that it forked.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from prune_gui.pruning.plugins.messages import (
    FORK,
    POLL,
    READY,
    REPLY,
    REQUEST,
    RUNS,
    UNKNOWN,
)
from prune_gui.pruning.plugins.worker import serve

PR_SET_PDEATHSIG: Final = 1


class ForkServer:
    """Executes the commands that the program sends over a socket.

    Args:
        control: the connected socket.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running_pids: set[int] = set()
        self._exit_codes: dict[int, int] = {}
        self._own_pid = os.getpid()

    def run(self) -> None:
        """Execute commands until the program closes the socket, or ends."""
        try:
            self._control.sendall(READY)
            while True:
                request, descriptors, _, _ = socket.recv_fds(
                    self._control, REQUEST.size, 2, socket.MSG_WAITALL
                )
                if not request:
                    return
                command, pid = REQUEST.unpack(request)
                if command == FORK:
                    reply = self._fork(*descriptors)
                else:
                    reply = self._poll(pid) if command == POLL else self._kill(pid)
                self._control.sendall(REPLY.pack(reply))
        except OSError:  # the program has ended
            return
        finally:
            if os.getpid() == self._own_pid:
                for pid in list(self._running_pids):
                    self._kill(pid)

    def _fork(self, connection: int, output: int) -> int:
        for pid in list(self._running_pids):
            self._reap(pid, os.WNOHANG)  # the program may never poll it again
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy has a thread, which is harmless here
                pid = os.fork()
            if not pid:
                self._run_worker(connection, output)
        except OSError as error:
            return -(error.errno or 1)
        finally:
            os.close(connection)
            os.close(output)
        with suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same; the first call wins
        self._running_pids.add(pid)
        return pid

    def _run_worker(self, connection: int, output: int) -> NoReturn:
        try:
            self._control.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            with suppress(OSError):
                os.setpgid(0, 0)
            if sys.platform == "linux":
                _die_with_parent(self._own_pid)
                with suppress(OSError):
                    Path("/proc/self/oom_score_adj").write_text("1000")
            serve(socket.socket(fileno=connection))
        finally:  # no traceback is printed: the program reports the exit code
            os._exit(1)

    def _poll(self, pid: int) -> int:
        self._reap(pid, os.WNOHANG)
        return RUNS if pid in self._running_pids else self._exit_codes.pop(pid, UNKNOWN)

    def _reap(self, pid: int, options: int) -> None:
        """Record the exit code of a process that has ended, and kill its process group."""
        if pid in self._running_pids:
            ended_pid, status = os.waitpid(pid, options)
            if ended_pid:
                self._running_pids.discard(pid)
                self._exit_codes[pid] = os.waitstatus_to_exitcode(status)
                with suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)

    def _kill(self, pid: int) -> int:
        if self._poll(pid) == RUNS:
            for kill in (os.killpg, os.kill):
                with suppress(OSError):
                    kill(pid, signal.SIGKILL)
            self._reap(pid, 0)
        return self._exit_codes.pop(pid, UNKNOWN)


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Serve the socket that is passed as standard input."""
    control = socket.socket(fileno=os.dup(0))
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.close(devnull)
    ForkServer(control).run()
    os._exit(0)
