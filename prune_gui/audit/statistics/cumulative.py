"""What a cut would prune, and what it would leave, wherever it is put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.statistics.score_histogram import ScoreHistogram


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The share of entries at or below each score, and the energy of those above it.

    Both are of the entries still there before the step, exact at every score given.

    Attributes:
        scores: float64, ascending, from 0 on; a cut there prunes what lies below it.
        pruned: float64 in [0, 1], the share of entries that lie below.
        energy: float64 in [0, 1], the share of the sum of squared weights that lies at or above.
        remaining: how many entries it is about.
    """

    scores: NDArray[np.float64]
    pruned: NDArray[np.float64]
    energy: NDArray[np.float64]
    remaining: int

    def at(self, score: float) -> tuple[float, float]:
        """Return (share pruned, share of energy kept) by a cut at a score; between two, a line."""
        return (
            float(np.interp(score, self.scores, self.pruned)),
            float(np.interp(score, self.scores, self.energy)),
        )


def cumulative(every: Sequence[ScoreHistogram]) -> Curve:
    """Return the curve of the entries of some parameters together.

    Entries whose scores are NaN or infinite are never below a cut, and have no energy. The energy
    kept is NaN where squares are too large for a double.
    """
    ends = np.concatenate([one.bounds[1:] for one in every])
    order = np.argsort(ends, kind="stable")
    counts = np.concatenate([one.counts[0] for one in every])[order]
    energy = np.concatenate([one.energy for one in every])[order]
    scores, last = np.unique(ends[order][::-1], return_index=True)
    last = len(order) - 1 - last
    remaining = sum(one.remaining for one in every)
    below, lost = np.cumsum(counts)[last], np.cumsum(energy)[last]
    whole = float(lost[-1])
    with np.errstate(invalid="ignore"):  # too much for a double is no share of it
        kept = 1.0 - lost / whole if whole > 0 else np.ones(len(lost))
    return Curve(
        np.append(0.0, scores),
        np.append(0.0, below / max(remaining, 1)),
        np.append(1.0, kept),
        remaining,
    )


def thinned(curve: Curve, near: NDArray[np.float64]) -> Curve:
    """Return the curve at those of its scores alone that are next to some others.

    Args:
        curve: a score for every group that entries lie in, many more than a picture has columns.
        near: ascending; for each, the first score of the curve that is no less is kept.
    """
    some = np.unique(np.minimum(np.searchsorted(curve.scores, near), len(curve.scores) - 1))
    return Curve(curve.scores[some], curve.pruned[some], curve.energy[some], curve.remaining)
