"""The types of the fields that several methods have, with their texts."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StrictFloat, StrictInt

from prune_gui.language import deferred, tr
from prune_gui.number_formats import percent
from prune_gui.pruning.amount import AmountOf
from prune_gui.pruning.methods.field_text import FieldText
from prune_gui.pruning.methods.unit import count_in_words

ChannelDim = int | Literal["output", "input"]
"""A dimension, or the one of the output or input channels; which it is depends on the layer."""


def _validate_amount(amount: int | float) -> int | float:
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0:
        raise ValueError(
            tr("a share must lie between 0.0 and 1.0; write a whole number for a count")
        )
    if amount < 0:
        raise ValueError(tr("a number of units cannot be negative"))
    return amount


def amount_text(method: Any, amount: int | float) -> str:  # noqa: ANN401 - any method
    """Return an amount for the title of a step: "50 %", "3 units"."""
    return percent(amount) if isinstance(amount, float) else count_in_words(method.unit, amount)


def torch_dim(dim: ChannelDim) -> int:
    """Return a dimension as a number for the layers of torch, whose weights are (out, in, ...)."""
    return ("output", "input").index(dim) if isinstance(dim, str) else dim


def _parse_infinity(n: object) -> object:
    return float(n) if n in ("inf", "-inf") else n


def _write_infinity(n: object) -> Any:  # noqa: ANN401 - any YAML or JSON value
    return str(n) if isinstance(n, float) and math.isinf(n) else n


Amount = Annotated[
    StrictInt | StrictFloat,
    AfterValidator(_validate_amount),
    Field(description=deferred("A share between 0.0 and 1.0, or a whole number of units.")),
    FieldText(label=deferred("Amo&unt"), position=2, show=amount_text),
]
SCOPE_TEXT: Final = FieldText(
    label=deferred("S&cope"),
    position=0,
    choices={
        "local": deferred("local: each parameter by itself"),
        "global": deferred("global: all targets together"),
        "row": deferred("row: each output row by itself"),
    },
    values={"local": deferred("local"), "global": deferred("global"), "row": deferred("row")},
)
Scope = Annotated[
    Literal["local", "global"],
    Field(description=deferred("local: each parameter by itself; global: all targets together.")),
    SCOPE_TEXT,
]
RowScope = Annotated[
    Literal["local", "global", "row"],
    Field(
        description=deferred(
            "local: each parameter by itself; global: all targets together; row: each output "
            "channel by itself, wherever the layer has them (dimension 0 of torch's Linear and "
            "Conv)."
        )
    ),
    SCOPE_TEXT,
]
MaxSparsity = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description=deferred(
            "Maximum share of units pruned in any target, including earlier steps; in a global "
            "step, the other targets are pruned more to compensate."
        ),
        json_schema_extra={"format": "share"},
    ),
    FieldText(
        label=deferred("Max sparsity"),
        folded=True,
        show=lambda _, share: tr("≤ {share}", share=percent(share)),
    ),
]
Of = Annotated[
    AmountOf,
    Field(
        description=deferred(
            "A share of what remains (as torch does), of the total, or a total to reach."
        )
    ),
    FieldText(
        label=deferred("Share &of"),
        folded=True,
        choices={
            "remaining": deferred("remaining units"),
            "total": deferred("all units"),
            "reach": deferred("all units, as a total to reach"),
        },
        values={"total": deferred("of all"), "reach": deferred("in total")},
    ),
]
Dim = Annotated[
    StrictInt | Literal["output", "input"],
    Field(
        description=deferred(
            "The dimension whose channels are pruned: output or input channels, wherever the layer "
            "has them, or a number; 0 is the output channels of torch's Linear and Conv, 1 those "
            "of (in, out) weights, as of GPT-2."
        ),
        examples=["output", "input", "0", "1"],
    ),
    FieldText(
        label=deferred("D&imension"),
        position=1,
        values={"output": deferred("output channels"), "input": deferred("input channels")},
        show=lambda _, dim: tr("dim {value}", value=dim),
    ),
]
Seed = Annotated[
    StrictInt,
    Field(description=deferred("The same seed prunes the same weights, on any machine.")),
    FieldText(
        label=deferred("Seed"), folded=True, show=lambda _, seed: tr("seed {value}", value=seed)
    ),
]
Norm = Annotated[
    StrictInt | StrictFloat | Literal["fro", "nuc"],
    BeforeValidator(_parse_infinity),
    PlainSerializer(_write_infinity),
    Field(
        description=deferred("The norm's order p: a number, inf, -inf, fro or nuc."),
        examples=["1", "2", "inf", "fro", "nuc"],
    ),
    FieldText(label=deferred("Norm"), folded=True, show=lambda _, n: tr("n {value}", value=n)),
]
Tail = Annotated[
    Literal["refuse", "keep"],
    Field(
        description=deferred(
            "For a target that does not divide evenly: refuse it, or keep the remainder unpruned."
        )
    ),
    FieldText(
        label=deferred("Tail"),
        choices={
            "refuse": deferred("refuse: a remainder is an error"),
            "keep": deferred("keep: the remainder is not pruned"),
        },
        values={"keep": deferred("tail keep")},
    ),
]
