"""Finding the patterns in the zeros of a parameter, in one pass over chunks of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from prune_gui import parallel
from prune_gui.architecture.projections import Heads, attention_heads
from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.pruning.arrays import Flags, Ints
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.statistics.file_zeros import ZeroPatterns

"""True where an element, or all elements of a unit, are zero."""

GROUP_LENGTHS: Final[tuple[int, ...]] = (4, 8)
"""Lengths of groups of consecutive elements; chunks consist of whole groups."""
PATTERNS: Final = {"1:4": (4, 3), "2:4": (4, 2), "4:8": (8, 4)}
"""The length of a group, and the minimum number of zeros in it."""
SHARE_TOLERANCE: Final = 0.02
"""By how much the share of zeros differs at most from that of a pattern nearly followed."""
MIN_HELD_SHARE: Final = 0.9
"""At least this share of the groups holds if a pattern is nearly followed. Of 2:4, zeros at random
leave 69 %."""
SIDES: Final = (64, 32, 16, 8, 4)
"""Sides of the square blocks that are looked for; each divides the ones before it."""
MIN_SIDE: Final = SIDES[-1]
ROWS_PER_SPAN: Final = 8
"""Spans have a multiple of this number of rows, so that they divide no group and no small block."""
MIN_EXPLAINED_SHARE: Final = 0.05
"""Fewer zeros, as a share of all, do not make empty blocks or kernels a pattern."""
CONTAINED_SHARE: Final = 0.95
"""A larger block explains the zeros if this share of those in smaller empty blocks is in it."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a pattern, along a dim or (flattened) along dim 1 and all later dims."""

    pattern: str
    dim: int
    flattened: bool

    def broken(self, zero: Flags) -> int:
        """Return how many groups have fewer zeros than the pattern asks for."""
        length, fewest = PATTERNS[self.pattern]
        if self.flattened:
            zeros = np.bitwise_count(zero.reshape(-1).view(f"u{length}"))
            return int(np.count_nonzero(zeros < fewest))
        parts = np.moveaxis(
            zero.view(np.uint8).reshape(
                (-1, length, *zero.shape[1:])
                if self.dim == 0
                else (len(zero), -1, length, zero.shape[2])
            ),
            1 + self.dim,
            0,
        )
        return int(np.count_nonzero(reduce(np.add, parts) < fewest))


@dataclass(frozen=True, eq=False, slots=True)
class PatternChunk:
    """What some rows of a parameter, from `first` on, say about its patterns.

    `broken` are the numbers of groups that break each pattern which the parameter may still
    follow or nearly follow. `blocks` are the empty blocks of the smallest side.
    """

    first: int
    zeros: int
    broken: dict[Groups, int]
    rows: Flags
    columns: Flags
    kernels: int
    blocks: Flags


