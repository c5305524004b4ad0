"""Methods that prune units of a network: the same slice of all tensors that it runs through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StrictFloat, StrictInt

from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, predicates
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.fields import (
    SCOPE_TEXT,
    Amount,
    FieldText,
    FileName,
    MaxSparsity,
    Of,
    file_name,
    path_field,
)

if TYPE_CHECKING:
    from prune_gui.pruning.arrays import Ints, Numbers
    from prune_gui.pruning.decisions import Decision, GroupScores, Members, Noted, Target
    from prune_gui.pruning.layouts import CoupledGroup


Space = Literal[
    "ffn",
    "kv_groups",
    "heads",
    "channels",
    "experts",
    "expert_ffn",
    "shared_ffn",
    "hidden",
    "encoder_ffn",
    "decoder_ffn",
    "encoder_heads",
    "decoder_heads",
    "vision_ffn",
    "vision_heads",
]
"""The kinds of units that can be ranked."""
SPACE_CHOICES: Final = {
    "ffn": deferred("FFN neurons"),
    "kv_groups": deferred("KV heads with their query heads"),
    "heads": deferred("attention heads"),
    "channels": deferred("channels"),
    "experts": deferred("experts"),
    "expert_ffn": deferred("FFN neurons of the experts"),
    "shared_ffn": deferred("FFN neurons of the shared expert"),
    "hidden": deferred("hidden channels"),
    "encoder_ffn": deferred("FFN neurons of the encoder"),
    "decoder_ffn": deferred("FFN neurons of the decoder"),
    "encoder_heads": deferred("attention heads of the encoder"),
    "decoder_heads": deferred("attention heads of the decoder"),
    "vision_ffn": deferred("FFN neurons of the image model"),
    "vision_heads": deferred("attention heads of the image model"),
}
LAYER_SCOPE: Final = replace(
    SCOPE_TEXT,
    choices={
        "local": deferred("local: each layer by itself"),
        "global": deferred("global: all layers together"),
    },
)
SpaceField = Annotated[
    Space,
    Field(description=deferred("The kind of the units, from the names of the parameters.")),
    FieldText(label=deferred("Un&its"), position=1, choices=SPACE_CHOICES, values=SPACE_CHOICES),
]


ReductionField = Annotated[
    Literal["mean", "sum", "max"],
    Field(description=deferred("How the norms or scores of the slices of a unit become one.")),
    FieldText(
        label=deferred("Reduction"),
        folded=True,
        choices={
            "mean": deferred("mean of the tensors"),
            "sum": deferred("all tensors together"),
            "max": deferred("maximum of the tensors"),
        },
        values={"sum": deferred("sum"), "max": deferred("maximum")},
    ),
]


class CoupledMethod(Method):
    """Prunes units of coupled groups. A step targets each group whose producing tensors it names.

    Every tensor of such a group is a target, also if the patterns of the step do not match it.
    """

    unit = "unit"
    method_group = "coupled"
    is_coupled = True

    @property
    def coupled_space(self) -> str | None:
        space: str | None = getattr(self, "space", None)
        return space

    def decide_groups(
        self,
        groups: Sequence[CoupledGroup],
        targets: Sequence[Target],
        monitor: Monitor,
        given: Sequence[GroupScores] = (),
    ) -> list[Decision]:
        """Decide what to prune of each of `targets`, which are all tensors of the groups.

        `given` has the scores of each group in the file `importance`. `RecipeError` names a group
        or a target to which the method is not applicable.
        """
        members = decisions.Members(groups, {target.name: target for target in targets}, given)
        return members.decisions(self.choose(members, monitor), monitor)

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        """Return the units to prune of each group, and a note on them or ""."""
        raise NotImplementedError


class Coupled(CoupledMethod):
    """Prune the lowest-ranked units, such as neurons, in all tensors that have them.

    The score of a unit joins the p-norms of its slices of the weights of a group (tensors with two
    or more dimensions; pruned elements count as zeros). mean and max: each norm is divided by
    (number of elements)^(1/p) and the mean or the maximum is taken; sum: the p-norm of all slices
    together. This is the group magnitude of Fang et al., DepGraph (CVPR 2023). The save form
    *compact* writes a checkpoint without the pruned units.

    `importance` names a file of scores to rank by instead. It has either a vector for each group
    (see `CoupledGroup.key`), with one score >= 0 per unit, or tensors with the names of parameters,
    as other methods take them. Of these, absolute values are taken, zero where pruned: mean and
    max join the mean of each slice, sum adds all of them up. Such tensors may have any number of
    dimensions; of the members of a group, those in the file count. With the second moments of
    `prune_gui.record`, the score is the error that the removal of the unit causes in the layers
    that read it, if the step `refit` lets their kept weights make up for it.
    """

    name = "coupled"
    title = deferred("Coupled units")

    space: SpaceField = "ffn"
    amount: Amount = 0.5
    scope: Annotated[
        Literal["local", "global"],
        Field(description=deferred("local: each layer by itself; global: all layers together.")),
        LAYER_SCOPE,
    ] = "local"
    amount_of: Of = "remaining"
    n: Annotated[
        StrictInt | StrictFloat,
        Field(
            gt=0,
            allow_inf_nan=False,
            description=deferred("The order p of the norms of the weights, above 0."),
        ),
        FieldText(label=deferred("Norm"), folded=True, show=deferred("n {value}")),
    ] = 2
    reduction: ReductionField = "mean"
    normalization: Annotated[
        Literal["mean", "max", "none"],
        Field(
            description=deferred(
                "By what the scores of a layer are divided before layers are compared."
            )
        ),
        FieldText(
            label=deferred("Normalization"),
            folded=True,
            choices={
                "mean": deferred("mean score of the layer"),
                "max": deferred("largest score of the layer"),
                "none": deferred("none"),
            },
            values={"max": deferred("by maximum"), "none": deferred("not normalized")},
        ),
    ] = "mean"
    uniform: Annotated[
        bool,
        Field(
            description=deferred(
                "Keep equally many units in every layer, so that config.json can state the number."
            )
        ),
        FieldText(
            label=deferred("Uniform"), folded=True, show=lambda _, on: tr("uniform") if on else ""
        ),
    ] = False
    round_to: Annotated[
        StrictInt,
        Field(
            ge=1,
            le=1 << 20,
            description=deferred(
                "Round the number of kept units of a layer up to a multiple of this."
            ),
        ),
        FieldText(
            label=deferred("Multiple of"),
            folded=True,
            show=lambda _, number: tr("multiples of {number}", number=number),
        ),
    ] = 1
    max_sparsity: MaxSparsity = 1.0
    importance: Annotated[
        FileName | None,
        path_field(
            deferred(
                "A file of scores that rank the units: one number per unit under the name of the "
                "group, such as encoder.layer.0.ffn, or scores of weights by parameter name; or "
                "recorded second moments, for the error that the removal of a unit causes."
            )
        ),
        FieldText(
            label=deferred("Scores"),
            folded=True,
            placeholder=deferred("none: rank by norms of the weights"),
            show=lambda _, path: file_name(path),
        ),
    ] = None

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        if members.given:
            scores = members.given_scores(self.reduction, monitor)
        else:
            scores = members.norms(self.reduction, float(self.n), monitor)
        if self.scope == "global":
            scores = [self._normalized(own) for own in scores]
        remaining = [members.remaining_elements(group) for group in members.groups]
        numbers = self._numbers(members.groups, scores, remaining)
        source = file_name(self.importance) if self.importance else ""
        return [
            (decisions.lowest_units(elements, own, number, source), note)
            for elements, own, (number, note) in zip(remaining, scores, numbers, strict=True)
        ]

    def _numbers(
        self, groups: Sequence[CoupledGroup], scores: Sequence[Numbers], remaining: Sequence[Ints]
    ) -> list[tuple[int, str]]:
        """Return the number of units to prune of each group, and a note on each."""
        counts = [int((elements > 0).sum()) for elements in remaining]
        limits = [
            decisions.max_prunable(self.max_sparsity, count, group.size)
            for count, group in zip(counts, groups, strict=True)
        ]
        if self.scope == "local":
            wanted = [
                decisions.count_units(self, count, group.size, group.label)
                for count, group in zip(counts, groups, strict=True)
            ]
        else:
            total = sum(group.size for group in groups)
            k = decisions.count_units(self, sum(counts), total, decisions.all_targets)
            if self.uniform:
                kept = math.ceil((sum(counts) - k) / len(groups))
                wanted = [max(0, count - kept) for count in counts]
            else:
                possible = min(k, sum(limits))
                selected = decisions.select_lowest(remaining, scores, limits, possible)
                wanted = [int(units.pruned.sum()) for units in selected]
        return list(map(self._rounded, counts, wanted, limits))

    def _rounded(self, count: int, wanted: int, limit: int) -> tuple[int, str]:
        """Return how many of `count` units to prune so that a multiple is kept, and a note."""
        number = min(wanted, limit)
        kept = -(-(count - number) // self.round_to) * self.round_to
        rounded = max(0, count - kept)
        if rounded < number:
            return rounded, tr(
                "{count:,} units are kept, a multiple of {number}",
                count=count - rounded,
                number=self.round_to,
            )
        missing = wanted - number
        return rounded, decisions.cap_note(self.max_sparsity, missing) if missing > 0 else ""

    def _normalized(self, scores: Numbers) -> Numbers:
        finite = scores[scores < math.inf]  # neither infinity nor NaN; no score is negative
        if self.normalization == "none" or not finite.size:
            return scores
        scale = float(finite.mean() if self.normalization == "mean" else finite.max())
        return scores / scale if scale > 0 else scores


class DeadUnits(CoupledMethod):
    """Prune what remains of units without effect.

    A unit has no effect if nothing reads it (its slices of all tensors that consume it are pruned)
    or if it is always zero (its slices of all others are pruned, with biases and norms). A unit
    whose weights are pruned and whose bias remains emits a constant, c = f(bias) after the
    activation function f. It is not pruned, but the compact form can leave it out where the layers
    that read it take the constant over: bias + W[:, units] c becomes their bias.
    """

    name = "dead_units"
    title = deferred("Dead units")

    fold_constants: Annotated[
        bool,
        Field(
            description=deferred(
                "In the compact form, leave out units that emit a constant, and add it to the "
                "biases of the next layers where that is exact."
            )
        ),
        FieldText(
            label=deferred("Fold constants"), show=lambda _, on: "" if on else tr("keeps constants")
        ),
    ] = True

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        chosen = []
        for group in monitor.each(members.groups):
            dead, constant = members.without_effect(group)
            units = predicates.PrunedUnits(dead, None, members.remaining_elements(group))
            chosen.append((units, _note(int(constant.sum()), fold=self.fold_constants)))
        return chosen


def _note(count: int, *, fold: bool) -> str:
    if not count:
        return ""
    if not fold:
        return trn(
            "{count:,} unit has no weights and emits a constant, because a bias or a norm of "
            "it remains",
            "{count:,} units have no weights and emit a constant, because a bias or a norm of "
            "them remains",
            count,
        )
    return trn(
        "{count:,} unit has no weights and emits a constant, because a bias or a norm of it "
        "remains; the compact form leaves it out if the next layers can take the constant over",
        "{count:,} units have no weights and emit a constant, because a bias or a norm of them "
        "remains; the compact form leaves them out if the next layers can take the constants over",
        count,
    )
