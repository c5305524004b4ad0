"""The pruned share and the kept energy as functions of the cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.statistics.score_histogram import ScoreHistogram


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The pruned share and the kept energy by score, of the elements remaining before the step.

    Both are exact at every score in `scores`.

    Attributes:
        scores: float64, ascending from 0; a cut at a score prunes the elements below it.
        pruned: float64 in [0, 1], the share of elements below each score.
        energy: float64 in [0, 1], the share of the sum of squared weights at or above each score.
        remaining: number of elements remaining before the step.
    """

    scores: NDArray[np.float64]
    pruned: NDArray[np.float64]
    energy: NDArray[np.float64]
    remaining: int

    def at(self, score: float) -> tuple[float, float]:
        """Return (pruned share, kept energy share) of a cut at a score, interpolated linearly."""
        return (
            float(np.interp(score, self.scores, self.pruned)),
            float(np.interp(score, self.scores, self.energy)),
        )


def cumulative(histograms: Sequence[ScoreHistogram]) -> Curve:
    """Return the curve over the elements of all given parameters.

    Elements with non-finite scores are never below a cut, and have no energy. The kept energy is
    NaN if the sum of squares overflows float64.
    """
    ends = np.concatenate([one.bounds[1:] for one in histograms])
    order = np.argsort(ends, kind="stable")
    counts = np.concatenate([one.counts[0] for one in histograms])[order]
    energy = np.concatenate([one.energy for one in histograms])[order]
    scores, last = np.unique(ends[order][::-1], return_index=True)
    last = len(order) - 1 - last
    remaining = sum(one.remaining for one in histograms)
    below, lost = np.cumsum(counts)[last], np.cumsum(energy)[last]
    total = float(lost[-1])
    with np.errstate(invalid="ignore"):  # infinity / infinity if the sum overflows
        kept = 1.0 - lost / total if total > 0 else np.ones(len(lost))
    return Curve(
        np.append(0.0, scores),
        np.append(0.0, below / max(remaining, 1)),
        np.append(1.0, kept),
        remaining,
    )


def thinned(curve: Curve, near: NDArray[np.float64]) -> Curve:
    """Return the curve at a subset of its scores, for drawing.

    Args:
        curve: a curve with many more scores than a plot has pixel columns.
        near: ascending scores; for each, the first score of the curve that is not below it is kept.
    """
    kept = np.unique(np.minimum(np.searchsorted(curve.scores, near), len(curve.scores) - 1))
    return Curve(curve.scores[kept], curve.pruned[kept], curve.energy[kept], curve.remaining)
