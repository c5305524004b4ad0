"""The fork server: a process with torch loaded that forks one process per plug-in without delay.

It has one thread, no window and no state of the program, so it is safe to fork, unlike the program
itself. The program starts it as a new interpreter, isolated and in the root folder, so that no code
in the working folder runs. It ends with the program. It forks a guard for each process, and guards
these in turn; see module `prune_gui.guarding`.
"""

from __future__ import annotations

import os
import signal
import socket
import warnings
from contextlib import suppress
from typing import Final, NoReturn

from prune_gui.guarding import adopt_orphans, guard, kill_descendants
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

REPLY_LIMIT_S: Final = 3.0
"""How long the program may wait while processes are killed."""


class ForkServer:
    """Executes the commands that the program sends over a socket."""

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
                kill_descendants()

    def _fork(self, connection: int, output: int) -> int:
        self._reap()  # the program may never poll those that have ended
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
        self._running_pids.add(pid)
        return pid

    def _run_worker(self, connection: int, output: int) -> NoReturn:
        try:
            self._control.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            guard(lambda: serve(socket.socket(fileno=connection)), self._own_pid, [connection])
        finally:  # no traceback is printed: the program reports the exit code
            os._exit(1)

    def _poll(self, pid: int) -> int:
        self._reap()
        return RUNS if pid in self._running_pids else self._exit_codes.pop(pid, UNKNOWN)

    def _reap(self) -> None:
        """Record the exit codes of guards that have ended, and kill what they have left."""
        ended = False
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] in self._running_pids:
                    self._running_pids.discard(found[0])
                    self._exit_codes[found[0]] = os.waitstatus_to_exitcode(found[1])
                    ended = True
        if ended:
            kill_descendants(self._running_pids, REPLY_LIMIT_S)

    def _kill(self, pid: int) -> int:
        exit_code = self._poll(pid)
        if exit_code == RUNS:
            exit_code = -signal.SIGKILL
            self._running_pids.discard(pid)
            kill_descendants(self._running_pids, REPLY_LIMIT_S)
            self._reap()
        return exit_code


def main() -> None:
    """Serve the socket that is passed as standard input."""
    control = socket.socket(fileno=os.dup(0))
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.close(devnull)
    adopt_orphans()
    ForkServer(control).run()
    os._exit(0)
