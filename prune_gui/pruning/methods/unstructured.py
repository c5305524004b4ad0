"""Methods that prune single elements, ranked by a score or at random."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import (
    Amount,
    Decision,
    MaxSparsity,
    Method,
    Of,
    ScoredMethod,
    Seed,
    Target,
    all_targets,
    cap_note,
    count_units,
    max_prunable,
)

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.amount import AmountOf
    from prune_gui.pruning.lazy import Lazy
    from prune_gui.pruning.selection.keys import KeySource
    from prune_gui.pruning.selection.radix_select import Cut, Ranking


class RankedMethod(Method):
    """Prunes the lowest-ranked elements per row, per target, or of all targets together."""

    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    amount: Amount = 0.5
    scope: Annotated[
        Literal["local", "global", "row"],
        Field(
            description=deferred(
                "local: each parameter by itself; global: all targets as one; row: each output row "
                "by itself."
            )
        ),
    ] = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @abstractmethod
    def _keys(self, targets: Sequence[Target]) -> list[KeySource]:
        """Return the keys that rank the elements of each target; for scope global, of one width."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Cut each row, each target, or all targets together after the k-th smallest key."""
        from prune_gui.pruning.selection.batched import find_cuts_batched

        rankings = rankings_of(targets, self._keys(targets), self.max_sparsity)
        if self.scope == "global":
            k = count_batched(targets, self.amount, self.amount_of)
            return cut_batched(targets, rankings, k, self.max_sparsity, find_cuts_batched, monitor)
        cut = self._cut_rows if self.scope == "row" else self._cut_one
        decisions = []
        for target, ranking in zip(targets, rankings, strict=True):
            monitor.advance()
            decisions.append(cut(target, ranking))
        return decisions

    def _cut_one(self, target: Target, ranking: Ranking) -> Decision:
        """Compute the count from the shape alone; the cut is computed on first use."""
        k = count_units(
            self.amount,
            self.amount_of,
            remaining=target.remaining,
            total=target.size,
            of=lambda: target.name,
        )
        possible = min(k, prunable_count(target, ranking))
        return cut_lazily(target, ranking, possible, self.max_sparsity, missing=k - possible)

    def _cut_rows(self, target: Target, ranking: Ranking) -> Decision:
        import numpy as np

        from prune_gui.pruning.lazy import Lazy
        from prune_gui.pruning.predicates import RowCut, count_per_channel
        from prune_gui.pruning.selection.rows import find_row_cuts

        rows = target.shape[0] if len(target.shape) > 1 else 1
        columns = target.size // rows
        if target.remaining_mask is None:
            row_remaining = np.full(rows, columns)
        else:
            row_remaining = count_per_channel((rows, columns), 0, target.remaining_mask)
        requested, units = 0, row_remaining.copy()
        for remaining in np.unique(row_remaining):
            k = count_units(
                self.amount,
                self.amount_of,
                remaining=int(remaining),
                total=columns,
                of=lambda: tr("A row of {name}", name=target.name),
            )
            max_pruned = max_prunable(self.max_sparsity, remaining=int(remaining), total=columns)
            equal_rows = row_remaining == remaining
            units[equal_rows] = min(k, max_pruned)
            requested += k * int(equal_rows.sum())
        possible = int(units.sum())
        missing = requested - possible
        cuts = Lazy(partial(find_row_cuts, ranking, units))
        note = cap_note(self.max_sparsity, missing) if missing else ""
        return Decision(RowCut(ranking, columns, cuts), possible, note)


class OverallMethod(Method):
    """Prunes an exact number of elements of all targets together."""

    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    amount: Amount = 0.5
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0


class L1Unstructured(ScoredMethod, RankedMethod):
    """Prune the entries of least absolute value (or of least absolute score, if scores are given).

    Of equal scores the lowest flat index goes first, an earlier target before a later one.
    Infinity ranks above every finite score, and NaN above infinity.
    """

    name: ClassVar[str] = "l1_unstructured"
    title: ClassVar[str] = deferred("L1 unstructured")

    def _keys(self, targets: Sequence[Target]) -> list[KeySource]:
        from prune_gui.pruning.selection.keys import ScoreKeys, ranking_dtype

        scores = [self.scores(target) for target in targets]
        shared_dtype = ranking_dtype({own.dtype for own in scores})
        is_global = self.scope == "global"
        return [ScoreKeys(own, shared_dtype) if is_global else ScoreKeys.of(own) for own in scores]


