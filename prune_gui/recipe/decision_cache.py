"""An LRU cache of step decisions: after an edit, only steps that depend on it are recomputed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final

from cachetools import LRUCache

from prune_gui.pruning.decisions.target import Decision

MAX_CACHED_STEPS: Final = 256
"""A cached step takes a few numbers per target."""


class DecisionCache:
    """An LRU cache of the decisions of steps; a key contains everything that they depend on.

    Thread-safe. Two threads that ask for the same decisions at the same time both compute them.
    """

    def __init__(self) -> None:
        self._decisions: LRUCache[Hashable, list[Decision]] = LRUCache(MAX_CACHED_STEPS)
        self._lock = threading.Lock()

    def get(self, key: Hashable, decide: Callable[[], list[Decision]]) -> list[Decision]:
        """Return the cached decisions for a key, or compute and cache them."""
        with self._lock:
            decisions = self._decisions.get(key)
        if decisions is None:
            decisions = decide()
            with self._lock:
                self._decisions[key] = decisions
        return decisions
