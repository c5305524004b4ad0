"""What numba compiles at this moment, and whether it may. numba is not imported."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CompilationCounter:
    """Counts the compilations that run. Thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    def add(self, change: int) -> None:
        """Add 1 when a compilation starts, -1 when it ends."""
        with self._lock:
            self._count += change

    def __bool__(self) -> bool:
        """Return whether a compilation runs."""
        return self._count > 0


COMPILATIONS = CompilationCounter()
"""The compilations of this process. Loading compiled loops from the cache does not count."""


class NotCompiledError(Exception):
    """The cache has no compiled code of a loop for some types."""


class _ThreadState(threading.local):
    """Whether the thread only loads compiled code."""

    only_loads = False


_thread = _ThreadState()


def only_loads() -> bool:
    """Return whether this thread is in a block of `only_from_cache`."""
    return _thread.only_loads


@contextmanager
def only_from_cache() -> Iterator[None]:
    """Load the compiled code of loops that are called in the block, and compile none.

    Raises:
        NotCompiledError: (the call of a loop) the cache does not have it. Without a cache, loops
            are compiled nevertheless.
    """
    _thread.only_loads = True
    try:
        yield
    finally:
        _thread.only_loads = False
