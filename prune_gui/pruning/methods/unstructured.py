"""Methods that prune single elements, ranked by a score or at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, selection
from prune_gui.pruning.methods.base import AllocatedMethod, Method, ScoredMethod, ScoreKind
from prune_gui.pruning.methods.fields import Amount, MaxSparsity, Of, RankingScope, RowScope, Seed

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target


class RankedMethod(AllocatedMethod):
    """Prunes the lowest-ranked elements per row, per target, or of all targets together."""

    scope: RowScope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0


class OverallMethod(Method):
    """Prunes an exact number of elements of all targets together."""

    amount: Amount = 0.5
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    ranking_scope: ClassVar[RankingScope] = "global"


class L1UnstructuredMethod(ScoredMethod, RankedMethod):
    """Prune the weights with the smallest absolute value or score.

    Of equal scores the lowest flat index goes first, an earlier target before a later one.
    Infinity ranks above every finite score, and NaN above infinity.
    """

    name = "l1_unstructured"
    title = deferred("L1 unstructured")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        scores = [decisions.target_scores(self, target) for target in targets]
        return decisions.decide_scored(self, targets, scores, monitor)

    def torch_lines(self, names: str) -> list[str]:
        in_torch = self.ranks_weights and self.amount_of == "remaining" and self.max_sparsity == 1.0
        if not in_torch or self.scope == "row":
            return []
        if self.scope == "local":
            return [f"for name in {names}:", f"    L1.apply(*parameters[name], {self.amount!r})"]
        return [
            "prune.global_unstructured(",
            f"    [parameters[name] for name in {names}],",
            f"    pruning_method=L1, amount={self.amount!r},",
            ")",
        ]


class RandomUnstructuredMethod(RankedMethod):
    """Prune weights at random, with equal probability."""

    name = "random_unstructured"
    title = deferred("Random unstructured")
    score_kind: ClassVar[ScoreKind] = "random"

    seed: Seed = 0

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        keys = [selection.RandomKeys(self.seed, target.name, target.size) for target in targets]
        return decisions.decide_ranked(self, targets, keys, monitor)
