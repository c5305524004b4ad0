"""n:m sparsity, the pattern of sparse tensor cores: n of m consecutive elements are kept."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StrictInt, ValidationInfo, field_validator

from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import RankingScope, ScoredMethod
from prune_gui.pruning.methods.fields import Dim, FieldText, MethodGroup, Tail, Unit


class NM(ScoredMethod):
    """Keep the n weights with the largest absolute value (or score) of every m consecutive ones.

    Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021: 2:4 and 4:8 are what hardware
    runs. Entries that an earlier step pruned rank lowest and count among the m - n that go. Of
    equal scores the lowest index goes first; infinity ranks above every finite score, and NaN above
    infinity.
    """

    name: ClassVar[str] = "n_m"
    title: ClassVar[str] = deferred("n:m")
    unit: ClassVar[Unit] = "entry"
    method_group: ClassVar[MethodGroup] = "patterns"

    n: Annotated[
        StrictInt,
        Field(ge=0, description=deferred("Number of weights kept in each group.")),
        FieldText(label=deferred("&Keep"), show=lambda _method, _n: ""),  # shown with m
    ] = 2
    m: Annotated[
        StrictInt,
        Field(ge=1, validate_default=True, description=deferred("Number of weights in a group.")),
        FieldText(label=deferred("Of each"), position=2, show=lambda method, m: f"{method.n}:{m}"),
    ] = 4
    dim: Annotated[
        Dim,
        Field(
            description=deferred(
                "The dimension along which groups are formed: input or output channels, wherever "
                "the layer has them, or a number; 1 is the input channels of torch's Linear and "
                "Conv."
            )
        ),
    ] = "input"
    flatten: Annotated[
        bool,
        Field(
            description=deferred(
                "Flatten the dimension and all after it, as a convolution over flattened input "
                "does; otherwise, form groups along the dimension alone, as always along the input "
                "channels of a layer that has its output channels after them."
            )
        ),
        FieldText(
            label=deferred("Flatten"), folded=True, values={"False": deferred("flatten False")}
        ),
    ] = True
    tail: Tail = "refuse"

    @field_validator("m")
    @classmethod
    def _check_group_size(cls, m: int, info: ValidationInfo) -> int:
        if m < info.data.get("n", 0):
            raise ValueError(
                tr("a group cannot be smaller than the number kept: m must be at least n")
            )
        return m

    @property
    def ranking_scope(self) -> RankingScope:
        """Each group has a cut of its own."""
        return "group"
