"""Layers as dense as their shapes say: the Erdos-Renyi-Kernel distribution."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from prune_gui.language import later
from prune_gui.pruning.methods.base import Decision, ScoredMethod, Target
from prune_gui.pruning.methods.unstructured import (
    OverallMethod,
    count_batched,
    cut_alone,
    prunable_count,
    rank,
)

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor


class Erk(ScoredMethod, OverallMethod):
    """Prune the entries of least absolute value of each target, more of them the larger it is.

    The density of a target is f * (sum of dimensions) / (product of dimensions), at most what is
    left of it, with one f for all, so that the step prunes exactly the amount asked of all targets
    together: Evci et al., "Rigging the Lottery: Making All Tickets Winners", 2020, after Mocanu et
    al., 2018. Numbers of entries are rounded by largest remainder. A target of one dimension has
    ratio 1 and stays dense in all but extreme steps. Equal values go lowest index first;
    infinity ranks above every finite one, and NaN above infinity.
    """

    name: ClassVar[str] = "erk"
    title: ClassVar[str] = later("ERK")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide by arithmetic alone; cuts are found when somebody looks at them."""
        from prune_gui.pruning.selection.keys import ScoreKeys

        keys = [ScoreKeys.of(self.scores(target)) for target in targets]
        rankings = rank(targets, keys, self.max_sparsity)
        k = count_batched(targets, self.amount, self.amount_of)
        most = [prunable_count(*pair) for pair in zip(targets, rankings, strict=True)]
        possible = min(k, sum(most))
        remaining = [target.remaining for target in targets]
        kept = _in_proportion(
            # density * size: the product of the dimensions is the size
            [sum(target.shape) or 1 for target in targets],
            [left - some for left, some in zip(remaining, most, strict=True)],
            remaining,
            sum(remaining) - possible,
        )
        decisions = []
        for target, ranking, stay in zip(targets, rankings, kept, strict=True):
            monitor.advance()
            pruned = target.remaining - stay
            decisions.append(
                cut_alone(target, ranking, pruned, self.max_sparsity, missing=k - possible)
            )
        return decisions


def _in_proportion(
    rates: Sequence[int], least: Sequence[int], most: Sequence[int], total: int
) -> list[int]:
    """Return whole numbers of a given total that are to each other as their rates, within bounds.

    Number i is ``f * rates[i]``, moved to the nearer of its bounds if beyond; f is exact. Rounding
    is by largest remainder, of equal ones the earlier up.
    """

    def shares(f: Fraction) -> list[Fraction]:
        return [
            min(max(f * rate, Fraction(low)), Fraction(high))
            for rate, low, high in zip(rates, least, most, strict=True)
        ]

    def reached(f: Fraction) -> Fraction:
        return sum(shares(f), Fraction())

    # Between two neighbours of these values of f, the total grows by a straight line.
    ends = sorted({Fraction(), *map(Fraction, least, rates), *map(Fraction, most, rates)})
    place = bisect_left(ends, Fraction(total), key=reached)
    f = ends[place]
    if over := reached(f) - total:
        before = ends[place - 1]
        f -= (f - before) * over / (reached(f) - reached(before))
    exact = shares(f)
    counts = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts
