"""LAMP: magnitude pruning with layer-adaptive sparsity."""

from __future__ import annotations

from typing import ClassVar

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import ScoredMethod, ScoreKind
from prune_gui.pruning.methods.dragged_cut import DraggedCut, Setting
from prune_gui.pruning.methods.unstructured import OverallMethod


class Lamp(ScoredMethod, OverallMethod):
    """Prune the weights with the lowest LAMP scores of all targets; each layer gets its own share.

    An entry scores w^2 / (sum of v^2 over the entries v with |v| >= |w| that its target still has):
    Lee et al., "Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021. Zeros score 0, the
    one largest entry of a target 1 (n equal ones 1/n), and all others at most 1/2: so a target
    keeps its largest entry until all targets are down to theirs. Of equal scores those of an
    earlier target go first, then the lowest flat index. Infinity ranks above every finite entry,
    NaN above infinity, and neither has a part in the sums.
    """

    name: ClassVar[str] = "lamp"
    title: ClassVar[str] = deferred("LAMP")

    @property
    def score_kind(self) -> ScoreKind:
        """LAMP scores."""
        return "lamp" if self.ranks_weights else "lamp_of_scores"

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting | None:
        """Return the amount for all targets whose cut is the score of an absolute weight."""
        score = cut.score_of(weight)
        return None if score is None else self.setting_for_score(cut, score)
