"""n:m groups and blocks of a parameter: which of them follow their pattern, in any state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import TensorInfo
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import CHUNK_ELEMENTS, chunks, run
from prune_gui.pruning.arrays import Flags, Ints
from prune_gui.pruning.predicates import BlockCut, NMCut
from prune_gui.raster.parameter_layouts import ParameterLayout, SliceLayout
from prune_gui.recipe import Resolution
from prune_gui.recipe.recipe import KEPT
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns
from prune_gui.statistics.pattern_scan import (
    MIN_HELD_SHARE,
    PATTERNS,
    SHARE_TOLERANCE,
    possible,
)

MAX_POSITIONS: Final = 10_000  # of broken groups that are known by position


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """Equal groups of elements, of which each keeps at most `n`; of a block, all or none.

    The parameter is a sequence of matrices of `rows` and `columns`. A group has `height` rows and
    `width` columns; elements beyond the last whole group of a side are in no group.

    Attributes:
        n: maximum number of elements kept in a group; None for blocks.
        is_guess: whether it follows only from the number of zeros.
    """

    title: str
    rows: int
    columns: int
    height: int
    width: int
    n: int | None = None
    is_guess: bool = False

    def counts(self, kept: Flags, cells: tuple[int, int] | None = None) -> NDArray[np.uint32]:
        """Return how many elements each whole group keeps: uint32 (matrices, down, across).

        Args:
            kept: bool (matrices, rows, columns).
            cells: height and width of a group in `kept`, if it is of a layout; see `cells`.
        """
        height, width = cells or (self.height, self.width)
        matrices, rows, columns = kept.shape
        down, across = rows // height, columns // width
        whole = kept[:, : down * height, : across * width]
        parts = whole.reshape(matrices, down, height, across, width)
        by_column = np.add.reduce(parts, axis=2, dtype=np.uint32)
        counts: NDArray[np.uint32]
        counts = sum((by_column[..., i] for i in range(1, width)), by_column[..., 0])
        return counts

    def broken(self, counts: NDArray[np.uint32]) -> Flags:
        """Return which groups break the pattern, by how many elements each keeps."""
        if self.n is None:
            return (counts > 0) & (counts < self.height * self.width)
        return counts > self.n

    def cells(self, layout: ParameterLayout) -> tuple[int, int] | None:
        """Return the height and width of a group in a layout; None if it is no rectangle there."""
        if not isinstance(layout, SliceLayout):
            return None
        strides = layout.row_stride, layout.column_stride
        if self.height == 1:
            is_aligned = layout.row_stride % self.width == layout.first % self.width == 0
            return (1, self.width) if strides[1] == 1 and is_aligned else None
        if strides == (self.columns, 1):
            return self.height, self.width
        if self.width == 1 and self.columns in strides:
            return (self.height, 1) if strides[0] == self.columns else (1, self.height)
        return None


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """How many groups follow a pattern.

    Attributes:
        sparser: groups that keep fewer elements than the pattern lets them.
        positions: flat indices of the first elements of the first broken groups.
    """

    pattern: GroupPattern
    groups: int
    broken: int
    sparser: int
    positions: Ints

    def describe(self) -> str:
        """Return "2:4 along dim 1: 36,864 of 36,864 groups hold"; a block is all or not pruned."""
        message = deferred("{pattern}: {held:,} of {groups:,} groups hold")
        if self.pattern.n is None:
            message = deferred("{pattern}: {held:,} of {groups:,} are all pruned or all kept")
        elif self.sparser:
            message = deferred(
                "{pattern}: {held:,} of {groups:,} groups hold; {sparser:,} keep fewer than {n}"
            )
        return tr(
            message,
            pattern=self.pattern.title,
            held=self.groups - self.broken,
            groups=self.groups,
            sparser=self.sparser,
            n=self.pattern.n,
        )

    def after(self, flat: int) -> int | None:
        """Return the position of the next broken group after a flat index, from the start again."""
        if not self.positions.size:
            return None
        following = int(np.searchsorted(self.positions, flat, side="right"))
        return int(self.positions[following % self.positions.size])


def pattern_of(resolution: Resolution, info: TensorInfo, zeros: FileZeros) -> GroupPattern | None:
    """Return the pattern of a parameter: of the last step that has one, or in its zeros."""
    shape = info.shape
    for applied in reversed(resolution.layers.get(info.name, ())):
        predicate = applied.predicate
        if isinstance(predicate, NMCut):
            groups = predicate.groups
            n = groups.m - predicate.going
            return _n_m(shape, n, groups.m, groups.length, groups.inner)
        if isinstance(predicate, BlockCut):
            blocks = predicate.blocks
            return _blocks(blocks.rows, blocks.columns, blocks.height, blocks.width)
    found = zeros.patterns.get(info.name)
    if found is not None and (pattern := _found(found)) is not None:
        return pattern
    pruned, total = resolution.counts[info.name]
    share = max(pruned, zeros.counts.get(info.name, 0)) / total
    for name in possible(shape):
        m, fewest = PATTERNS[name]
        if abs(share - fewest / m) <= SHARE_TOLERANCE:
            return _n_m(shape, m - fewest, m, math.prod(shape[1:]), 1, is_guess=True)
    return None


def verdict(
    resolution: Resolution, name: str, pattern: GroupPattern, monitor: Monitor
) -> Verdict | None:
    """Count the groups that follow a pattern; None without any, or if a guessed one is wrong."""
    info = resolution.checkpoint.tensors[name]
    within = partial(resolution.pruned_by_within, name)
    height, width, columns = pattern.height, pattern.width, pattern.columns
    size, matrix_size = info.numel, pattern.rows * columns
    rows = height  # that are looked at together; all of several matrices with a rest
    if pattern.rows % height and matrix_size < size:
        rows = pattern.rows
    unit = rows * columns

    def look(span: tuple[int, int]) -> tuple[int, int, Ints]:
        monitor.advance(span[1] - span[0])
        counts = pattern.counts((within(*span) == KEPT).reshape(-1, rows, columns))
        matrix, down, across = np.nonzero(pattern.broken(counts))
        first = span[0] + matrix * unit + down * (height * columns) + across * width
        return counts.size, int(np.count_nonzero(counts < (pattern.n or 0))), first

    groups = broken = sparser = 0
    positions: list[Ints] = []
    monitor.expect(size)
    spans = chunks(size // unit * unit, max(1, CHUNK_ELEMENTS // unit) * unit)
    for count, fewer, first in run(look, spans):
        positions.append(first[: max(0, MAX_POSITIONS - broken)])
        groups, broken, sparser = groups + count, broken + len(first), sparser + fewer
    if not groups or (pattern.is_guess and groups - broken < MIN_HELD_SHARE * groups):
        return None
    return Verdict(pattern, groups, broken, sparser, np.concatenate(positions))


def _n_m(
    shape: tuple[int, ...], n: int, m: int, length: int, inner: int, *, is_guess: bool = False
) -> GroupPattern:
    """Return the pattern of groups of `m` elements that are `inner` apart; see `NMGroups`."""
    after = [math.prod(shape[dim:]) for dim in range(1, len(shape) + 1)]
    dim = next(dim for dim in range(len(shape)) if length * inner == shape[dim] * after[dim])
    message = deferred("{pattern} along dim {dim}")
    if length != shape[dim]:
        message = deferred("{pattern} along dim {dim}, flattened")
    title = tr(message, pattern=f"{n}:{m}", dim=dim)
    if inner == 1:
        return GroupPattern(title, 1, length, 1, m, n, is_guess)
    return GroupPattern(title, length, inner, m, 1, n, is_guess)


def _blocks(rows: int, columns: int, height: int, width: int) -> GroupPattern:
    title = tr("Blocks of {height} × {width}", height=height, width=width)  # noqa: RUF001
    return GroupPattern(title, rows, columns, height, width)


def _found(zeros: ZeroPatterns) -> GroupPattern | None:
    rows, columns = zeros.shape[0], math.prod(zeros.shape[1:])
    name = zeros.n_m or zeros.nearly_n_m
    if not name:
        return _blocks(rows, columns, zeros.block, zeros.block) if zeros.block else None
    n, m = map(int, name.split(":"))
    length, inner = (rows, columns) if zeros.n_m_dim == 0 else (columns, 1)
    if not zeros.n_m_flattened and zeros.n_m_dim == 1:
        length, inner = zeros.shape[1], columns // zeros.shape[1]
    return _n_m(zeros.shape, n, m, length, inner)
