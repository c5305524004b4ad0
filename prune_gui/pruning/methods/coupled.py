"""Methods that prune units of a network: the same slice of all tensors that it runs through."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictFloat,
    StrictInt,
    model_validator,
)

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import Method, RankingScope
from prune_gui.pruning.methods.channels import (
    MAX_CHANNELS,
    MAX_LIST_LENGTH,
    format_ranges,
    listing_text,
    optional_listing_text,
    parse_ranges,
    validate_list,
)
from prune_gui.pruning.methods.fields import (
    SCOPE_TEXT,
    Amount,
    FieldText,
    MaxSparsity,
    MethodGroup,
    Of,
    Unit,
    amount_text,
)
from prune_gui.pruning.methods.files import FileName, file_name

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.pruning.decisions.target import Decision, GroupScores, Target

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


def _written(units: tuple[int, ...]) -> list[int] | str:
    return list(units) if len(units) <= MAX_LIST_LENGTH else format_ranges(units)


def _empty_as_none(units: object) -> object:
    return None if units == "" else units


UnitList = Annotated[
    tuple[StrictInt, ...],
    BeforeValidator(parse_ranges),
    Field(max_length=MAX_CHANNELS),
    AfterValidator(validate_list),
    PlainSerializer(_written, when_used="json"),
]
OptionalUnitList = Annotated[UnitList | None, BeforeValidator(_empty_as_none)]
"""A list of units, or none. An empty text is none."""


class CoupledMethod(Method):
    """Prunes units of coupled groups. A step targets each group whose producing tensors it names.

    Every tensor of such a group is a target, also if the patterns of the step do not match it.
    """

    unit: ClassVar[Unit] = "unit"
    method_group: ClassVar[MethodGroup] = "coupled"

    @property
    @abstractmethod
    def coupled_space(self) -> str | None:
        """The space of the groups; None for all spaces of single layers."""

    def decide_groups(
        self,
        groups: Sequence[CoupledGroup],
        targets: Sequence[Target],
        monitor: Monitor,
        given: Sequence[GroupScores] = (),
    ) -> list[Decision]:
        """Decide what to prune of each target; a pure function of the arguments.

        Args:
            groups: the groups.
            targets: every tensor of the groups.
            monitor: receives the progress.
            given: the scores of each group in the file `importance`; () if the method names none.

        Raises:
            RecipeError: the method is not applicable; the message names the group or the target.
        """
        engine = import_module(f"prune_gui.pruning.decisions.{self.name}")  # torch: slow to import
        decisions: list[Decision] = engine.decide(self, groups, targets, monitor, given)
        return decisions


class Coupled(CoupledMethod):
    """Prune the lowest-ranked units of a network, such as neurons, in all tensors that have them.

    The score of a unit joins the p-norms of its slices of the weights of a group (tensors with two
    or more dimensions; pruned elements count as zeros). mean and max: each norm is divided by
    (number of elements)^(1/p) and the mean or the maximum is taken; sum: the p-norm of all slices
    together. This is the group magnitude of Fang et al., DepGraph (CVPR 2023). The save form
    *compact* writes a checkpoint without the pruned units.

    `importance` names a file of scores to rank by instead. It has either a vector for each group
    (see `CoupledGroup.key`), with one score >= 0 per unit, or tensors with the names of parameters,
    as other methods take them. Of these, absolute values are taken, zero where pruned: mean and
    max join the mean of each slice, sum adds all of them up. Such tensors may have any number of
    dimensions; of the members of a group, those in the file count.
    """

    name: ClassVar[str] = "coupled"
    title: ClassVar[str] = deferred("Coupled units")

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
        FieldText(label=deferred("Norm"), folded=True, show=lambda _, n: tr("n {value}", value=n)),
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
            label=deferred("Uniform"),
            folded=True,
            show=lambda _, on: tr("uniform") if on else "",
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
        Field(
            description=deferred(
                "A file of scores that rank the units: one number per unit under the name of the "
                "group, such as encoder.layer.0.ffn, or scores of weights by parameter name."
            ),
            json_schema_extra={"format": "path"},
        ),
        FieldText(
            label=deferred("Scores"),
            folded=True,
            placeholder=deferred("none: rank by norms of the weights"),
            show=lambda _, path: file_name(path),
        ),
    ] = None

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return self.space

    @property
    def ranking_scope(self) -> RankingScope:
        """Which units share one cut."""
        return self.scope


class DeadUnits(CoupledMethod):
    """Prune what remains of units without effect, so that the compact form can leave them out.

    A unit has no effect if nothing reads it (its slices of all tensors that consume it are pruned)
    or if it is always zero (its slices of all others are pruned, with biases and norms). A unit
    whose weights are pruned and whose bias remains emits a constant, c = f(bias) after the
    activation function f. It is not pruned, but the compact form can leave it out where the layers
    that read it take the constant over: bias + W[:, units] c becomes their bias.
    """

    name: ClassVar[str] = "dead_units"
    title: ClassVar[str] = deferred("Dead units")

    fold_constants: Annotated[
        bool,
        Field(
            description=deferred(
                "In the compact form, leave out units that emit a constant, and add it to the "
                "biases of the next layers where that is exact."
            )
        ),
        FieldText(
            label=deferred("Fold constants"),
            show=lambda _, on: "" if on else tr("keeps constants"),
        ),
    ] = True

    @property
    def coupled_space(self) -> None:
        """All spaces of single layers: a token without weights is still a token."""
        return


class ListingMethod(CoupledMethod):
    """Prunes listed units. Subclasses have the field of the list."""

    @property
    @abstractmethod
    def listed_units(self) -> tuple[int, ...]:
        """The listed units, from 0; () if a file ranks them."""


class ListedOrRanked(ListingMethod):
    """Prunes listed units of each group, or those of the lowest scores in a file."""

    listing: ClassVar[str]
    """The name of the field of the list."""

    amount: Annotated[
        Amount | None,
        Field(
            description=deferred(
                "With a file of scores: a share between 0.0 and 1.0, or a whole number of units."
            )
        ),
        FieldText(
            label=deferred("Amo&unt"),
            position=3,
            show=lambda method, amount: "" if amount is None else amount_text(method, amount),
        ),
    ] = None
    importance: Annotated[
        FileName | None,
        Field(
            description=deferred(
                "A file of scores that rank the units: one number per layer under the name of the "
                "stack, such as encoder.layer, or one per expert, such as model.layers.0.experts; "
                "or scores of weights by parameter name."
            ),
            json_schema_extra={"format": "path"},
        ),
        FieldText(
            label=deferred("Scores"),
            placeholder=deferred("none: prune the listed units"),
            show=lambda _, path: file_name(path),
        ),
    ] = None
    reduction: ReductionField = "mean"

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        if bool(self.listed_units) == (self.importance is not None):
            raise ValueError(
                tr("name either {field}, or importance and amount", field=self.listing)
            )
        if self.listed_units and self.amount is not None:
            raise ValueError(tr("amount has no effect on listed units; remove one of them"))
        if self.importance is not None and self.amount is None:
            raise ValueError(tr("importance needs amount, the number or share of units to prune"))
        return self

    @classmethod
    def unused_fields(cls, values: Mapping[str, object]) -> Collection[str]:
        """Return the fields of the ranking, if units are listed."""
        return ListedOrRanked.model_fields if values.get(cls.listing) else ()

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The listed units, from 0; () if a file ranks them."""
        return getattr(self, self.listing) or ()