class RandomUnstructured(RankedMethod):
    """Prune entries at random, each with the same chance."""

    name: ClassVar[str] = "random_unstructured"
    title: ClassVar[str] = deferred("Random unstructured")

    seed: Seed = 0

    def _keys(self, targets: Sequence[Target]) -> list[KeySource]:
        from prune_gui.pruning.selection.keys import RandomKeys

        return [RandomKeys(self.seed, target.name, target.size) for target in targets]


def rankings_of(
    targets: Sequence[Target], keys: Sequence[KeySource], max_sparsity: float
) -> list[Ranking]:
    """Return a ranking per target, with its limit under `max_sparsity`."""
    from prune_gui.pruning.selection.radix_select import Ranking

    return [
        Ranking(
            key,
            target.remaining_mask,
            _max_pruned(target, max_sparsity),
            target.histogram_cache,
        )
        for target, key in zip(targets, keys, strict=True)
    ]


def _max_pruned(target: Target, max_sparsity: float) -> int | None:
    if max_sparsity == 1.0:
        return None
    return max_prunable(max_sparsity, remaining=target.remaining, total=target.size)


def prunable_count(target: Target, ranking: Ranking) -> int:
    """Return how many elements of a target may be pruned."""
    return target.remaining if ranking.max_pruned is None else ranking.max_pruned


def count_batched(targets: Sequence[Target], amount: int | float, amount_of: AmountOf) -> int:
    """Return the number of elements to prune of all targets together.

    Raises:
        RecipeError: fewer elements remain.
    """
    return count_units(
        amount,
        amount_of,
        remaining=sum(target.remaining for target in targets),
        total=sum(target.size for target in targets),
        of=all_targets,
    )


def cut_batched(
    targets: Sequence[Target],
    rankings: Sequence[Ranking],
    k: int,
    max_sparsity: float,
    find: Callable[[Sequence[Ranking], int, Monitor], list[Cut]],
    monitor: Monitor,
) -> list[Decision]:
    """Prune `k` elements of all targets, or as many as possible; `find` computes the cuts."""
    from prune_gui.pruning.lazy import Lazy

    possible = min(k, sum(map(prunable_count, targets, rankings)))
    cuts = find(rankings, possible, monitor)
    return [
        _decision(target, ranking, Lazy.of_value(cut), cut.pruned, max_sparsity, k - possible)
        for target, ranking, cut in zip(targets, rankings, cuts, strict=True)
    ]


def cut_lazily(
    target: Target, ranking: Ranking, k: int, max_sparsity: float, *, missing: int
) -> Decision:
    """Prune the `k` lowest-ranked elements of a target; the cut is computed on first use.

    Args:
        target: a parameter with at least `k` prunable elements.
        ranking: ranking of the target.
        k: number of elements to prune.
        max_sparsity: the limit, for the note.
        missing: number of elements by which the step falls short, for the note.
    """
    from prune_gui.pruning.lazy import Lazy

    cut = Lazy(partial(_find_cut, ranking, k))
    return _decision(target, ranking, cut, k, max_sparsity, missing)


def _decision(
    target: Target,
    ranking: Ranking,
    cut: Lazy[Cut],
    pruned: int,
    max_sparsity: float,
    missing: int,
) -> Decision:
    from prune_gui.pruning.predicates import ElementCut

    reached = max_sparsity < 1.0 and pruned == ranking.max_pruned and target.remaining
    return Decision(
        ElementCut(ranking, cut), pruned, cap_note(max_sparsity, missing) if reached else ""
    )


def _find_cut(ranking: Ranking, k: int) -> Cut:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.selection.radix_select import find_cuts

    [cut] = find_cuts([ranking], k, Monitor())
    return cut
