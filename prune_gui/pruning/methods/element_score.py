"""The field that selects how the score of an element follows from the weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from prune_gui.language import deferred
from prune_gui.pruning.methods.field_text import FieldText

ElementScore = Annotated[
    Literal["magnitude", "balanced", "ria"],
    Field(
        description=deferred(
            "What ranks a weight: magnitude, its absolute value; balanced, the same, divided by "
            "the square roots of the root mean squares of its row and of its column; ria, its "
            "share of its row plus its share of its column."
        )
    ),
    FieldText(
        label=deferred("Rank by"),
        folded=True,
        choices={
            "magnitude": deferred("magnitude: the absolute value"),
            "balanced": deferred("balanced: relative to row and column"),
            "ria": deferred("ria: shares of row and column"),
        },
        values={"balanced": deferred("balanced"), "ria": deferred("RIA")},
    ),
]
