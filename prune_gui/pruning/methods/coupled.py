"""Methods that prune units of a network: the same slice of all tensors that it runs through."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictFloat,
    StrictInt,
)

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import Method, RankingScope
from prune_gui.pruning.methods.channels import MAX_LIST_LENGTH, listing_text, validate_list
from prune_gui.pruning.methods.field_text import FieldText
from prune_gui.pruning.methods.fields import SCOPE_TEXT, Amount, MaxSparsity, Of
from prune_gui.pruning.methods.method_group import MethodGroup
from prune_gui.pruning.methods.ranges import MAX_CHANNELS, format_ranges, parse_ranges
from prune_gui.pruning.methods.unit import Unit

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.pruning.decisions.base import Decision, Target

Space = Literal[
    "ffn",
    "kv_groups",
    "heads",
    "channels",
    "experts",
    "expert_ffn",
    "shared_ffn",
    "encoder_ffn",
    "decoder_ffn",
    "encoder_heads",
    "decoder_heads",
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
    "encoder_ffn": deferred("FFN neurons of the encoder"),
    "decoder_ffn": deferred("FFN neurons of the decoder"),
    "encoder_heads": deferred("attention heads of the encoder"),
    "decoder_heads": deferred("attention heads of the decoder"),
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


def _written(units: tuple[int, ...]) -> list[int] | str:
    return list(units) if len(units) <= MAX_LIST_LENGTH else format_ranges(units)


UnitList = Annotated[
    tuple[StrictInt, ...],
    BeforeValidator(parse_ranges),
    Field(max_length=MAX_CHANNELS),
    AfterValidator(validate_list),
    PlainSerializer(_written, when_used="json"),
]


class CoupledMethod(Method):
    """Prunes units of coupled groups. A step targets each group whose producing tensors it names.

    Every tensor of such a group is a target, also if the patterns of the step do not match it.
    """

    unit: ClassVar[Unit] = "unit"
    method_group: ClassVar[MethodGroup] = "coupled"

    @property
    @abstractmethod
    def coupled_space(self) -> str | None:
        """The space of the groups; None for all spaces but that of the vocabulary."""

    def decide_groups(
        self, groups: Sequence[CoupledGroup], targets: Sequence[Target], monitor: Monitor
    ) -> list[Decision]:
        """Decide what to prune of each target; a pure function of groups and targets.

        Args:
            groups: the groups.
            targets: every tensor of the groups.
            monitor: receives the progress.

        Raises:
            RecipeError: the method is not applicable; the message names the group or the target.
            Cancelled: the work should stop.
        """
        engine = import_module(f"prune_gui.pruning.decisions.{self.name}")  # torch: slow to import
        decisions: list[Decision] = engine.decide(self, groups, targets, monitor)
        return decisions


class Coupled(CoupledMethod):
    """Prune the lowest-ranked units of a network, such as neurons, in all tensors that have them.

    The score of a unit joins the p-norms of its slices of the weights of a group (tensors with two
    or more dimensions; pruned elements count as zeros). mean and max: each norm is divided by
    (number of elements)^(1/p) and the mean or the maximum is taken; sum: the p-norm of all slices
    together. This is the group magnitude of Fang et al., DepGraph (CVPR 2023). The save form
    *compact* writes a checkpoint without the pruned units.
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
        Field(gt=0, allow_inf_nan=False, description=deferred("The norm's order p, above 0.")),
        FieldText(label=deferred("Norm"), folded=True, show=lambda _, n: tr("n {value}", value=n)),
    ] = 2
    reduction: Annotated[
        Literal["mean", "sum", "max"],
        Field(description=deferred("How the norms of the slices of a unit become its score.")),
        FieldText(
            label=deferred("Reduction"),
            folded=True,
            choices={
                "mean": deferred("mean of the tensors"),
                "sum": deferred("norm of all tensors together"),
                "max": deferred("maximum of the tensors"),
            },
            values={"sum": deferred("sum"), "max": deferred("maximum")},
        ),
    ] = "mean"
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
    whose weights are pruned and whose bias remains emits a constant, and stays.
    """

    name: ClassVar[str] = "dead_units"
    title: ClassVar[str] = deferred("Dead units")

    @property
    def coupled_space(self) -> None:
        """All spaces but that of the vocabulary, of which a row of zeros is a token like others."""
        return


class ListingMethod(CoupledMethod):
    """Prunes listed units. Subclasses have the field of the list."""

    @property
    @abstractmethod
    def listed_units(self) -> tuple[int, ...]:
        """The listed units, from 0."""


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


class Layers(ListingMethod):
    """Prune whole layers (blocks) of a network, listed by their numbers.

    The save form *compact* writes a checkpoint without them, with the other layers renumbered.
    """

    name: ClassVar[str] = "layers"
    title: ClassVar[str] = deferred("Layers")

    layers: Annotated[
        UnitList,
        Field(description=deferred("Numbers of layers, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Layers"), position=2, show=listing_text),
    ]

    stack: Annotated[
        Literal["all", "encoder", "decoder"],
        Field(description=deferred("Which stack of layers, if a network has two.")),
        FieldText(
            label=deferred("Layer stack"),
            folded=True,
            choices={
                "all": deferred("the only one"),
                "encoder": deferred("encoder"),
                "decoder": deferred("decoder"),
            },
            values={"encoder": deferred("encoder"), "decoder": deferred("decoder")},
        ),
    ] = "all"

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return "layers" if self.stack == "all" else f"{self.stack}_layers"

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The listed layers, from 0."""
        return self.layers


class Experts(ListingMethod):
    """Prune whole experts of the mixture layers that the step targets, listed by their numbers.

    Their rows of the router are pruned, too. The save form *compact* writes a checkpoint without
    them.
    """

    name: ClassVar[str] = "experts"
    title: ClassVar[str] = deferred("Experts")

    experts: Annotated[
        UnitList,
        Field(description=deferred("Numbers of experts, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Experts"), position=2, show=listing_text),
    ]

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return "experts"

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The listed experts, from 0."""
        return self.experts
