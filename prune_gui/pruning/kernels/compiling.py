"""Whether numba compiles a loop at this moment, for messages to the user. numba is not imported."""

from __future__ import annotations

import threading


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
