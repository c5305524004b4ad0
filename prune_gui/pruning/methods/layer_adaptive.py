"""LAMP: magnitude pruning with layer-adaptive sparsity."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import (
    AllocatedMethod,
    DraggedCut,
    RankingScope,
    ScoredMethod,
    ScoreKind,
    Setting,
)
from prune_gui.pruning.methods.fields import FieldText, MaxSparsity, MethodGroup, Of, Unit
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


Power = Annotated[float, Field(ge=0.0, le=1.0)]


class Balanced(AllocatedMethod):
    """Prune the weights that are smallest relative to the other weights of their row and column.

    A weight scores |w| / (r^a * c^b), where r and c are the root mean squares of its row (an output
    channel) and of its column (an input channel, of a convolution with all positions of the
    kernel), of the finite weights that earlier steps left. A weight of zero scores 0; a parameter
    of one dimension has no columns, and its weights score |w|. Related scores are RIA, the sum of
    the two shares (Zhang et al., "Plug-and-Play: An Efficient Post-training Pruning Method for
    Large Language Models", 2024), and the scaling of Sinkhorn and Knopp, 1967, which repeats the
    division until rows and columns are equal. Of equal scores the lowest flat index goes first,
    an earlier target before a later one. Infinity ranks above every finite weight, and NaN above
    infinity.
    """

    name: ClassVar[str] = "balanced"
    title: ClassVar[str] = deferred("Balanced")
    unit: ClassVar[Unit] = "entry"
    method_group: ClassVar[MethodGroup] = "elements"

    over: Annotated[
        Literal["lamp", "global", "local", "row"],
        Field(
            description=deferred(
                "lamp: all targets together, by the LAMP scores of the balanced scores; global: "
                "all targets together; local: each parameter by itself; row: each output row by "
                "itself."
            )
        ),
        FieldText(
            label=deferred("Over"),
            position=0,
            choices={
                "lamp": deferred("lamp: all targets, each with its own share"),
                "global": deferred("global: all targets together"),
                "local": deferred("local: each parameter by itself"),
                "row": deferred("row: each output row by itself"),
            },
            values={
                "lamp": deferred("LAMP"),
                "global": deferred("global"),
                "local": deferred("local"),
                "row": deferred("row"),
            },
        ),
    ] = "lamp"
    row_power: Annotated[
        Power,
        Field(description=deferred("Exponent a of the root mean square of the row.")),
        FieldText(
            label=deferred("Row power"),
            folded=True,
            show=lambda _, power: tr("row power {value}", value=power),
        ),
    ] = 0.5
    column_power: Annotated[
        Power,
        Field(description=deferred("Exponent b of the root mean square of the column.")),
        FieldText(
            label=deferred("Column power"),
            folded=True,
            show=lambda _, power: tr("column power {value}", value=power),
        ),
    ] = 0.5
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @property
    def ranking_scope(self) -> RankingScope:
        """Which elements share one cut."""
        return "global" if self.over == "lamp" else self.over

    @property
    def score_kind(self) -> ScoreKind:
        """Balanced scores, or their LAMP scores."""
        return "lamp_of_scores" if self.over == "lamp" else "scores"


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
