"""The zeros of the parameters in a file, as far as they are counted, and the patterns they form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from prune_gui.language import deferred, join_items, listed, tr, trn
from prune_gui.number_formats import sparsity

MATRIX_LINES: Final = (
    deferred("{count:,} of {total:,} rows dead"),
    deferred("{count:,} of {total:,} columns dead"),
)
CHANNELS: Final = (
    deferred("{count:,} of {total:,} output channels dead"),
    deferred("{count:,} of {total:,} input channels dead"),
)


@dataclass(frozen=True, slots=True)
class ZeroPatterns:
    """The patterns in the zeros of a parameter with at least two dims.

    A parameter is seen as a matrix: dim 0 are its rows, all other dims its columns. A channel of
    dim 0 or dim 1 is dead if all of its elements are zero. If its output channels are in a later
    dim, as in kernels (height, width, in, out), the dims before that are seen as one.

    Attributes:
        shape: of the parameter, as it is seen.
        n_m: the tightest n:m pattern that every group follows, such as "2:4", or "".
        n_m_dim, n_m_flattened: whether the groups are along dim 0 or dim 1, or along dim 1 and all
            dims after it, flattened; also of `nearly_n_m`.
        rows, columns: numbers of dead channels of dim 0 and of dim 1 that are in no dead head.
        kernels: number of kernels that are all zero, not in dead channels, and not by chance.
        block: side of the empty blocks; 0 if there are none, or about as many as by chance.
        blocks: number of empty blocks of that side, also in dead channels.
        heads: labels of the attention heads whose elements are all zero.
        head_count: number of heads of the parameter; 0 if it has none or they are not known.
        nearly_n_m: without `n_m`, the pattern that almost every group follows, or "".
        broken: number of groups that break `nearly_n_m`.
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
    nearly_n_m: str = ""
    broken: int = 0

    @property
    def all_blocks(self) -> int:
        """Number of whole blocks with the side `block`; 0 without a block."""
        if not self.block:
            return 0
        return (self.shape[0] // self.block) * (math.prod(self.shape[1:]) // self.block)

    @property
    def badge(self) -> str:
        """The first of the patterns in one short word; "" if there is none."""
        words = (
            (self.n_m, self.n_m),
            (self.nearly_n_m, f"≈{self.nearly_n_m}"),
            (self.heads, deferred("heads")),
            (self.rows, deferred("rows")),
            (self.columns, deferred("columns")),
            (self.block or self.kernels, deferred("blocks")),
        )
        return next((tr(word) for is_found, word in words if is_found), "")

    def describe(self) -> str:
        """Return the patterns as a list, such as "2:4, 190 of 1,536 rows dead"; or ""."""
        return join_items(self.items())

    def items(self) -> list[str]:
        return [tr("all zero")] if self.zeros == self.total else list(self._items())

    def fields(self) -> dict[str, object]:
        """Return the patterns as JSON values, without the number of elements and the shape."""
        found = asdict(self) | {"heads": list(self.heads), "all_blocks": self.all_blocks}
        return {name: found[name] for name in found if name not in ("zeros", "total", "shape")}

    def _items(self) -> Iterator[str]:
        if pattern := self.n_m or self.nearly_n_m:
            groups = self.total // int(pattern.split(":")[1])
            if not self.n_m_flattened:
                pattern = tr("{pattern} along dim {dim}", pattern=pattern, dim=self.n_m_dim)
            if self.broken:
                pattern = tr(
                    "{pattern} broken by {broken:,} of {groups:,} groups",
                    pattern=pattern,
                    broken=self.broken,
                    groups=groups,
                )
            yield pattern
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
            yield tr("{count:,} of {total:,} kernels dead", count=self.kernels, total=total)
        if self.block:
            share = sparsity(self.blocks, self.all_blocks)
            yield tr("{share} of the {side} × {side} blocks", share=share, side=self.block)  # noqa: RUF001


NOTICEABLE_SHARE: Final = 0.01
"""Zeros are noticeable from this share of the file, or of a parameter with two dims, on."""

Counts = Mapping[str, tuple[int, int]]
"""(pruned elements, all elements) by parameter name, as in `Resolution.counts`."""
NONE: Final[Counts] = MappingProxyType({})


@dataclass(frozen=True)
class FileZeros:
    """The zeros of the prunable parameters that are counted so far. Immutable.

    Elements that the mask of a reparametrized pair prunes are zeros. `done` and `total` are bytes;
    `patterns` are those of parameters with at least two dims. `zeros` and `elements` are numbers of
    weights: they leave out tensors such as running statistics, the `uncounted`.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    patterns: Mapping[str, ZeroPatterns] = field(default_factory=lambda: MappingProxyType({}))
    done: int = 0
    total: int = 1
    elements: int = 0
    uncounted: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        return self.done == self.total

    @cached_property
    def zeros(self) -> int:
        """Number of zeros counted so far."""
        return self._of_counted(self.counts)

    def _of_counted(self, counts: Mapping[str, int]) -> int:
        """Return the sum over the parameters that are read and not left out."""
        names = counts.keys() & self.counts.keys() - self.uncounted
        return sum(counts[name] for name in names)

    def noticeable(self, in_file: Counts = NONE) -> int:
        """Return the number of zeros that do not count as pruned; 0 if they are too few to mention.

        `in_file` are the counts before the first step, where everything that is pruned is zero.
        """
        pruned = {name: count for name, (count, _) in in_file.items() if count}
        left = self.zeros - self._of_counted(pruned)
        in_all = self.elements * self.total / max(1, self.done)  # about, until all are read
        is_noticeable = left >= NOTICEABLE_SHARE * max(1, in_all) or any(
            found.zeros - pruned.get(name, 0) >= NOTICEABLE_SHARE * found.total
            for name, found in self.patterns.items()
        )
        return left if is_noticeable else 0

    @cached_property
    def is_noticeable(self) -> bool:
        """Whether there are enough zeros to mention."""
        return self.noticeable() > 0

    def describe(self, name: str) -> str:
        found = self.patterns.get(name)
        return found.describe() if found is not None else ""

    def summary(self) -> str:
        """Return the share that is zero, such as "30.1 % of the file is zero"."""
        share = sparsity(self.zeros, self.elements)
        if self.is_complete:
            return tr("{share} of the file is zero", share=share)
        read = 100 * self.done / self.total
        return tr("{share} of the weights read is zero ({read:.0f} % read)", share=share, read=read)
