"""A process that has torch loaded and forks one for each plug-in, which then starts at once.

It has one thread, no window and nothing of the program's, so that it can be forked, as the program
cannot be. The program starts it afresh, in the root folder and isolated, so that nothing in the
working folder runs, and it ends when the program does, with all that it forked.
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
    """Does what the program asks for, over a socket.

    Args:
        control: the socket.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: set[int] = set()
        self._ended: dict[int, int] = {}
        self._process = os.getpid()

    def run(self) -> None:
        """Serve until the program closes the socket, or ends."""
        try:
            self._control.sendall(READY)
            while True:
                octets, descriptors, _, _ = socket.recv_fds(
                    self._control, REQUEST.size, 2, socket.MSG_WAITALL
                )
                if not octets:
                    return
                command, process = REQUEST.unpack(octets)
                if command == FORK:
                    reply = self._fork(*descriptors)
                else:
                    reply = self._poll(process) if command == POLL else self._kill(process)
                self._control.sendall(REPLY.pack(reply))
        except OSError:  # the program is gone
            return
        finally:
            if os.getpid() == self._process:
                for process in list(self._running):
                    self._kill(process)

    def _fork(self, connection: int, output: int) -> int:
        for process in list(self._running):
            self._reap(process, os.WNOHANG)  # the program may never ask for it again
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy has a thread, which does no harm here
                process = os.fork()
            if not process:
                self._be_worker(connection, output)
        except OSError as error:
            return -(error.errno or 1)
        finally:
            os.close(connection)
            os.close(output)
        with suppress(OSError):
            os.setpgid(process, process)  # the child does too; whoever comes first
        self._running.add(process)
        return process

    def _be_worker(self, connection: int, output: int) -> NoReturn:
        try:
            self._control.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            with suppress(OSError):
                os.setpgid(0, 0)
            if sys.platform == "linux":
                _die_with_parent(self._process)
                with suppress(OSError):
                    Path("/proc/self/oom_score_adj").write_text("1000")
            serve(socket.socket(fileno=connection))
        finally:  # which prints nothing: the program tells that this process ended
            os._exit(1)

    def _poll(self, process: int) -> int:
        self._reap(process, os.WNOHANG)
        return RUNS if process in self._running else self._ended.pop(process, UNKNOWN)

    def _reap(self, process: int, options: int) -> None:
        """Note how a process ended, if it did, and end what it started."""
        if process in self._running:
            found, status = os.waitpid(process, options)
            if found:
                self._running.discard(process)
                self._ended[process] = os.waitstatus_to_exitcode(status)
                with suppress(OSError):
                    os.killpg(process, signal.SIGKILL)

    def _kill(self, process: int) -> int:
        if self._poll(process) == RUNS:
            for end in (os.killpg, os.kill):
                with suppress(OSError):
                    end(process, signal.SIGKILL)
            self._reap(process, 0)
        return self._ended.pop(process, UNKNOWN)


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Serve the socket that is standard input."""
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    ForkServer(control).run()
    os._exit(0)
