"""Make the system calls of a block fail, one at a time.

    with system_calls() as calls:
        save()
    for number in range(len(calls)):
        with system_calls(Fault(number, errno.ENOSPC)):
            save()

Only calls of Python code on the current thread count: those of `os`, `fcntl.flock`, and those of
files from `open`. Calls of compiled libraries do not count.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pytest

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ERRNOS: Final = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)
"""Error numbers of a full, broken, inaccessible or read-only disk."""
KILL: Final = -1
"""Used instead of an error number: the process dies before the call."""
SHORT: Final = -2
"""Used instead of an error number: a write or read transfers half the bytes; others succeed."""

OS_CALLS: Final = (
    "chmod", "close", "copy_file_range", "fchmod", "fchown", "fstat", "fsync", "ftruncate", "link",
    "listdir", "lstat", "mkdir", "open", "pwrite", "read", "remove", "rename", "replace", "rmdir",
    "scandir", "sendfile", "setxattr", "stat", "symlink", "truncate", "unlink", "utime", "write",
)  # fmt: skip


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """Return a function that raises an error, whatever its arguments."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error.with_traceback(None)

    return fail


class Killed(BaseException):
    """The simulated process died; its later file operations have no effect."""


@dataclass(frozen=True)
class Fault:
    """One system call that fails.

    Attributes:
        number: index of the call, from 0.
        kind: an error number, `KILL` or `SHORT`.
    """

    number: int
    kind: int


@contextmanager
def system_calls(fault: Fault | None = None) -> Iterator[list[str]]:
    """Yield the names of the system calls made in the block; `fault` makes one of them fail."""
    counter = _Counter(fault)
    with pytest.MonkeyPatch.context() as patch:
        for name in OS_CALLS:
            if hasattr(os, name):
                patch.setattr(os, name, counter.wrap(name, getattr(os, name)))
        if fcntl is not None:
            patch.setattr(fcntl, "flock", counter.wrap("flock", fcntl.flock))
        counted_open = _counted_open(counter)
        patch.setattr(io, "open", counted_open)
        patch.setattr(builtins, "open", counted_open)
        yield counter.calls


class _Counter:
    def __init__(self, fault: Fault | None) -> None:
        self.calls: list[str] = []
        self._fault = fault
        self._thread = threading.get_ident()
        self._is_dead = False

    def wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            return self.call(name, call, *arguments, **options)

        return counted

    def call(self, name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a system call, or fail as `fault` says."""
        if threading.get_ident() != self._thread:
            return call(*arguments, **options)
        number = len(self.calls)
        self.calls.append(name)
        kind = self._fault.kind if self._fault and self._fault.number == number else 0
        self._is_dead |= kind == KILL
        if name == "close":  # always closes, as the end of a process does
            call(*arguments, **options)
        if self._is_dead:
            raise Killed
        if kind > 0:
            raise OSError(kind, os.strerror(kind), arguments[0] if arguments else None)
        if name == "close":
            return None
        if kind == SHORT and name in ("pwrite", "read", "write"):
            return _transfer_half(name, call, *arguments)
        return call(*arguments, **options)


def _transfer_half(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    if name == "pwrite":
        descriptor, octets, position = arguments
        return call(descriptor, octets[: max(1, len(octets) // 2)], position)
    *before, last = arguments
    if name == "write":
        return call(*before, memoryview(last)[: max(1, len(last) // 2)])
    return call(*before, max(1, last // 2))


def _counted_open(counter: _Counter) -> Callable[..., Any]:
    """Return an `open` whose files count their system calls."""

    class CountedFile(io.FileIO):
        def read(self, size=-1):
            return counter.call("read", super().read, size) if size > 0 else super().read(size)

        def readall(self):
            return counter.call("read", super().readall)

        def readinto(self, buffer):
            def read_at_most(size):
                return io.FileIO.readinto(self, memoryview(buffer)[:size])

            return counter.call("read", read_at_most, len(buffer))

        def write(self, data):
            return counter.call("write", super().write, data)

        def truncate(self, size=None):
            return counter.call("ftruncate", super().truncate, size)

        def close(self):
            if self.closed:
                return
            counter.call("close", super().close)

    def counted_open(
        file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True,
        opener=None,
    ):  # fmt: skip
        is_binary, raw_mode = "b" in mode, mode.replace("b", "").replace("t", "")
        if isinstance(file, int):
            raw = CountedFile(file, raw_mode, closefd, opener)
        else:
            raw = counter.call("open", CountedFile, file, raw_mode, closefd, opener)
        if buffering == 0:
            return raw
        if "+" in mode:
            buffered = io.BufferedRandom(raw)
        elif raw_mode == "r":
            buffered = io.BufferedReader(raw)
        else:
            buffered = io.BufferedWriter(raw)
        return buffered if is_binary else io.TextIOWrapper(buffered, encoding, errors, newline)

    return counted_open