class PatternScan:
    """Finds the patterns of one parameter (of two dims or more) from chunks of it, in any order.

    `look` may run on several threads at once, `add` and `found` on one.
    """

    def __init__(
        self, shape: tuple[int, ...], heads: Heads | None = None, layout: WeightLayout = USUAL
    ) -> None:
        if layout.output_dim > 1:
            columns = math.prod(shape[layout.output_dim :])
            shape, heads = (math.prod(shape) // columns, columns), None
        self._shape, self._heads, self._output_dim = shape, heads, layout.output_dim
        self._columns = math.prod(shape[1:])
        self._kernel_size = self._columns // shape[1]
        self._zeros = self._kernels = 0
        self._broken = dict.fromkeys(_possible_groups(shape), 0)
        self._dead_rows = np.zeros(shape[0], np.bool_)
        self._dead_columns = np.ones(shape[1], np.bool_)
        self._blocks = np.zeros((shape[0] // MIN_SIDE, self._columns // MIN_SIDE), np.bool_)

    @classmethod
    def of(cls, checkpoint: Checkpoint, info: TensorInfo) -> PatternScan:
        """Return the scan of a parameter; of one with fewer than two dims, only zeros."""
        if len(info.shape) < 2:
            return cls((info.numel, 1))
        heads = attention_heads(checkpoint, info.name)
        return cls(info.shape, heads, weight_layout(checkpoint, info.name))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the spans (start, stop) of flat indices that `look` takes: whole rows."""
        rows = max(1, parallel.CHUNK_ELEMENTS // (self._columns * ROWS_PER_SPAN)) * ROWS_PER_SPAN
        return parallel.chunks(self._shape[0] * self._columns, rows * self._columns)

    def look(self, start: int, zero: Flags) -> PatternChunk | None:
        """Return what a span says that begins at a flat index; None if it has no zeros."""
        first, rows = start // self._columns, len(zero) // self._columns
        zeros = int(np.count_nonzero(zero))
        if not zeros:  # most parameters
            return None
        elements = zero.reshape(rows, self._shape[1], self._kernel_size)
        in_kernels = (elements[..., i] for i in range(self._kernel_size))
        kernels: Flags = reduce(np.logical_and, in_kernels)
        return PatternChunk(
            first,
            zeros,
            {groups: groups.broken(elements) for groups in self._broken},
            np.logical_and.reduce(kernels, axis=1),
            np.logical_and.reduce(kernels, axis=0),
            int(np.count_nonzero(kernels)),
            _empty_blocks(zero.reshape(rows, self._columns)),
        )

    def add(self, chunk: PatternChunk | None) -> None:
        """Add what a span says; every span must be added once."""
        if chunk is None:
            self._broken, self._dead_columns[:] = {}, False
            return
        rows = slice(chunk.first, chunk.first + len(chunk.rows))
        blocks = slice(chunk.first // MIN_SIDE, chunk.first // MIN_SIDE + len(chunk.blocks))
        self._zeros += chunk.zeros
        self._kernels += chunk.kernels
        broken = {groups: count + chunk.broken[groups] for groups, count in self._broken.items()}
        self._broken = {
            groups: count for groups, count in broken.items() if count <= self._most_broken(groups)
        }
        self._dead_rows[rows] = chunk.rows
        self._dead_columns &= chunk.columns
        self._blocks[blocks] = chunk.blocks

    def found(self) -> ZeroPatterns:
        """Return the patterns, after all spans were added."""
        rows, columns, heads = self._dead_heads()
        block, blocks = self._block()
        groups, broken = self._n_m()
        return ZeroPatterns(
            self._zeros,
            self._dead_rows.size * self._columns,
            self._shape,
            "" if broken else groups.pattern,
            groups.dim,
            groups.flattened,
            int(np.count_nonzero(rows)),
            int(np.count_nonzero(columns)),
            self._lone_kernels(),
            block,
            blocks,
            heads,
            len(self._heads.labels) if self._heads else 0,
            self._output_dim,
            groups.pattern if broken else "",
            broken,
        )

    def _most_broken(self, groups: Groups) -> float:
        """Return the number of broken groups from which on a pattern is not nearly followed."""
        length, _ = PATTERNS[groups.pattern]
        return (1 - MIN_HELD_SHARE) * self._dead_rows.size * self._columns / length

    def _n_m(self) -> tuple[Groups, int]:
        """Return the tightest pattern that all groups follow, or the nearest, and broken groups.

        The nearest has the fewest elements in broken groups, and about as many zeros as it makes:
        of more zeros at random, most groups have enough, too.
        """
        share = self._zeros / (self._dead_rows.size * self._columns)

        def elements(one: tuple[Groups, int]) -> int:
            return PATTERNS[one[0].pattern][0] * one[1]

        for groups, broken in sorted(self._broken.items(), key=elements):
            length, fewest = PATTERNS[groups.pattern]
            if not broken or abs(share - fewest / length) <= SHARE_TOLERANCE:
                return groups, broken
        return Groups("", 1, flattened=True), 0

    def _dead_heads(self) -> tuple[Flags, Flags, tuple[str, ...]]:
        """Return the dead channels of both dims that are in no dead head, and the dead heads."""
        lines = [self._dead_rows, self._dead_columns]
        if self._heads is None:
            return lines[0], lines[1], ()
        of_head = lines[self._heads.dim].reshape(-1, self._heads.width)
        dead: Flags = np.logical_and.reduce(of_head, axis=1)
        lines[self._heads.dim] = (of_head & ~dead[:, None]).reshape(-1)
        labels = zip(self._heads.labels, dead.tolist(), strict=True)
        return lines[0], lines[1], tuple(label for label, is_dead in labels if is_dead)

    def _lone_kernels(self) -> int:
        if self._kernel_size == 1:
            return 0
        kernels = self._dead_rows.size * self._dead_columns.size
        dead = kernels - int(np.count_nonzero(~self._dead_rows)) * int(
            np.count_nonzero(~self._dead_columns)
        )
        lone, size = self._kernels - dead, self._kernel_size
        return lone * self._is_structure(lone, kernels, size, self._kernels * size)

    def _block(self) -> tuple[int, int]:
        """Return the side of the empty blocks and their number; zeros if there is no pattern.

        Of the sides with more empty blocks than chance makes, it is the largest that contains
        almost all of the zeros in empty blocks of the smallest such side.
        """
        if not self._blocks.any():
            return 0, 0
        columns = np.repeat(~self._dead_columns, self._kernel_size)
        found: dict[int, tuple[int, int]] = {}
        for side in SIDES:
            factor = side // MIN_SIDE
            rows, across = (size // factor for size in self._blocks.shape)
            whole = self._blocks[: rows * factor, : across * factor]
            parts = whole.reshape(rows, factor, across, factor)
            empty = np.logical_and.reduce(parts, axis=(1, 3))
            count = int(np.count_nonzero(empty))
            rows_in, columns_in = _sums(~self._dead_rows, side), _sums(columns, side)
            live = int(np.count_nonzero(empty[rows_in > 0][:, columns_in > 0]))
            if self._is_structure(live, empty.size, side * side, count * side * side):
                found[side] = int(rows_in @ (empty @ columns_in)), count
        if not found:
            return 0, 0
        needed = CONTAINED_SHARE * found[min(found)][0]
        side = max(side for side, (zeros, _) in found.items() if zeros >= needed)
        return side, found[side][1]

    def _is_structure(self, empty: int, units: int, size: int, zeros: int) -> bool:
        """Return whether more units are empty than zeros scattered at random would leave empty.

        The zeros outside empty units estimate how frequent scattered zeros are. The expected
        number of empty units that follows is too low by a factor of up to e. Zeros of weights that
        were small in the same channels are not quite random, so a few units may be empty anyway.
        """
        elements = self._dead_rows.size * self._columns - zeros
        expected = units * ((self._zeros - zeros) / elements) ** size if elements else 0.0
        is_unexpected = empty > 3 * expected + 10 * math.sqrt(expected)
        return is_unexpected and empty * size >= MIN_EXPLAINED_SHARE * self._zeros


def _possible_groups(shape: tuple[int, ...]) -> Iterator[Groups]:
    """Yield the groups that a shape can have, those of the tightest patterns first."""
    columns = math.prod(shape[1:])
    for pattern, (length, _) in PATTERNS.items():
        if columns % length == 0:
            yield Groups(pattern, 1, flattened=True)
        if columns > shape[1] and shape[1] % length == 0:
            yield Groups(pattern, 1, flattened=False)
        if len(shape) == 2 and shape[0] % length == 0:
            yield Groups(pattern, 0, flattened=False)


def _empty_blocks(zero: Flags) -> Flags:
    """Return which blocks of the smallest side are all zero, without incomplete ones."""
    rows, columns = (size // MIN_SIDE for size in zero.shape)
    whole = np.ascontiguousarray(zero[: rows * MIN_SIDE, : columns * MIN_SIDE])
    words = whole.view(f"u{MIN_SIDE}") == int.from_bytes(b"\1" * MIN_SIDE, "little")
    empty: Flags = np.logical_and.reduce(words.reshape(rows, MIN_SIDE, columns), axis=1)
    return empty


def _sums(flags: Flags, length: int) -> Ints:
    """Return the number of True in every `length` consecutive flags, without the rest."""
    whole = flags[: len(flags) // length * length].reshape(-1, length)
    sums: Ints = np.add.reduce(whole, axis=1, dtype=np.int64)
    return sums


def possible(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns whose groups, along the flattened dims from 1 on, a shape can have."""
    length = math.prod(shape[1:]) if len(shape) > 1 else 0
    return tuple(name for name, (m, _) in PATTERNS.items() if length and length % m == 0)


def followed(patterns: Iterable[str], fewest: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns that a tensor follows."""
    zeros = dict(zip(GROUP_LENGTHS, fewest, strict=True))
    return tuple(name for name in patterns if zeros[PATTERNS[name][0]] >= PATTERNS[name][1])


def fewest_in_groups(zero: Flags) -> tuple[int, ...]:
    """Return, for each length in `GROUP_LENGTHS`, the minimum number of True in a group."""
    fewest = []
    for length in GROUP_LENGTHS:
        whole = zero[: len(zero) // length * length].view(f"u{length}")
        fewest.append(int(np.bitwise_count(whole).min(initial=length)))
    return tuple(fewest)
