"""Magnitude pruning relative to the sizes of rows and columns."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.allocation import AllocatedMethod
from prune_gui.pruning.methods.base import RankingScope, ScoreKind
from prune_gui.pruning.methods.field_text import FieldText
from prune_gui.pruning.methods.fields import MaxSparsity, Of
from prune_gui.pruning.methods.method_group import MethodGroup
from prune_gui.pruning.methods.unit import Unit

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
