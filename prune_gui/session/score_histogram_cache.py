"""An LRU cache of score histograms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prune_gui.audit.statistics.score_histogram import ScoreHistogram
    from prune_gui.audit.statistics.scores import Scored
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.monitor import Monitor

MAX_CACHE_BYTES: Final = 1 << 28
"""256 MiB, which is enough for hundreds of parameters."""


class ScoreHistogramCache:
    """Computes the score histogram of each parameter once; a moved cut reuses it.

    Not thread-safe: only the engine's thread may use it.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._histograms: OrderedDict[Hashable, ScoreHistogram] = OrderedDict()
        self._bytes = 0

    def found(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the histogram of the scores before the last step pruned the lowest ones.

        Raises:
            Cancelled: the work should stop.
        """
        from prune_gui.audit.statistics.score_histogram import score_histogram

        key = (name, scored.keys, scored.layers)
        if key not in self._histograms:
            histogram = score_histogram(self._checkpoint, name, scored.keys, scored.layers, monitor)
            self._histograms[key] = histogram
            self._bytes += histogram.nbytes
            while self._bytes > MAX_CACHE_BYTES and len(self._histograms) > 1:
                self._bytes -= self._histograms.popitem(last=False)[1].nbytes
        self._histograms.move_to_end(key)
        cached = self._histograms[key]
        return cached.by_lamp() if scored.kind == "lamp" else cached

    def left(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the histogram of the scores after all steps.

        Raises:
            Cancelled: the work should stop.
        """
        before = self.found(name, scored, monitor)
        return before.with_lowest(*scored.lowest) if scored.lowest else before
