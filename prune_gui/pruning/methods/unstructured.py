"""Methods that prune single entries, ranked by a score or at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from prune_gui.pruning.methods.base import (
    Amount,
    Decision,
    Importance,
    Method,
    Of,
    Scope,
    Seed,
    Target,
    count_units,
)

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.keys import KeySource


class _Ranked(Method):
    """Prunes the lowest-ranked entries of each target, or of all targets as one."""

    unit: ClassVar[Literal["entry", "channel"]] = "entry"

    amount: Amount = 0.5
    scope: Scope = "local"
    amount_of: Of = "remaining"

    def _cut(
        self, targets: Sequence[Target], keys: Sequence[KeySource], monitor: Monitor
    ) -> list[Decision]:
        from prune_gui.pruning.predicate import EntryCut
        from prune_gui.pruning.selection import Ranking, find_cuts, work

        everything = range(len(targets))
        groups = [everything] if self.scope == "global" else [[i] for i in everything]
        decisions = []
        with monitor.plan(sum(map(work, keys))):
            for group in groups:
                k = count_units(
                    self.amount,
                    self.amount_of,
                    remaining=sum(targets[i].remaining for i in group),
                    total=sum(math.prod(targets[i].shape) for i in group),
                    of="All targets" if self.scope == "global" else targets[group[0]].name,
                )
                cuts = find_cuts([Ranking(keys[i], targets[i].alive) for i in group], k, monitor)
                decisions += [
                    Decision(EntryCut(keys[i], cut), cut.pruned, _note(cut.non_finite))
                    for i, cut in zip(group, cuts, strict=True)
                ]
        return decisions


class L1Unstructured(_Ranked):
    """Prune the entries of least absolute value (or of least absolute score, if scores are given).

    Of equal scores the lowest flat index goes first, an earlier target before a later one. NaN and
    infinity rank as the largest.
    """

    name: ClassVar[str] = "l1_unstructured"
    title: ClassVar[str] = "L1 unstructured"

    importance: Importance = None

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Cut each target, or all as one, below the k-th smallest absolute score."""
        from prune_gui.pruning.keys import TensorKeys, ranking_dtype

        reads = [target.scores(self.importance) for target in targets]
        dtypes = [read().dtype for read in reads]
        shared = ranking_dtype(set(dtypes))
        keys = [
            TensorKeys(
                read,
                math.prod(target.shape),
                shared if self.scope == "global" else ranking_dtype({dtype}),
            )
            for target, read, dtype in zip(targets, reads, dtypes, strict=True)
        ]
        return self._cut(targets, keys, monitor)


class RandomUnstructured(_Ranked):
    """Prune entries at random, each with the same chance."""

    name: ClassVar[str] = "random_unstructured"
    title: ClassVar[str] = "Random unstructured"

    seed: Seed = 0

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Cut each target, or all as one, below the k-th smallest random key."""
        from prune_gui.pruning.keys import RandomKeys

        keys = [RandomKeys(self.seed, t.name, math.prod(t.shape)) for t in targets]
        return self._cut(targets, keys, monitor)


def _note(non_finite: int) -> str:
    return f"{non_finite:,} NaN or infinite scores rank as the largest" if non_finite else ""
