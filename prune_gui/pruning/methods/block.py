"""Pruning of blocks of a weight matrix, which block-sparse kernels skip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, norms, predicates
from prune_gui.pruning.methods.base import AllocatedMethod, ScoredMethod
from prune_gui.pruning.methods.fields import FieldText, MaxSparsity, Norm, Of, Scope, Tail

if TYPE_CHECKING:
    from prune_gui.pruning.arrays import Values
    from prune_gui.pruning.decisions import Decision, Target, Units
    from prune_gui.pruning.predicates import Blocks

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning blocks needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)


Side = Annotated[StrictInt, Field(ge=1, le=10**9)]
"""Limited so that the number of elements of a block fits into 64 bits."""


class Block(ScoredMethod, AllocatedMethod):
    """Prune the blocks with the smallest p-norm.

    A target is seen as a matrix, output channels against all the others: Gray et al., "GPU Kernels
    for Block-Sparse Weights", 2017. Its rows are dimension 0, or the last one of weights that are
    (..., in, out), as in GPT-2, flax and Keras. Entries that an earlier step pruned count as zeros;
    a block counts for as long as one is left. Blocks of equal norm go lowest index first, row by
    row; an infinite norm ranks above every finite one, and NaN above infinity. All blocks of a step
    have one size, so that their norms compare between targets as they are.
    """

    name = "block"
    title = deferred("Block")
    unit = "block"
    method_group = "patterns"
    depends_on_layout: ClassVar[bool] = True

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

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        return decisions.select_units([self._units(target) for target in targets], self, monitor)

    def _units(self, target: Target) -> Units:
        blocks, scores = self._blocks(target), decisions.target_scores(self, target)

        def rank(monitor: Monitor) -> Values:
            return norms.block_norms(scores, target.remaining_mask, self.n, blocks, monitor).numpy()

        return decisions.Units(
            target=target,
            label=lambda: tr(
                "{name}, blocks of {height} x {width}",
                name=target.name,
                height=self.height,
                width=self.width,
            ),
            remaining_elements=blocks.count(target.remaining_mask),
            rank=rank,
            rank_bytes=scores.nbytes,
            predicate=partial(predicates.BlockCut, blocks),
        )

    def _blocks(self, target: Target) -> Blocks:
        decisions.dimension(target, 0, min_dims=2, flat=FLAT)  # refuses fewer
        is_last = 0 < target.layout.output_dim == len(target.shape) - 1
        rows = target.shape[-1 if is_last else 0]
        columns = target.size // rows
        if self.tail == "refuse" and (rows % self.height or columns % self.width):
            raise RecipeError(
                "{name} is {rows} x {columns} with its other dimensions flattened, and does "
                "not divide into blocks of {height} x {width}. Set tail to keep to leave the "
                "remainder unpruned, choose another block size, or leave it out of the "
                "targets.",
                name=target.name,
                rows=rows,
                columns=columns,
                height=self.height,
                width=self.width,
            )
        if is_last:
            return predicates.Blocks(columns, rows, self.width, self.height)
        return predicates.Blocks(rows, columns, self.height, self.width)
