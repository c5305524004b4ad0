"""Pruning of blocks of a weight matrix, which block-sparse kernels skip."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import AllocatedMethod, RankingScope, ScoredMethod
from prune_gui.pruning.methods.fields import (
    FieldText,
    MaxSparsity,
    MethodGroup,
    Norm,
    Of,
    Scope,
    Tail,
    Unit,
)

Side = Annotated[StrictInt, Field(ge=1, le=10**9)]
"""Limited so that the number of elements of a block fits into 64 bits."""


class Block(ScoredMethod, AllocatedMethod):
    """Prune the blocks with the smallest p-norm of each target, or of all targets together.

    A target is seen as a matrix, output channels against all the others: Gray et al., "GPU Kernels
    for Block-Sparse Weights", 2017. Its rows are dimension 0, or the last one of weights that are
    (..., in, out), as in GPT-2, flax and Keras. Entries that an earlier step pruned count as zeros;
    a block counts for as long as one is left. Blocks of equal norm go lowest index first, row by
    row; an infinite norm ranks above every finite one, and NaN above infinity. All blocks of a step
    have one size, so that their norms compare between targets as they are.
    """

    name: ClassVar[str] = "block"
    title: ClassVar[str] = deferred("Block")
    unit: ClassVar[Unit] = "block"
    method_group: ClassVar[MethodGroup] = "patterns"

    height: Annotated[
        Side,
        Field(description=deferred("Rows of a block.")),
        FieldText(
            label=deferred("Height"),
            position=2,
            show=lambda method, height: f"{height} x {method.width}",
        ),
    ] = 4
    width: Annotated[
        Side,
        Field(description=deferred("Columns of a block.")),
        FieldText(label=deferred("Width"), show=lambda _method, _width: ""),  # shown with height
    ] = 4
    n: Norm = 2
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0
    tail: Tail = "refuse"

    @property
    def ranking_scope(self) -> RankingScope:
        """Which blocks share one cut."""
        return self.scope
