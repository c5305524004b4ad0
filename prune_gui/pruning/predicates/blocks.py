"""Predicates that prune whole blocks of a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr, trn
from prune_gui.pruning.kernels import groups as group_kernels
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.predicates.channels import PrunedUnits
from prune_gui.pruning.selection.keys import RemainingMask


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a parameter as a matrix: dimension 0 by all other dimensions.

    Blocks are numbered row by row. Elements beyond the last whole block of a side are in no block.

    Attributes:
        rows: of the matrix.
        columns: of the matrix.
        height: rows of a block.
        width: columns of a block.
    """

    rows: int
    columns: int
    height: int
    width: int

    @property
    def down(self) -> int:
        """Number of whole blocks along the rows' dimension."""
        return self.rows // self.height

    @property
    def across(self) -> int:
        """Number of whole blocks along the columns' dimension."""
        return self.columns // self.width

    def count(self, marked: RemainingMask) -> NDArray[np.int64]:
        """Return the number of marked elements of each block."""
        counts = np.zeros((self.down, self.across), np.int64)
        for start, stop in chunks(self.rows * self.columns):
            flags = marked(start, stop)
            group_kernels.count_blocks(flags, self.height, self.width, self.columns, start, counts)
        return counts.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class BlockCut(Predicate):
    """Prunes whole blocks.

    Attributes:
        blocks: of the parameter.
        chosen: the pruned blocks, computed on first use.
    """

    blocks: Blocks
    chosen: Lazy[PrunedUnits]

    @property
    def note(self) -> str:
        """The number of non-finite norms, in words."""
        non_finite = self.chosen().non_finite if self.chosen.is_computed else 0
        if not non_finite:
            return ""
        return trn(
            "{count:,} block of NaN or infinite norm ranks as the largest",
            "{count:,} blocks of NaN or infinite norm rank as the largest",
            non_finite,
        )

    @property
    def lazy(self) -> Lazy[PrunedUnits]:
        """The value that `note` depends on."""
        return self.chosen

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        blocks, out = self.blocks, np.empty(codes.size, np.bool_)
        pruned = self.chosen().pruned.reshape(blocks.down, blocks.across)
        group_kernels.mark_blocks(pruned, blocks.height, blocks.width, blocks.columns, start, out)
        key_kernels.mark_where(out, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank of the block of the element at a flat index."""
        row, column = divmod(flat, self.blocks.columns)
        row, column = row // self.blocks.height, column // self.blocks.width
        if row >= self.blocks.down or column >= self.blocks.across:
            return ElementRank(pruned=False, unit=tr("weight outside the blocks"))
        return self.chosen().element_rank(
            row * self.blocks.across + column,
            tr("block ({row}, {column})", row=row, column=column),
        )
