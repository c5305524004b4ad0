"""Methods that prune units by a list: units by number, whole layers, experts and tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning import predicates
from prune_gui.pruning.methods.channels import UnitList, listing_text
from prune_gui.pruning.methods.coupled import Coupled, CoupledMethod, ReductionField, SpaceField
from prune_gui.pruning.methods.fields import (
    Amount,
    FieldText,
    FileName,
    amount_text,
    file_name,
    path_field,
)

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Members, Noted

TOKENS = "tokens"
"""The name of the space of tokens in tables of architectures."""


STACK_TEXTS: Final = {
    "encoder": deferred("encoder"),
    "decoder": deferred("decoder"),
    "vision": deferred("image model"),
}
OptionalUnitList = Annotated[
    UnitList | None, BeforeValidator(lambda units: None if units == "" else units)
]
"""A list of units, or none. An empty text is none."""


class ListingMethod(CoupledMethod):
    """Prunes listed units of each group."""

    listing: ClassVar[str]
    """The name of the field of the list."""

    @property
    def listed_units(self) -> tuple[int, ...]:
        return getattr(self, self.listing) or ()

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        chosen, last = [], max(self.listed_units)
        for group in monitor.each(members.groups):
            if last >= group.size:
                raise RecipeError(
                    trn(
                        "{group} has {count:,} unit; {number} does not exist. Use {last}.",
                        "{group} has {count:,} units; {number} does not exist. Use 0 to {last}.",
                        group.size,
                        group=group.label,
                        number=last,
                        last=group.size - 1,
                    )
                )
            remaining = members.remaining_elements(group)
            chosen.append((predicates.PrunedUnits.listed(self.listed_units, remaining), ""))
        return chosen


class ListedOrRanked(ListingMethod):
    """Prunes listed units of each group, or those of the lowest scores in a file."""

    amount: Annotated[
        Amount | None,
        Field(
            description=deferred(
                "With a file of scores: a share between 0.0 and 1.0, or a whole number of units."
            )
        ),
        FieldText(label=deferred("Amo&unt"), position=3, show=amount_text),
    ] = None
    importance: Annotated[
        FileName | None,
        path_field(
            deferred(
                "A file of scores that rank the units: one number per layer under the name of the "
                "stack, such as encoder.layer, or one per expert, such as model.layers.0.experts; "
                "or scores of weights by parameter name."
            )
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
        return ListedOrRanked.model_fields if values.get(cls.listing) else ()

    def choose(self, members: Members, monitor: Monitor) -> list[Noted]:
        if self.amount is None or self.importance is None:
            return super().choose(members, monitor)
        ranked = Coupled(amount=self.amount, importance=self.importance, reduction=self.reduction)
        return ranked.choose(members, monitor)


class ListedUnits(ListingMethod):
    """Prune exactly the listed units of every group that the step targets."""

    name = "listed_units"
    title = deferred("Listed units")
    listing = "units"

    space: SpaceField = "ffn"
    units: Annotated[
        UnitList,
        Field(description=deferred("Numbers of units, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Numbers"), position=2, show=listing_text),
    ]


class Layers(ListedOrRanked):
    """Prune whole layers (blocks): listed ones, or those of the lowest scores.

    A file of scores (`importance`) has a vector for each stack, such as ``encoder.layer``, with one
    score >= 0 per layer. Tensors with the names of parameters are possible, too, see `Coupled`.
    The save form *compact* writes a checkpoint without the layers, with the others renumbered.
    """

    name = "layers"
    title = deferred("Layers")
    listing = "layers"

    layers: Annotated[
        OptionalUnitList,
        Field(description=deferred("Numbers of layers, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Layers"), position=2, show=listing_text),
    ] = None
    stack: Annotated[
        Literal["all", "encoder", "decoder", "vision"],
        Field(description=deferred("Which stack of layers, if a network has two.")),
        FieldText(
            label=deferred("Layer stack"),
            folded=True,
            choices={"all": deferred("the only one"), **STACK_TEXTS},
            values=STACK_TEXTS,
        ),
    ] = "all"

    @property
    def coupled_space(self) -> str:
        return "layers" if self.stack == "all" else f"{self.stack}_layers"


class Experts(ListedOrRanked):
    """Prune whole experts of mixture layers: listed ones, or those of the lowest scores.

    Their rows of the router are pruned, too. A file of scores (`importance`) has a vector for each
    layer, such as ``model.layers.0.experts``, with one score >= 0 per expert, or tensors with the
    names of parameters, see `Coupled`; that method can also rank the experts of all layers
    together. The save form *compact* writes a checkpoint without the experts.
    """

    name = "experts"
    title = deferred("Experts")
    listing = "experts"
    space: ClassVar[str] = "experts"

    experts: Annotated[
        OptionalUnitList,
        Field(description=deferred("Numbers of experts, from 0: a list, or a text: 3, 7, 12-15.")),
        FieldText(label=deferred("Experts"), position=2, show=listing_text),
    ] = None


class Tokens(CoupledMethod):
    """Prune tokens of the vocabulary: of a list, or those that a text lacks.

    The tokenizer is read from tokenizer.json or vocab.txt beside the checkpoint. Special and added
    tokens, single bytes and what kept tokens are made of always stay. Target the embedding. The
    save form *compact* writes the checkpoint and its tokenizer without the tokens, if the library
    ``tokenizers`` verifies that other texts are encoded as before.
    """

    name = "tokens"
    title = deferred("Tokens")
    space: ClassVar[str] = TOKENS

    listed: Annotated[
        FileName | None,
        path_field(
            deferred(
                "A text file with one token to remove on each line, as it is written in "
                "tokenizer.json or vocab.txt."
            ),
            "text-path",
        ),
        FieldText(
            label=deferred("List"),
            show=lambda _, path: tr("listed in {file}", file=file_name(path)),
        ),
    ] = None
    corpus: Annotated[
        FileName | None,
        path_field(
            deferred(
                "A text file; tokens that are absent from it are removed. Its lines are tokenized "
                "one by one and joined."
            ),
            "text-path",
        ),
        FieldText(
            label=deferred("Corpus"),
            show=lambda _, path: tr("absent from {file}", file=file_name(path)),
        ),
    ] = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.listed is None) == (self.corpus is None):
            raise ValueError(tr("name either a list of tokens or a corpus"))
        return self


class TokenIds(ListingMethod):
    """Prune tokens by their ids: what `Tokens` means for one tokenizer. Not part of recipes."""

    name = "tokens"
    title = Tokens.title
    listing = "ids"
    space: ClassVar[str] = TOKENS

    ids: tuple[int, ...]
