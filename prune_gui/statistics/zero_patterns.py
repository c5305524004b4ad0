"""The patterns that the zeros of a parameter form, as values and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from prune_gui.language import deferred, join_items, listed, tr, trn
from prune_gui.number_formats import sparsity

MATRIX_LINES: Final = (
    deferred("{count:,} of {total:,} rows"),
    deferred("{count:,} of {total:,} columns"),
)
CHANNELS: Final = (
    deferred("{count:,} of {total:,} output channels"),
    deferred("{count:,} of {total:,} input channels"),
)


@dataclass(frozen=True, slots=True)
class ZeroPatterns:
    """The patterns in the zeros of a parameter with at least two dims.

    A parameter is seen as a matrix: dim 0 are its rows, all other dims its columns. A channel of
    dim 0 or dim 1 is dead if all of its elements are zero. If its output channels are in a later
    dim, as in kernels (height, width, in, out), the dims before that are seen as one.

    Attributes:
        zeros: number of zeros.
        total: number of elements.
        shape: shape of the parameter, as it is seen.
        n_m: the tightest n:m pattern that every group follows, such as "2:4", or "".
        n_m_dim: the dim along which the groups are.
        n_m_flattened: whether the groups are along dim 1 and all dims after it, flattened.
        rows: number of dead channels of dim 0 that are in no dead head.
        columns: number of dead channels of dim 1 that are in no dead head.
        kernels: number of convolution kernels that are all zero and not in dead channels; 0 if
            there are about as many as scattered zeros make by chance.
        block: side of the empty blocks; 0 if there are none, or about as many as by chance.
        blocks: number of empty blocks of that side, also in dead channels.
        heads: labels of the attention heads whose elements are all zero.
        head_count: number of heads of the parameter; 0 if it has none or they are not known.
        output_dim: the dim of the parameter with its output channels.
    """

    zeros: int
    total: int
    shape: tuple[int, ...]
    n_m: str = ""
    n_m_dim: int = 1
    n_m_flattened: bool = True
    rows: int = 0
    columns: int = 0
    kernels: int = 0
    block: int = 0
    blocks: int = 0
    heads: tuple[str, ...] = ()
    head_count: int = 0
    output_dim: int = 0

    @property
    def all_blocks(self) -> int:
        """Number of whole blocks with the side `block`; 0 without a block."""
        if not self.block:
            return 0
        return (self.shape[0] // self.block) * (math.prod(self.shape[1:]) // self.block)

    def describe(self) -> str:
        """Return the patterns as a list for the user, such as "2:4, 190 of 1,536 rows"; or ""."""
        return tr("all zero") if self.zeros == self.total else join_items(self._items())

    def fields(self) -> dict[str, object]:
        """Return the patterns as JSON values, without the number of elements and the shape."""
        found = asdict(self) | {"heads": list(self.heads), "all_blocks": self.all_blocks}
        return {name: found[name] for name in found if name not in ("zeros", "total", "shape")}

    def _items(self) -> Iterator[str]:
        if self.n_m:
            along = tr("{pattern} along dim {dim}", pattern=self.n_m, dim=self.n_m_dim)
            yield self.n_m if self.n_m_flattened else along
        if self.heads:
            yield trn(
                "head {heads} of {total}",
                "heads {heads} of {total}",
                len(self.heads),
                heads=listed(self.heads),
                total=self.head_count,
            )
        lines = MATRIX_LINES if len(self.shape) == 2 else CHANNELS
        if self.output_dim:
            lines = (CHANNELS[1] if self.output_dim == 1 else MATRIX_LINES[0], CHANNELS[0])
        for message, count, total in zip(
            lines, (self.rows, self.columns), self.shape, strict=False
        ):
            if count:
                yield tr(message, count=count, total=total)
        if self.kernels:
            total = self.shape[0] * self.shape[1]
            yield tr("{count:,} of {total:,} kernels", count=self.kernels, total=total)
        if self.block:
            share = sparsity(self.blocks, self.all_blocks)
            yield tr("{share} of the {side} × {side} blocks", share=share, side=self.block)  # noqa: RUF001
