"""The Erdos-Renyi-Kernel distribution: densities of layers from their shapes."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import ScoredMethod
from prune_gui.pruning.methods.dragged_cut import DraggedCut, Setting
from prune_gui.pruning.methods.unstructured import OverallMethod


class Erk(ScoredMethod, OverallMethod):
    """Prune the smallest weights of each target by absolute value; larger targets are pruned more.

    The density of a target is f * (sum of dimensions) / (product of dimensions), at most what is
    left of it, with one f for all, so that the step prunes exactly the amount asked of all targets
    together: Evci et al., "Rigging the Lottery: Making All Tickets Winners", 2020, after Mocanu et
    al., 2018. Numbers of entries are rounded by largest remainder. A target of one dimension has
    ratio 1 and stays dense in all but extreme steps. Equal values go lowest index first;
    infinity ranks above every finite one, and NaN above infinity.
    """

    name: ClassVar[str] = "erk"
    title: ClassVar[str] = deferred("ERK")

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting | None:
        """Return the amount for all targets that prunes the elements of one up to a weight.

        The amount is found by bisection over the number of elements.
        """
        own, all_targets = cut.own_up_to_weight(weight), cut.of_targets()
        if own is None or all_targets is None:
            return None
        remaining = all_targets.remaining

        def pruned(units: int) -> int:
            count = cut.own_pruned_with(amount=units, amount_of="remaining")
            return remaining + 1 if count is None else count  # None: too many units for the step

        units = max(0, bisect_right(range(remaining + 1), own.below, key=pruned) - 1)
        return "amount", self.amount_for(all_targets._replace(below=units))
