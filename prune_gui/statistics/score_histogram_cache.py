"""An LRU cache of score histograms."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from prune_gui.pruning.methods import LAMP_KINDS

if TYPE_CHECKING:
    from cachetools import LRUCache

    from prune_gui.checkpoint import Checkpoint
    from prune_gui.monitor import Monitor
    from prune_gui.statistics.score_histogram import ScoreHistogram
    from prune_gui.statistics.scores import Scored

MAX_CACHE_BYTES: Final = 1 << 28
"""256 MiB, which is enough for hundreds of parameters."""


class ScoreHistogramCache:
    """Computes the score histogram of each parameter once; a moved cut reuses it. Thread-safe."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        from cachetools import LRUCache  # not needed to show the window

        self._histograms: LRUCache[Hashable, ScoreHistogram] = LRUCache(
            MAX_CACHE_BYTES, getsizeof=attrgetter("nbytes")
        )
        self._lock = threading.Lock()

    def found(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the histogram of the scores before the last step pruned the lowest ones."""
        from prune_gui.statistics.score_histogram import score_histogram  # slow: numba

        key = (name, scored.keys, scored.layers)
        with self._lock:
            histogram = self._histograms.get(key)
        if histogram is None:
            histogram = score_histogram(self._checkpoint, name, scored.keys, scored.layers, monitor)
            with self._lock, suppress(ValueError):  # it is larger than the cache
                self._histograms[key] = histogram
        if scored.kind not in LAMP_KINDS:
            return histogram
        return histogram.by_lamp(of_weights=scored.kind == "lamp")

    def left(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the histogram of the scores after all steps."""
        before = self.found(name, scored, monitor)
        return before.with_lowest(*scored.lowest) if scored.lowest else before
