"""Pruning of blocks of a weight matrix, which block-sparse kernels skip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import (
    Amount,
    Decision,
    MaxSparsity,
    Of,
    Scope,
    ScoredMethod,
    Target,
)
from prune_gui.pruning.methods.n_m import Tail
from prune_gui.pruning.methods.structured import Norm, dimension
from prune_gui.pruning.methods.units import Units, select_units

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import Blocks

Side = Annotated[StrictInt, Field(ge=1, le=10**9)]
"""Limited so that the number of elements of a block fits into 64 bits."""

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning blocks needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)


class Block(ScoredMethod):
    """Prune the blocks of least p-norm of each target, or of all targets as one.

    A target is seen as a matrix, dimension 0 against all the others: Gray et al., "GPU Kernels for
    Block-Sparse Weights", 2017. Entries that an earlier step pruned count as zeros; a block counts
    for as long as one is left. Blocks of equal norm go lowest index first, row by row; an
    infinite norm ranks above every finite one, and NaN above infinity. All blocks of a step have
    one size, so that their norms compare between targets as they are.
    """

    name: ClassVar[str] = "block"
    title: ClassVar[str] = deferred("Block")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "block"

    amount: Amount = 0.5
    height: Annotated[Side, Field(description=deferred("Rows of a block."))] = 4
    width: Annotated[Side, Field(description=deferred("Columns of a block."))] = 4
    n: Norm = 2
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0
    tail: Tail = "refuse"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the k blocks of smallest norm among those with a remaining element."""
        return select_units([self._units(target) for target in targets], self, monitor)

    def _units(self, target: Target) -> Units:
        import numpy as np

        from prune_gui.pruning.predicates import BlockCut

        blocks, scores = self._blocks(target), self.scores(target)

        def rank(monitor: Monitor) -> NDArray[np.floating[Any]]:
            from prune_gui.pruning.norms.blocks import block_norms

            return block_norms(scores, target.remaining_mask, self.n, blocks, monitor).numpy()

        if target.remaining_mask is not None:
            remaining = blocks.count(target.remaining_mask)
        else:
            remaining = np.broadcast_to(
                np.int64(self.height * self.width), blocks.down * blocks.across
            )
        return Units(
            target=target,
            label=lambda: tr(
                "{name}, blocks of {height} x {width}",
                name=target.name,
                height=self.height,
                width=self.width,
            ),
            remaining_elements=remaining,
            rank=rank,
            rank_bytes=scores.nbytes,
            predicate=partial(BlockCut, blocks),
        )

    def _blocks(self, target: Target) -> Blocks:
        """Return the block grid of a target.

        Raises:
            RecipeError: the target has fewer than two dimensions, or its sides are not multiples of
                the block's.
        """
        from prune_gui.pruning.predicates import Blocks

        rows = target.shape[dimension(target, 0, flat=FLAT)]
        columns = target.size // rows
        if self.tail == "refuse" and (rows % self.height or columns % self.width):
            raise RecipeError(
                tr(
                    "{name} is {rows} x {columns} with its later dimensions as one, and does not "
                    "divide into blocks of {height} x {width}. Set tail to keep to leave the rest "
                    "as it is, choose other sides, or leave it out of the targets.",
                    name=target.name,
                    rows=rows,
                    columns=columns,
                    height=self.height,
                    width=self.width,
                )
            )
        return Blocks(rows, columns, self.height, self.width)
