"""The decision of `Erk`."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import (
    count_batched,
    cut_lazily,
    prunable_count,
    rankings_of,
    target_scores,
)
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.layer_adaptive import Erk
from prune_gui.pruning.selection.keys import ScoreKeys


def decide(method: Erk, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Compute the counts from the shapes alone; cuts are computed on first use."""
    keys = [ScoreKeys.of(target_scores(method, target)) for target in targets]
    rankings = rankings_of(targets, keys, method.max_sparsity)
    k = count_batched(targets, method.amount, method.amount_of)
    max_pruned = [prunable_count(*pair) for pair in zip(targets, rankings, strict=True)]
    possible = min(k, sum(max_pruned))
    remaining = [target.remaining for target in targets]
    kept = _proportional_counts(
        # density * size, since the size is the product of the dimensions
        [sum(target.shape) or 1 for target in targets],
        [count - prunable for count, prunable in zip(remaining, max_pruned, strict=True)],
        remaining,
        sum(remaining) - possible,
    )
    decisions = []
    for target, ranking, n_kept in zip(targets, rankings, kept, strict=True):
        monitor.advance()
        pruned = target.remaining - n_kept
        decisions.append(
            cut_lazily(target, ranking, pruned, method.max_sparsity, missing=k - possible)
        )
    return decisions


def _proportional_counts(
    rates: Sequence[int], min_counts: Sequence[int], max_counts: Sequence[int], total: int
) -> list[int]:
    """Return integers in proportion to `rates`, within bounds, that sum to `total`.

    Integer i is ``f * rates[i]`` clamped to ``[min_counts[i], max_counts[i]]`` and rounded; f is
    exact. Rounding is by largest remainder; of equal remainders, the earlier is rounded up.
    """

    def shares(f: Fraction) -> list[Fraction]:
        return [
            min(max(f * rate, Fraction(low)), Fraction(high))
            for rate, low, high in zip(rates, min_counts, max_counts, strict=True)
        ]

    def sum_at(f: Fraction) -> Fraction:
        return sum(shares(f), Fraction())

    # The sum is a linear function of f between two neighbours of these values.
    breakpoints = sorted(
        {Fraction(), *map(Fraction, min_counts, rates), *map(Fraction, max_counts, rates)}
    )
    index = bisect_left(breakpoints, Fraction(total), key=sum_at)
    f = breakpoints[index]
    if excess := sum_at(f) - total:
        before = breakpoints[index - 1]
        f -= (f - before) * excess / (sum_at(f) - sum_at(before))
    exact_shares = shares(f)
    counts = [math.floor(share) for share in exact_shares]
    by_remainder = sorted(range(len(exact_shares)), key=lambda i: counts[i] - exact_shares[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts
