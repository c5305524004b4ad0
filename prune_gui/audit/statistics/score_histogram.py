"""How many entries score how much, so finely that other figures follow without another pass.

Entries are counted by the leading bits of their keys, which order as the scores do. A cut that
moves, a histogram with other bins, a cumulative curve: each is arithmetic on these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.statistics import values
from prune_gui.audit.statistics.score_histogram_kernels import count_groups
from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.recipe import stack
from prune_gui.recipe.pruned_by_codes import KEPT
from prune_gui.recipe.stack import AppliedStep

FINE_BITS: Final = 19
"""Of a key; a float32 keeps 11 of its mantissa, so that groups are 0.05 % wide. Types of 16 bits
and less keep all: each number is a group of its own."""

LARGEST: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """The entries of one parameter by score. The arrays are read-only.

    Attributes:
        bounds: float64 (groups + 1), ascending: group i holds the scores from ``bounds[i]`` up to
            ``bounds[i + 1]``, and not that itself. The first group holds zeros, and what is
            so small that only its last bits tell it from zero.
        codes: what each row of `counts` is about: 0, still there, then steps that pruned.
        counts: int64 (codes, groups).
        energy: float64 (groups,), the sum of the squared weights of those still there.
        odd: int64 (codes,), entries whose scores are NaN or infinite; they lie in no group.
    """

    bounds: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    energy: NDArray[np.float64]
    odd: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.bounds.nbytes + self.counts.nbytes + self.energy.nbytes

    @property
    def remaining(self) -> int:
        """Entries still there, those of odd scores included."""
        return int(self.counts[0].sum() + self.odd[0])

    def up_to(self, score: float) -> int:
        """Return how many entries still there are in groups that end at this score or before."""
        return int(self.counts[0, : np.searchsorted(self.bounds[1:], score, side="right")].sum())

    def with_lowest(self, step: int, k: int) -> ScoreHistogram:
        """Return the spectrum after a step pruned the `k` lowest of the entries still there.

        The energy stays that of all that the step found.
        """
        there = self.counts[0]
        gone = np.clip(k - (np.cumsum(there) - there), 0, there)
        odd = min(max(0, k - int(there.sum())), int(self.odd[0]))
        rows = dict(zip(self.codes, self.counts, strict=True))
        odds = dict(zip(self.codes, self.odd.tolist(), strict=True))
        rows |= {KEPT: there - gone, step: rows.get(step, 0) + gone}
        odds |= {KEPT: odds[KEPT] - odd, step: odds.get(step, 0) + odd}
        codes = tuple(sorted(rows))
        return replace(
            self,
            codes=codes,
            counts=np.stack([rows[code] for code in codes]),
            odd=np.array([odds[code] for code in codes]),
        )

    def by_lamp(self) -> LampScoreHistogram:
        """Return the spectrum of the LAMP scores of entries that are ranked by their weights.

        A score is w^2 / (sum of v^2 over the entries v still there with |v| >= |w|), and grows with
        |w|; so groups stay what they are, and their bounds move.
        """
        above = np.append(np.cumsum(self.energy[::-1])[::-1], 0.0)
        with np.errstate(over="ignore"):  # of what is larger than any square
            squares = np.square(self.bounds)
        scores = np.divide(squares, above, out=np.sign(self.bounds), where=above > squares)
        return LampScoreHistogram(
            np.maximum.accumulate(scores),
            self.codes,
            self.counts,
            self.energy,
            self.odd,
            self.bounds,
        )

    def score_at(self, weight: float) -> float:
        """Return the score of an absolute weight, if that is what entries are ranked by."""
        return weight


@dataclass(frozen=True, slots=True, eq=False)
class LampScoreHistogram(ScoreHistogram):
    """The entries of one parameter by LAMP score.

    Attributes:
        weights: float64 (groups + 1), the absolute weights at the bounds.
    """

    weights: NDArray[np.float64]

    def score_at(self, weight: float) -> float:
        """Return the score of an absolute weight, to the width of a group."""
        return float(np.interp(weight, self.weights, self.bounds))


def score_histogram(
    checkpoint: Checkpoint,
    name: str,
    keys: KeySource,
    layers: Sequence[AppliedStep],
    monitor: Monitor,
) -> ScoreHistogram:
    """Count the entries of a parameter by score, and by the step that pruned them.

    Args:
        checkpoint: has the weights, whose squares make the energy.
        name: of the parameter.
        keys: of the scores; one per entry.
        layers: what pruned entries.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    codes = (KEPT, *sorted({layer.step for layer in layers}))
    slots = np.zeros(256, np.uint8)
    slots[list(codes)] = np.arange(len(codes))
    shift = max(0, keys.magnitude.bit_length() - FINE_BITS)
    groups = (keys.magnitude >> shift) + 1
    read = values.reader(checkpoint, name)

    def look(span: tuple[int, int]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        monitor.advance(span[1] - span[0])
        counts, energy = np.zeros((len(codes), groups), np.uint32), np.zeros(groups)
        bits = keys.bits(*span)
        key = bits.dtype.type
        count_groups(
            bits,
            key(keys.magnitude),
            key(shift),
            stack.pruned_by(layers, *span),
            slots,
            read(*span),
            counts,
            energy,
        )
        return counts, energy

    monitor.expect(keys.size)
    counts, energy = np.zeros((len(codes), groups), np.int64), np.zeros(groups)
    for more, more_energy in run(look, chunks(keys.size)):
        counts += more
        energy += more_energy
    return _trimmed(keys, shift, codes, counts, energy)


def _trimmed(
    keys: KeySource,
    shift: int,
    codes: tuple[int, ...],
    counts: NDArray[np.int64],
    energy: NDArray[np.float64],
) -> ScoreHistogram:
    """Leave out the groups below the least score above zero, and those above the greatest."""
    end = len(energy)
    if keys.first_non_finite is not None:
        end = keys.first_non_finite >> shift
    odd = counts[:, end:].sum(1)
    occur = np.flatnonzero(counts[:, 1:end].any(0)) + 1
    first, last = (int(occur[0]), int(occur[-1])) if occur.size else (1, 1)
    # The second group stands for all between zero and the least: nothing occurs in those.
    kept = np.unique(np.r_[0, 1, first : last + 1])
    bounds = _values(keys, np.append(kept, last + 1) << shift)
    made = ScoreHistogram(bounds, codes, counts[:, kept], energy[kept], odd)
    for array in (made.bounds, made.counts, made.energy, made.odd):
        array.flags.writeable = False
    return made


def _values(keys: KeySource, some: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the numbers that some keys stand for; the greatest there is for those beyond."""
    if not isinstance(keys, ScoreKeys):
        return some / (keys.magnitude + 1)
    found = values.of_bits(some.astype(f"u{keys.width}"), keys.dtype).astype(np.float64)
    return np.nan_to_num(found, nan=LARGEST, posinf=LARGEST)


def common_edges(every: Sequence[ScoreHistogram], bins: int, *, log: bool) -> NDArray[np.float64]:
    """Return edges of about so many bins, at bounds of groups, so that counts in bins are exact.

    Of LAMP scores the bounds of one parameter are not those of another: then an entry may be
    counted in the bin beside its own if it lies within a group's width of the edge between.

    Args:
        every: of the same kind of score.
        bins: how many, about: where groups are wider than that there are fewer.
        log: whether bins are of equal ratio, from the least score above zero, or of equal width,
            from zero.
    """
    bounds = np.unique(np.concatenate([one.bounds for one in every]))
    occur = np.concatenate([one.bounds[1:-1][one.counts[:, 1:].any(0)] for one in every])
    occur = occur[occur > 0]  # a LAMP score may be too small for a double
    if not occur.size:  # nothing but zeros
        return np.array([0.1 if log else 0.0, 1.0])
    low, high = float(occur.min()), float(bounds[-1])
    if log and low == high:  # the one LAMP score of a single weight: 1, which nothing is above
        return np.array([high / 10, high])
    with np.errstate(over="ignore"):  # the largest may; no score is larger than the largest double
        if log:
            wanted = np.exp(np.linspace(np.log(low), np.log(high), bins + 1))
            wanted[0] = low  # and not the next bound, to which rounding may have brought it
        else:
            wanted = np.linspace(0.0, high, bins + 1)
    return np.unique(bounds[np.minimum(np.searchsorted(bounds, wanted), len(bounds) - 1)])


def binned(found: ScoreHistogram, edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many entries lie in each bin.

    Args:
        found: no score in it is above the last edge.
        edges: from `common_edges`; entries below the first are left out.

    Returns:
        int64 (codes, bins).
    """
    places = np.searchsorted(edges, found.bounds[:-1], side="right")
    places = np.minimum(places, len(edges) - 1)
    return np.stack(
        [
            np.bincount(places, row, minlength=len(edges))[1:].astype(np.int64)
            for row in found.counts
        ]
    )
