"""LAMP: magnitude pruning with layer-adaptive sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import Decision, ScoredMethod, Target
from prune_gui.pruning.methods.unstructured import (
    OverallMethod,
    count_batched,
    cut_batched,
    rankings_of,
)

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor


class Lamp(ScoredMethod, OverallMethod):
    """Prune the entries of least LAMP score over all targets, so that each layer finds its share.

    An entry scores w^2 / (sum of v^2 over the entries v with |v| >= |w| that its target still has):
    Lee et al., "Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021. Zeros score 0, the
    one largest entry of a target 1 (n equal ones 1/n), and all others at most 1/2: so a target
    keeps its largest entry until all targets are down to theirs. Of equal scores those of an
    earlier target go first, then the lowest flat index. Infinity ranks above every finite entry,
    NaN above infinity, and neither has a part in the sums.
    """

    name: ClassVar[str] = "lamp"
    title: ClassVar[str] = deferred("LAMP")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Cut each target so that the k smallest scores of all targets are pruned."""
        from prune_gui.pruning.selection.keys import ScoreKeys
        from prune_gui.pruning.selection.lamp import find_lamp_cuts

        keys = [ScoreKeys.of(self.scores(target)) for target in targets]
        rankings = rankings_of(targets, keys, self.max_sparsity)
        k = count_batched(targets, self.amount, self.amount_of)
        return cut_batched(targets, rankings, k, self.max_sparsity, find_lamp_cuts, monitor)
