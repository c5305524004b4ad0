"""Spectra that were counted, for as long as they may be asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prune_gui.audit.statistics.score_histogram import ScoreHistogram
    from prune_gui.audit.statistics.scores import Scored
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.monitor import Monitor

KEPT_AT_MOST: Final = 1 << 28
"""Bytes: hundreds of parameters."""


class ScoreHistogramCache:
    """Counts the scores of each parameter once, whatever becomes of the cut through them.

    Not for use from two threads at once: it belongs to the engine.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._known: OrderedDict[Hashable, ScoreHistogram] = OrderedDict()
        self._bytes = 0

    def found(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the spectrum of what the last step found, before it pruned the lowest.

        Raises:
            Cancelled: the monitor said so.
        """
        from prune_gui.audit.statistics.score_histogram import score_histogram

        question = (name, scored.keys, scored.layers)
        if question not in self._known:
            made = score_histogram(self._checkpoint, name, scored.keys, scored.layers, monitor)
            self._known[question] = made
            self._bytes += made.nbytes
            while self._bytes > KEPT_AT_MOST and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1].nbytes
        self._known.move_to_end(question)
        known = self._known[question]
        return known.by_lamp() if scored.kind == "lamp" else known

    def left(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the spectrum after every step.

        Raises:
            Cancelled: the monitor said so.
        """
        found = self.found(name, scored, monitor)
        return found.with_lowest(*scored.lowest) if scored.lowest else found
