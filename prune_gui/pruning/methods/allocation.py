"""Methods that may prune each target by an amount of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from prune_gui.language import deferred, tr, trn
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.field_text import FieldText
from prune_gui.pruning.methods.fields import Amount

SHARED_RANKINGS: Final = frozenset({"global", "lamp"})
"""The values of `scope` and `over` with which all targets share one amount."""


def _from_pairs(value: object) -> object:
    """Return a list of pairs of a pattern and an amount as a mapping; other values unchanged."""
    if isinstance(value, list) and all(map(_is_pair, value)):
        return dict(value)
    return value


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


Amounts = Annotated[
    Annotated[dict[str, Amount], Field(min_length=1), BeforeValidator(_from_pairs)] | None,
    Field(
        description=deferred(
            "Amounts of single targets, by pattern; the patterns are those of targets. Of several "
            "patterns that match a target, the last one counts; a target that none matches has the "
            "amount of the step."
        ),
        json_schema_extra={"format": "amounts"},
    ),
    FieldText(
        label=deferred("Own amounts"),
        placeholder=deferred("pattern = amount, one per line"),
        folded=True,
        show=lambda _, amounts: trn("{count:,} own amount", "{count:,} own amounts", len(amounts)),
    ),
]


class AllocatedMethod(Method):
    """A method that can rank each target by itself, and then prune each by its own amount."""

    amount: Amount = 0.5
    amounts: Amounts = None

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        field = "over" if "over" in type(self).model_fields else "scope"
        value = getattr(self, field)
        if self.amounts and value in SHARED_RANKINGS:
            raise ValueError(
                tr(
                    "amounts cannot be combined with {field}: {value}, which ranks all targets "
                    "together; set {field} to local, or remove amounts",
                    field=field,
                    value=value,
                )
            )
        return self

    @classmethod
    def unused_fields(cls, values: Mapping[str, object]) -> Collection[str]:
        """Return `amounts` if all targets share one amount."""
        shared = values.get("over", values.get("scope")) in SHARED_RANKINGS
        return ("amounts",) if shared else ()

    def with_one_amount(self, amount: int | float) -> Self:
        """Return the method with the same amount for all targets."""
        return self.model_copy(update={"amount": amount, "amounts": None})
