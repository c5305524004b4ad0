"""The supervisor: a process between this program and the code of others, which it starts and ends.

It is a new interpreter, isolated and in the root folder, so that no code in the working folder
runs. It has one thread and no state of the program, so it is safe to fork. Each process that it
starts runs a command, or serves requests with a module that the supervisor has imported before, so
that it starts without delay. When the process ends, the supervisor kills what it has left, and
reports its exit code. It kills all of them if the program closes the connection, or ends in any
way.

An inner guard is between the supervisor and the process, in case the code kills one of them. On
Linux both adopt the descendants whose parent has ended, so that none escapes by a double fork or a
session of its own. The code cannot send signals to the guards or the program (Linux 6.12 or later).
Elsewhere, a guard finds only processes whose ancestors still run.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import psutil

from prune_gui.isolated.messages import NO_START, READY, REPORT, receive

KILL_LIMIT_S: Final = 3.0
"""How long other requests may wait while processes are killed."""


class _Started(NamedTuple):
    """A process that runs: where its end is reported, and a folder to remove if nobody waits."""

    report: socket.socket
    folder: str | None

    def tell(self, exit_code: int) -> None:
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        with suppress(OSError):
            self.report.sendall(REPORT.pack(exit_code, peak << (sys.platform != "darwin") * 10))
        self.report.close()

    def remove_folder(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Supervisor:
    """Starts the processes that the program asks for over a socket, and watches them."""

    def __init__(self, control: socket.socket, module: str) -> None:
        self._control = control
        self._module = module
        self._own_pid = os.getpid()
        self._started: dict[int, _Started] = {}
        self._wake_up, self._write_end = os.pipe()

    def run(self) -> None:
        """Serve until the program closes the socket, or ends."""
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            self._control.sendall(READY)
            while True:
                pids = {started.report: pid for pid, started in self._started.items()}
                awaited: list[Any] = [self._control, self._wake_up, *pids]
                ready, _, _ = select.select(awaited, [], [])
                if self._wake_up in ready:
                    os.read(self._wake_up, 1 << 10)
                self._reap()
                for report in pids.keys() & ready:
                    self._kill(pids[report])
                if self._control in ready:
                    self._start(*receive(self._control))
        except OSError:  # the program has closed the socket, or ended
            return
        finally:
            if os.getpid() == self._own_pid:
                kill_descendants()
                for started in self._started.values():
                    started.remove_folder()

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Start a process; its descriptors from 1 on are those after the first, the report."""
        report, *passed = descriptors
        started = _Started(socket.socket(fileno=report), request["remove"])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy has a thread, which is harmless here
                pid = os.fork()
            if not pid:
                self._become_guard(request, started.report, passed)
        except OSError as error:
            started.tell(NO_START + (error.errno or 0))
        else:
            self._started[pid] = started
        finally:
            for descriptor in passed:
                os.close(descriptor)

    def _become_guard(
        self, request: dict[str, Any], report: socket.socket, passed: list[int]
    ) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for other in self._started.values():
                other.report.close()
            for descriptor in (self._wake_up, self._write_end):
                os.close(descriptor)
            for number, descriptor in enumerate(passed, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            numbers = range(1, 1 + len(passed))
            if request["argv"]:
                run = partial(_execute, request["argv"], request["folder"], report)
            else:
                run = partial(_serve, self._module, report, numbers[-1])
            # The guard keeps the report open: if this process is killed, the program sees it when
            # the guard has killed the rest.
            guard(run, self._own_pid, numbers)
        finally:  # no traceback is printed: the program reports the exit code
            os._exit(1)

    def _reap(self) -> None:
        """Kill what processes that have ended have left, and report their exit codes."""
        ended = []
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] in self._started:
                    exit_code = os.waitstatus_to_exitcode(found[1])
                    ended.append((self._started.pop(found[0]), exit_code))
        if ended:
            kill_descendants(self._started, KILL_LIMIT_S)
        for started, exit_code in ended:
            started.tell(exit_code)

    def _kill(self, pid: int) -> None:
        """Kill a process that the program no longer wants, unless it has just ended."""
        started = self._started.pop(pid, None)
        if started is not None:
            kill_descendants(self._started, KILL_LIMIT_S)
            started.remove_folder()
            started.tell(-signal.SIGKILL)


def _serve(module: str, report: socket.socket, connection: int) -> None:
    report.close()
    import_module(module).serve(socket.socket(fileno=connection))


def _execute(argv: list[str], folder: str, report: socket.socket) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(folder)
        os.execvp(argv[0], argv)
    except OSError as error:
        report.sendall(REPORT.pack(NO_START + (error.errno or 0), 0))


def main() -> NoReturn:
    """Serve the socket that is the standard input; the argument is a module to import, or ""."""
    control = socket.socket(fileno=os.dup(0))
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.close(devnull)
    adopt_orphans()
    module = sys.argv[-1]
    if module:
        import_module(module)
    Supervisor(control, module).run()
    os._exit(0)


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
    """Yield the pids of the children; where there are no orphans, of all descendants.

    On Linux, the newest are first, each at once, so that no chain of processes can run away.
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
