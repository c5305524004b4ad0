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
        self._process = os.getpid()

    def run(self) -> None:
        """Serve until the program closes the socket, or ends."""
        self._control.sendall(READY)
        try:
            while True:
                octets, descriptors, _, _ = socket.recv_fds(
                    self._control, REQUEST.size, 1, socket.MSG_WAITALL
                )
                if not octets:
                    return
                command, process = REQUEST.unpack(octets)
                if command == FORK:
                    reply = self._fork(descriptors[0])
                else:
                    reply = self._poll(process) if command == POLL else self._kill(process)
                self._control.sendall(REPLY.pack(reply))
        except OSError:  # the program is gone
            return
        finally:
            if os.getpid() == self._process:
                for process in list(self._running):
                    self._kill(process)

    def _fork(self, descriptor: int) -> int:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy has a thread, which does no harm here
                process = os.fork()
        except OSError as error:
            return -(error.errno or 1)
        if not process:
            self._be_worker(descriptor)
        os.close(descriptor)
        with suppress(OSError):
            os.setpgid(process, process)  # the child does too; whoever comes first
        self._running.add(process)
        return process

    def _be_worker(self, descriptor: int) -> NoReturn:
        try:
            self._control.close()
            with suppress(OSError):
                os.setpgid(0, 0)
            if sys.platform == "linux":
                _die_with_parent(self._process)
                with suppress(OSError):
                    Path("/proc/self/oom_score_adj").write_text("1000")
            serve(socket.socket(fileno=descriptor))
        finally:  # which prints nothing: the program tells that this process ended
            os._exit(1)

    def _poll(self, process: int, options: int = os.WNOHANG) -> int:
        if process not in self._running:
            return UNKNOWN
        found, status = os.waitpid(process, options)
        if not found:
            return RUNS
        self._running.discard(process)
        with suppress(OSError):
            os.killpg(process, signal.SIGKILL)  # what it started
        return os.waitstatus_to_exitcode(status)

    def _kill(self, process: int) -> int:
        ended = self._poll(process)
        if ended != RUNS:
            return ended
        with suppress(OSError):
            os.killpg(process, signal.SIGKILL)
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
        return self._poll(process, 0)


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
