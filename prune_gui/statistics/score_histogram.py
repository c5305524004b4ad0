"""Fine histograms of scores, from which other statistics follow without reading weights again.

Elements are counted by the leading bits of their keys, which order as the scores do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import LAMP_KINDS
from prune_gui.pruning.selection.histogram_cache import LRUCache
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.recipe import stack
from prune_gui.recipe.recipe import KEPT
from prune_gui.recipe.stack import AppliedStep
from prune_gui.statistics import weight_values
from prune_gui.statistics.dispatch import map_chunks
from prune_gui.statistics.element_scores import Scored
from prune_gui.statistics.kernels import CodeIndex, count_groups

FINE_BITS: Final = 19
"""Leading bits of a key that define a group. Of a float32 they include 11 mantissa bits, so that a
group is 0.05 % wide. In dtypes of at most 16 bits each number is its own group."""

MAX_FLOAT64: Final = float(np.finfo(np.float64).max)
MAX_CACHE_BYTES: Final = 1 << 28
"""256 MiB, which is enough for hundreds of parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """The histogram of the scores of one parameter. The arrays are read-only.

    Attributes:
        bounds: float64 (groups + 1), ascending: group i has the scores in [``bounds[i]``,
            ``bounds[i + 1]``), and the first also those that differ from zero only in the ignored
            bits.
        codes: of each row of `counts`, int64 (codes, groups): 0 for remaining, then steps.
        energy: float64 (groups,), sum of the squared remaining weights.
        non_finite: int64 (codes,), number of elements with non-finite scores; they are in no group.
        weights: of LAMP scores, (groups + 1), the numbers from which the bounds are computed.
    """

    bounds: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    energy: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    @property
    def nbytes(self) -> int:
        return self.bounds.nbytes + self.counts.nbytes + self.energy.nbytes

    @property
    def remaining(self) -> int:
        """The number of remaining elements, with those of non-finite scores."""
        return int(self.counts[0].sum() + self.non_finite[0])

    def up_to(self, score: float) -> int:
        """Return the number of remaining elements in groups with upper bounds up to `score`."""
        return int(self.counts[0, : np.searchsorted(self.bounds[1:], score, side="right")].sum())

    def with_lowest(self, step: int, k: int) -> ScoreHistogram:
        """Return the histogram after a step pruned the `k` lowest remaining elements.

        The energy is unchanged: it is that of the elements remaining before the step.
        """
        table = np.column_stack([self.counts, self.non_finite])  # non-finite scores rank highest
        rows = dict(zip(self.codes, table, strict=True))
        remaining = rows[KEPT]
        pruned = np.clip(k - (np.cumsum(remaining) - remaining), 0, remaining)
        rows |= {KEPT: remaining - pruned, step: rows.get(step, 0) + pruned}
        codes = tuple(sorted(rows))
        table = np.stack([rows[code] for code in codes])
        return replace(self, codes=codes, counts=table[:, :-1], non_finite=table[:, -1])

    def by_lamp(self, *, of_weights: bool) -> ScoreHistogram:
        """Return the histogram of LAMP scores.

        The LAMP score w^2 / (sum of v^2 over the remaining v with |v| >= |w|) grows with |w|, so
        that the groups have the same elements and other bounds.
        """
        with np.errstate(over="ignore"):  # the square of a large bound overflows
            squares = np.square(self.bounds)
            middles = np.square(self.bounds[:-1] / 2 + self.bounds[1:] / 2)
            of_scores = self.counts[0] * np.minimum(middles, MAX_FLOAT64)
        energy = self.energy if of_weights else of_scores
        above = np.append(np.cumsum(energy[::-1])[::-1], 0.0)
        scores = np.divide(squares, above, out=np.sign(self.bounds), where=above > squares)
        return replace(self, bounds=np.maximum.accumulate(scores), weights=self.bounds)

    def score_at(self, weight: float) -> float:
        """Return the score of an absolute weight, or of what LAMP scores are computed from."""
        return (
            weight if self.weights is None else float(np.interp(weight, self.weights, self.bounds))
        )


