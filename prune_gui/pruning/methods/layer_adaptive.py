"""Methods that give each layer a share of its own: LAMP, balanced scores and ERK."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, selection
from prune_gui.pruning.methods.base import (
    AllocatedMethod,
    DraggedCut,
    ScoredMethod,
    ScoreKind,
    Setting,
)
from prune_gui.pruning.methods.fields import SCOPE_TEXT, FieldText, MaxSparsity, Of, RankingScope
from prune_gui.pruning.methods.unstructured import OverallMethod

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target


class Lamp(ScoredMethod, OverallMethod):
    """Prune the weights with the lowest LAMP scores; each layer gets its own share.

    An entry scores w^2 / (sum of v^2 over the entries v with |v| >= |w| that its target still has):
    Lee et al., "Layer-adaptive Sparsity for the Magnitude-based Pruning", 2021. Zeros score 0, the
    one largest entry of a target 1 (n equal ones 1/n), and all others at most 1/2: so a target
    keeps its largest entry until all targets are down to theirs. Of equal scores those of an
    earlier target go first, then the lowest flat index. Infinity ranks above every finite entry,
    NaN above infinity, and neither has a part in the sums.
    """

    name = "lamp"
    title = deferred("LAMP")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        scores = [decisions.target_scores(self, target) for target in targets]
        return decisions.decide_lamp(self, targets, scores, monitor)

    @property
    def score_kind(self) -> ScoreKind:
        return "lamp" if self.ranks_weights else "lamp_of_scores"

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting | None:
        score = cut.score_of(weight)
        return None if score is None else self.setting_for_score(cut, score)


Power = Annotated[float, Field(ge=0.0, le=1.0)]


class Balanced(AllocatedMethod):
    """Prune the weights that are smallest relative to their row and column.

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

    name = "balanced"
    title = deferred("Balanced")
    depends_on_layout: ClassVar[bool] = True

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
                **SCOPE_TEXT.choices,
            },
            values={"lamp": deferred("LAMP"), **SCOPE_TEXT.values},
        ),
    ] = "lamp"
    row_power: Annotated[
        Power,
        Field(description=deferred("Exponent a of the root mean square of the row.")),
        FieldText(label=deferred("Row power"), folded=True, show=deferred("row power {value}")),
    ] = 0.5
    column_power: Annotated[
        Power,
        Field(description=deferred("Exponent b of the root mean square of the column.")),
        FieldText(
            label=deferred("Column power"), folded=True, show=deferred("column power {value}")
        ),
    ] = 0.5
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @property
    def ranking_scope(self) -> RankingScope:
        return "global" if self.over == "lamp" else self.over

    @property
    def score_kind(self) -> ScoreKind:
        return "lamp_of_scores" if self.over == "lamp" else "scores"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        formula = selection.balanced(self.row_power, self.column_power)
        scores = [decisions.row_column_scores(target, formula) for target in targets]
        if self.over == "lamp":
            return decisions.decide_lamp(self, targets, scores, monitor)
        return decisions.decide_scored(self, targets, scores, monitor)


class Erk(ScoredMethod, OverallMethod):
    """Prune the smallest weights of each target; larger targets are pruned more.

    The density of a target is f * (sum of dimensions) / (product of dimensions), at most what is
    left of it, with one f for all, so that the step prunes exactly the amount asked of all targets
    together: Evci et al., "Rigging the Lottery: Making All Tickets Winners", 2020, after Mocanu et
    al., 2018. Numbers of entries are rounded by largest remainder. A target of one dimension has
    ratio 1 and stays dense in all but extreme steps. Equal values go lowest index first;
    infinity ranks above every finite one, and NaN above infinity.
    """

    name = "erk"
    title = deferred("ERK")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Compute the counts from the shapes alone; cuts are computed on first use."""
        keys = [selection.ScoreKeys.of(decisions.target_scores(self, target)) for target in targets]
        rankings = decisions.rankings_of(self, targets, keys)
        k = decisions.count_overall(self, targets)
        max_pruned = list(map(decisions.prunable_count, targets, rankings))
        possible = min(k, sum(max_pruned))
        remaining = [target.remaining for target in targets]
        kept = _proportional_counts(
            # density * size, since the size is the product of the dimensions
            [sum(target.shape) or 1 for target in targets],
            [count - prunable for count, prunable in zip(remaining, max_pruned, strict=True)],
            remaining,
            sum(remaining) - possible,
        )
        pruned = [count - n_kept for count, n_kept in zip(remaining, kept, strict=True)]
        every = monitor.each(zip(targets, rankings, pruned, strict=True))
        return [decisions.cut_lazily(self, *one, missing=k - possible) for one in every]

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting | None:
        """Find the amount for all targets by bisection over the number of elements."""
        own, all_targets = cut.own_up_to_weight(weight), cut.of_targets()
        if own is None or all_targets is None:
            return None
        remaining = all_targets.remaining

        def pruned(units: int) -> int:
            count = cut.own_pruned_with(amount=units, amount_of="remaining")
            return remaining + 1 if count is None else count  # None: too many units for the step

        units = max(0, bisect_right(range(remaining + 1), own.below, key=pruned) - 1)
        return "amount", self.amount_for(all_targets._replace(below=units))


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