class ListedUnits(ListingMethod):
    """Prune exactly the listed units of every group that the step targets."""

    name: ClassVar[str] = "listed_units"
    title: ClassVar[str] = deferred("Listed units")

    space: SpaceField = "ffn"
    units: Annotated[
        UnitList,
        Field(description=deferred("Numbers of units, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Numbers"), position=2, show=listing_text),
    ]

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return self.space

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The listed units, from 0."""
        return self.units


class Layers(ListedOrRanked):
    """Prune whole layers (blocks) of a network: listed ones, or those of the lowest scores.

    A file of scores (`importance`) has a vector for each stack, such as ``encoder.layer``, with one
    score >= 0 per layer. Tensors with the names of parameters are possible, too, see `Coupled`.
    The save form *compact* writes a checkpoint without the layers, with the others renumbered.
    """

    name: ClassVar[str] = "layers"
    title: ClassVar[str] = deferred("Layers")
    listing: ClassVar[str] = "layers"

    layers: Annotated[
        OptionalUnitList,
        Field(description=deferred("Numbers of layers, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Layers"), position=2, show=optional_listing_text),
    ] = None
    stack: Annotated[
        Literal["all", "encoder", "decoder", "vision"],
        Field(description=deferred("Which stack of layers, if a network has two.")),
        FieldText(
            label=deferred("Layer stack"),
            folded=True,
            choices={
                "all": deferred("the only one"),
                "encoder": deferred("encoder"),
                "decoder": deferred("decoder"),
                "vision": deferred("image model"),
            },
            values={
                "encoder": deferred("encoder"),
                "decoder": deferred("decoder"),
                "vision": deferred("image model"),
            },
        ),
    ] = "all"

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return "layers" if self.stack == "all" else f"{self.stack}_layers"


class Experts(ListedOrRanked):
    """Prune whole experts of mixture layers: listed ones, or those of the lowest scores.

    Their rows of the router are pruned, too. A file of scores (`importance`) has a vector for each
    layer, such as ``model.layers.0.experts``, with one score >= 0 per expert, or tensors with the
    names of parameters, see `Coupled`; that method can also rank the experts of all layers
    together. The save form *compact* writes a checkpoint without the experts.
    """

    name: ClassVar[str] = "experts"
    title: ClassVar[str] = deferred("Experts")
    listing: ClassVar[str] = "experts"

    experts: Annotated[
        OptionalUnitList,
        Field(description=deferred("Numbers of experts, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Experts"), position=2, show=optional_listing_text),
    ] = None

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return "experts"