def score_histogram(
    checkpoint: Checkpoint,
    name: str,
    keys: KeySource,
    applied_steps: Sequence[AppliedStep],
    monitor: Monitor,
) -> ScoreHistogram:
    """Count the elements of a parameter by score, and by the step that pruned them."""
    codes, slots = CodeIndex.of(applied_steps)
    shift = max(0, keys.magnitude.bit_length() - FINE_BITS)
    groups = (keys.magnitude >> shift) + 1
    read = weight_values.reader(checkpoint, name)

    def count(start: int, stop: int) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        counts, energy = np.zeros((len(codes), groups), np.uint32), np.zeros(groups)
        bits, pruned_by = keys.bits(start, stop), stack.pruned_by(applied_steps, start, stop)
        as_key, weights = bits.dtype.type, read(start, stop)
        limits = as_key(keys.magnitude), as_key(shift)
        count_groups(bits, *limits, pruned_by, slots, weights, counts, energy)
        return counts, energy

    counts, energy = np.zeros((len(codes), groups), np.int64), np.zeros(groups)
    for more, more_energy in map_chunks(count, keys.size, monitor):
        counts += more
        energy += more_energy
    end = groups if keys.first_non_finite is None else keys.first_non_finite >> shift
    # Groups below the lowest score and above the highest are empty. The second group represents
    # all of those between zero and the lowest positive score.
    occur = np.flatnonzero(counts[:, 1:end].any(0)) + 1
    first, last = (int(occur[0]), int(occur[-1])) if occur.size else (1, 1)
    kept = np.unique(np.r_[0, 1, first : last + 1])
    bounds = _values(keys, np.append(kept, last + 1) << shift)
    arrays = bounds, counts[:, kept], energy[kept], counts[:, end:].sum(1)
    for array in arrays:
        array.flags.writeable = False
    return ScoreHistogram(bounds, codes, *arrays[1:])


def _values(keys: KeySource, selected: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the scores of keys; `MAX_FLOAT64` for keys beyond the finite range."""
    if not isinstance(keys, ScoreKeys):
        return selected / (keys.magnitude + 1)
    scores = weight_values.of_bits(selected.astype(f"u{keys.width}"), keys.dtype).astype(np.float64)
    return np.nan_to_num(scores, nan=MAX_FLOAT64, posinf=MAX_FLOAT64)


def common_edges(every: Sequence[ScoreHistogram], bins: int, *, log: bool) -> NDArray[np.float64]:
    """Return edges of about `bins` bins, at bounds of groups, so that counts in bins are exact.

    Bounds of LAMP scores differ between parameters: elements close to an edge may be counted in the
    bin next to their own.
    """
    bounds = np.unique(np.concatenate([one.bounds for one in every]))
    occur = np.concatenate([one.bounds[1:-1][one.counts[:, 1:].any(0)] for one in every])
    occur = occur[occur > 0]  # a LAMP score may underflow to zero
    if not occur.size:  # all scores are zero
        return np.array([0.1 if log else 0.0, 1.0])
    low, high = float(occur.min()), float(bounds[-1])
    if log and low == high:  # a single weight: its LAMP score is 1, the maximum
        return np.array([high / 10, high])
    with np.errstate(over="ignore"):  # the last edge may overflow; no score exceeds MAX_FLOAT64
        if log:
            wanted = np.exp(np.linspace(np.log(low), np.log(high), bins + 1))
            wanted[0] = low  # rounding may have moved it past this bound
        else:
            wanted = np.linspace(0.0, high, bins + 1)
    return np.unique(bounds[np.minimum(np.searchsorted(bounds, wanted), len(bounds) - 1)])


def binned(found: ScoreHistogram, edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return int64 (codes, bins), the number of elements in each bin."""
    bins = np.searchsorted(edges, found.bounds[:-1], side="right")
    bins = np.minimum(bins, len(edges) - 1)
    return np.stack(
        [np.bincount(bins, row, minlength=len(edges))[1:].astype(np.int64) for row in found.counts]
    )


class ScoreHistogramCache:
    """Computes the score histogram of each parameter once; a moved cut reuses it. Thread-safe."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._histograms: LRUCache[ScoreHistogram] = LRUCache(MAX_CACHE_BYTES)

    def found(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        """Return the histogram of the scores before the last step pruned the lowest ones."""
        key = (name, scored.keys, scored.layers)
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = score_histogram(self._checkpoint, name, scored.keys, scored.layers, monitor)
            self._histograms.put(key, histogram)
        if scored.kind not in LAMP_KINDS:
            return histogram
        return histogram.by_lamp(of_weights=scored.kind == "lamp")

    def left(self, name: str, scored: Scored, monitor: Monitor) -> ScoreHistogram:
        before = self.found(name, scored, monitor)
        return before.with_lowest(*scored.lowest) if scored.lowest else before


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The pruned share and the kept energy by score, of the elements remaining before the step.

    Both are exact at every score in `scores`, ascending from 0: `pruned` is the share of elements
    below, `energy` the share of the sum of squared weights at or above.
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
    """Return the curve at the first score that is not below each of ascending ones, for drawing."""
    kept = np.unique(np.minimum(np.searchsorted(curve.scores, near), len(curve.scores) - 1))
    return Curve(curve.scores[kept], curve.pruned[kept], curve.energy[kept], curve.remaining)
