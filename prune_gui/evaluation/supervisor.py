"""The process between this program and an evaluator, which ends all processes of the evaluator.

It is started as a new interpreter. It runs one command and reports its exit code over a socket,
which is its standard input. If the program closes the socket, or ends in any way, the supervisor
kills the command, and removes the folder of the hand-over. When the command has ended, it kills
what is left of its processes. On Linux it adopts processes whose parent has ended, so that none
escapes by starting a session of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import psutil

REPORT: Final = struct.Struct("!iq")
"""The report: the exit code of the command, as in `subprocess.Popen.returncode`, and the peak
memory of its largest process in bytes."""
NO_START: Final = 1 << 30
"""Reported if the command cannot be started, plus errno."""
PR_SET_CHILD_SUBREAPER: Final = 36
KILL_TIMEOUT_S: Final = 5.0
KILL_INTERVAL_S: Final = 0.02
FAILED: Final = 1


def main() -> NoReturn:
    """Run the command that the last argument describes: argv, folder, passed, remove."""
    request = json.loads(sys.argv[-1])
    control = socket.socket(fileno=os.dup(0))
    wake_up = _wake_up_on_child_exit()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    exit_code = FAILED
    try:
        exit_code = _run(request["argv"], request["folder"], request["passed"], control, wake_up)
    finally:
        _kill_descendants()
        if request["remove"] and select.select([control], [], [], 0)[0]:  # closed: nobody reads it
            shutil.rmtree(request["remove"], ignore_errors=True)
        with suppress(OSError):
            control.sendall(REPORT.pack(exit_code, _peak_memory()))
        os._exit(0)


def _wake_up_on_child_exit() -> int:
    """Return a descriptor that becomes readable when a child process ends."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read_end


def _run(
    argv: Sequence[str], folder: str, passed: Sequence[int], control: socket.socket, wake_up: int
) -> int:
    """Run a command until it ends, or until the program closes the socket; return its exit code."""
    try:
        process = subprocess.Popen(
            argv, cwd=folder, stdin=subprocess.DEVNULL, pass_fds=passed, start_new_session=True
        )
    except OSError as error:
        return NO_START + (error.errno or 0)
    for descriptor in (1, 2, *passed):  # otherwise the program would see no end of the output
        os.close(descriptor)
    if sys.platform == "linux":
        with suppress(OSError):  # if memory runs out, the system should end the evaluator
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    awaited: list[Any] = [control, wake_up]
    while process.poll() is None:
        if control in select.select(awaited, [], [])[0]:
            break
        os.read(wake_up, 1 << 10)
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    return process.wait()


def _peak_memory() -> int:
    """Return the peak memory of the largest process that has ended, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _kill_descendants() -> None:
    """Kill all processes that descend from this one, including those that are started meanwhile."""
    this = psutil.Process()
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (running := _running(this)) and time.monotonic() < deadline:
        for process in running:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(KILL_INTERVAL_S)


def _running(this: psutil.Process) -> list[psutil.Process]:
    """Return the descendants that run, after reaping those that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return this.children(recursive=True)
