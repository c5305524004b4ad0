"""Removing tokens from the vocabulary of a language model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.coupled import CoupledMethod, ListingMethod
from prune_gui.pruning.methods.fields import FieldText
from prune_gui.pruning.methods.files import FileName, file_name

TOKENS = "tokens"
"""The name of the space in tables of architectures."""


class Tokens(CoupledMethod):
    """Prune tokens of the vocabulary: those of a list, or those that a text does not contain.

    The tokenizer is read from tokenizer.json or vocab.txt beside the checkpoint. Special and added
    tokens, single bytes and what kept tokens are made of always stay. Target the embedding. The
    save form *compact* writes the checkpoint and its tokenizer without the tokens, if the library
    ``tokenizers`` verifies that other texts are encoded as before.
    """

    name: ClassVar[str] = "tokens"
    title: ClassVar[str] = deferred("Tokens")

    listed: Annotated[
        FileName | None,
        Field(
            description=deferred(
                "A text file with one token to remove on each line, as it is written in "
                "tokenizer.json or vocab.txt."
            ),
            json_schema_extra={"format": "text-path"},
        ),
        FieldText(
            label=deferred("List"),
            show=lambda _, path: tr("listed in {file}", file=file_name(path)),
        ),
    ] = None
    corpus: Annotated[
        FileName | None,
        Field(
            description=deferred(
                "A text file; tokens that are absent from it are removed. Its lines are tokenized "
                "one by one and joined."
            ),
            json_schema_extra={"format": "text-path"},
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

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return TOKENS


class TokenIds(ListingMethod):
    """Prune tokens by their ids: what `Tokens` means for one tokenizer. Not part of recipes."""

    name: ClassVar[str] = "tokens"
    title: ClassVar[str] = Tokens.title

    ids: tuple[int, ...]

    @property
    def coupled_space(self) -> str:
        """The space of the groups."""
        return TOKENS

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The listed ids, from 0."""
        return self.ids
