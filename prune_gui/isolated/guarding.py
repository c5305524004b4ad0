"""Guards of processes that run the code of others: with them end all processes that they started.

A guard is a process between this program and such code. On Linux it adopts the descendants whose
parent has ended, so that none escapes by a double fork or a session of its own, and another guard
is above it, in case the code kills it. The code cannot send signals to the guards or the program
(Linux 6.12 or later). Elsewhere, a guard finds only processes whose ancestors still run.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import psutil

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_RESTRICT_SELF: Final = 446
"""Numbers of system calls, equal on all processors."""
LANDLOCK_SCOPE_SIGNAL: Final = 1 << 1
KILL_TIMEOUT_S: Final = 30.0
KILL_INTERVAL_S: Final = 0.001


def adopt_orphans() -> None:
    """Let this process become the parent of descendants whose parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def confine(parent: int) -> None:
    """Prepare this process, a child of the process `parent`, for the code of others.

    It ends with its parent, it and its descendants cannot send signals to any other process, and if
    memory runs out, the system ends it first. Programs that it starts gain no privileges.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    _on_end_of(parent, signal.SIGKILL)
    libc = ctypes.CDLL(None)
    attributes = struct.pack("=QQQ", 0, 0, LANDLOCK_SCOPE_SIGNAL)
    rules = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if rules >= 0:  # an older Linux knows no such scope
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0)
        os.close(rules)


def guard(run: Callable[[], None], above: int, passed: Sequence[int]) -> NoReturn:
    """Run a function in a confined child process, end all that it leaves, and end in its way."""

    def end(*_: object) -> None:
        kill_descendants()
        os._exit(1)

    adopt_orphans()
    signal.signal(signal.SIGTERM, end)
    _on_end_of(above, signal.SIGTERM)
    own_pid = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            confine(own_pid)
            run()
        finally:  # no traceback is printed: the program reports the exit code
            os._exit(1)
    for descriptor in passed:  # otherwise the program would not see that the other closes them
        os.close(descriptor)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    kill_descendants()
    if exit_code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # some signals cannot be handled
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(own_pid, -exit_code)
    os._exit(exit_code)


def kill_descendants(spared: Collection[int] = (), timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Kill all processes that descend from this one, including those that are started meanwhile."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = False
        for pid in _children():
            if pid not in spared:
                found = True
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        if not found:
            return
        time.sleep(KILL_INTERVAL_S)


def _children() -> Iterator[int]:
    """Yield the pids of the child processes; where there are no orphans, of all descendants.

    On Linux, the newest are first, and each is yielded at once, so that no chain of processes of
    which each starts the next and ends can run away.
    """
    if sys.platform != "linux":
        for process in psutil.Process().children(recursive=True):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid
        return
    parent = str(os.getpid()).encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - faster
    for pid in sorted(pids, reverse=True):
        with suppress(OSError):
            status = Path(f"/proc/{pid}/stat").read_bytes()
            if status.rpartition(b")")[2].split()[1] == parent:
                yield pid


def _on_end_of(parent: int, number: signal.Signals) -> None:
    """Let the system send this process a signal when its parent ends, or if it has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), number)
