"""The process between this program and an evaluator, which ends all processes of the evaluator.

It is started as a new interpreter. It runs one command and reports its exit code over a socket,
which is its standard input. If the program closes the socket, or ends in any way, the supervisor
kills the command, and removes the folder of the hand-over. When the command has ended, it kills
what is left of its processes. Another guard is between it and the command; see module
`prune_gui.guarding`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn

from prune_gui.guarding import adopt_orphans, guard, kill_descendants

REPORT: Final = struct.Struct("!iq")
"""The report: the exit code of the command, as in `subprocess.Popen.returncode`, and the peak
memory of its largest process in bytes."""
NO_START: Final = 1 << 30
"""Reported if the command cannot be started, plus errno."""


def main() -> NoReturn:
    """Run the command that the last argument describes: argv, folder, passed, remove."""
    request = json.loads(sys.argv[-1])
    control = socket.socket(fileno=os.dup(0))
    passed = [1, 2, *request["passed"]]
    adopt_orphans()
    own_pid = os.getpid()
    inner = os.fork()
    if not inner:
        guard(partial(_execute, request, control), own_pid, passed)
    for descriptor in passed:  # otherwise the program would see no end of the output
        os.close(descriptor)
    exit_code = _wait(inner, control)
    kill_descendants()
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if request["remove"] and select.select([control], [], [], 0)[0]:  # closed: nobody reads it
        shutil.rmtree(request["remove"], ignore_errors=True)
    with suppress(OSError):
        control.sendall(REPORT.pack(exit_code, _peak_memory()))
    os._exit(0)


def _execute(request: dict[str, Any], control: socket.socket) -> None:
    """Become the command; if that fails, send the report."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(request["folder"])
        os.execvp(request["argv"][0], request["argv"])
    except OSError as error:
        control.sendall(REPORT.pack(NO_START + (error.errno or 0), 0))


def _wait(inner: int, control: socket.socket) -> int:
    """Wait until a child process ends, or the program closes the socket; return the exit code."""
    wake_up, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    awaited: list[Any] = [control, wake_up]
    while not (ended := os.waitpid(inner, os.WNOHANG))[0]:
        if control in select.select(awaited, [], [])[0]:
            return -signal.SIGKILL
        os.read(wake_up, 1 << 10)
    return os.waitstatus_to_exitcode(ended[1])


def _peak_memory() -> int:
    """Return the peak memory of the largest process that has ended, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
