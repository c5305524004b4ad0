"""Predicates that prune whole channels, units of coupled groups, or blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_gui.language import tr, trn
from prune_gui.parallel import CHUNK_ELEMENTS, chunks
from prune_gui.pruning.arrays import Codes, Flags, Ints, Values
from prune_gui.pruning.kernels import group_loops as group_kernels
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.layouts import Member
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates.predicate import ElementRank, Predicate
from prune_gui.pruning.selection.keys import RemainingMask


@dataclass(frozen=True, slots=True)
class PrunedUnits:
    """The pruned units of a parameter (channels or blocks), and the scores that rank them."""

    pruned: Flags
    ranks: Values | None  # the lowest are pruned first, NaN last
    remaining: Ints  # elements of each unit; those without any are not ranked
    source: str = ""  # the name of the file of the scores, if they are from one

    @classmethod
    def listed(cls, units: Sequence[int], remaining: Ints) -> PrunedUnits:
        pruned = np.zeros(len(remaining), np.bool_)
        pruned[list(units)] = True
        return cls(pruned, None, remaining)

    @property
    def non_finite(self) -> int:
        return 0 if self.ranks is None else int(np.count_nonzero(~np.isfinite(self.ranks)))

    def element_rank(self, index: int, unit: str) -> ElementRank:
        """Return the score, cut and rank of the unit at `index`; `unit` is its description."""
        pruned = bool(self.pruned[index])
        if self.ranks is None:
            return ElementRank(pruned, unit)
        candidates = np.flatnonzero(self.remaining)
        order = candidates[np.argsort(self.ranks[candidates], stable=True)]
        pruned_ranks = self.ranks[self.pruned]
        return ElementRank(
            pruned,
            unit,
            score=float(self.ranks[index]),
            cut=float(pruned_ranks.max()) if pruned_ranks.size else None,
            rank=int(np.flatnonzero(order == index)[0]) if self.remaining[index] else None,
            ranked=len(candidates),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCut(Predicate):
    """Prunes whole channels along one dimension."""

    shape: tuple[int, ...]
    dim: int
    chosen: Lazy[PrunedUnits]

    @property
    def lazy(self) -> Lazy[PrunedUnits]:
        return self.chosen

    def _note(self, non_finite: int) -> str:
        return trn(
            "{count:,} channel of NaN or infinite norm ranks as the largest",
            "{count:,} channels of NaN or infinite norm rank as the largest",
            non_finite,
        )

    def mark(self, start: int, step: int, codes: Codes) -> None:
        key_kernels.mark_channels(self.chosen().pruned, self._inner, start, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        channel = flat // self._inner % self.shape[self.dim]
        return self.chosen().element_rank(channel, tr("channel {number}", number=channel))

    @property
    def _inner(self) -> int:
        return math.prod(self.shape[self.dim + 1 :])


def count_per_channel(shape: tuple[int, ...], dim: int, marked: RemainingMask) -> Ints:
    """Return the number of marked elements of each channel along `dim`."""
    counts = np.zeros(shape[dim], np.int64)
    for start, stop in chunks(math.prod(shape)):
        key_kernels.count_channels(marked(start, stop), math.prod(shape[dim + 1 :]), start, counts)
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class UnitSlices:
    """The channels of the units of a group along one dimension of a tensor."""

    label: str
    units: PrunedUnits
    member: Member

    def mark_pruned(self, channels: Flags) -> None:
        pruned = self.units.pruned
        if self.member.dim is None:
            channels |= pruned[self.member.offset]
        else:
            channels[self.member.channels(len(pruned))[pruned]] = True

    def describe(self, unit: int) -> str:
        if self.units.source:
            return tr(
                "unit {number:,} of {group}, score from {file}",
                number=unit,
                group=self.label,
                file=self.units.source,
            )
        return tr("unit {number:,} of {group}", number=unit, group=self.label)

    def unit_of(self, channel: int) -> int | None:
        if self.member.dim is None:
            return self.member.offset
        inside = channel - self.member.channels(len(self.units.pruned))[:, 0]
        found = np.flatnonzero((inside >= 0) & (inside < self.member.width))
        return int(found[0]) if found.size else None


@dataclass(frozen=True, slots=True, eq=False)
class UnitCut(ChannelCut):
    """Prunes the channels that belong to pruned units along one dimension."""

    slices: tuple[UnitSlices, ...]

    @classmethod
    def of(
        cls, shape: tuple[int, ...], dim: int, slices: Sequence[UnitSlices], remaining: Ints
    ) -> UnitCut:
        """Return the predicate for the slices of a tensor, with the `remaining` of its channels."""
        pruned = np.zeros(shape[dim], np.bool_)
        for one in slices:
            one.mark_pruned(pruned)
        chosen = Lazy.of_value(PrunedUnits(pruned, None, remaining))
        return cls(shape, dim, chosen, tuple(slices))

    @property
    def has_scores(self) -> bool:
        return any(one.units.ranks is not None for one in self.slices)

    def element_rank(self, flat: int) -> ElementRank:
        channel = flat // self._inner % self.shape[self.dim]
        for one in self.slices:
            unit = one.unit_of(channel)
            if unit is not None:
                return one.units.element_rank(unit, one.describe(unit))
        return ElementRank(False, tr("channel {number}", number=channel))


@dataclass(frozen=True, slots=True, eq=False)
class AnyCut(Predicate):
    """Prunes what at least one of several predicates prunes."""

    cuts: tuple[UnitCut, ...]

    def mark(self, start: int, step: int, codes: Codes) -> None:
        for cut in self.cuts:
            cut.mark(start, step, codes)

    def element_rank(self, flat: int) -> ElementRank:
        ranks = [cut.element_rank(flat) for cut in self.cuts]
        return next((rank for rank in ranks if rank.pruned), ranks[0])


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a parameter as a matrix: dimension 0 by all other dimensions.

    Blocks of `height` rows and `width` columns are numbered row by row. Elements beyond the last
    whole block of a side are in no block.
    """

    rows: int
    columns: int
    height: int
    width: int

    @property
    def down(self) -> int:
        return self.rows // self.height

    @property
    def across(self) -> int:
        return self.columns // self.width

    def count(self, marked: RemainingMask | None) -> Ints:
        """Return the number of marked elements of each block; None marks all."""
        if marked is None:
            return np.broadcast_to(np.int64(self.height * self.width), self.down * self.across)
        counts, row = np.zeros((self.down, self.across), np.int64), self.height * self.columns
        for first, last in chunks(self.down, max(1, CHUNK_ELEMENTS // row)):
            flags = marked(first * row, last * row).reshape(-1, self.columns)
            whole = flags[:, : self.across * self.width].reshape(last - first, self.height, -1)
            by_column = whole.sum(1, dtype=np.int64)
            counts[first:last] = by_column.reshape(last - first, self.across, self.width).sum(2)
        return counts.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class BlockCut(Predicate):
    """Prunes whole blocks."""

    blocks: Blocks
    chosen: Lazy[PrunedUnits]

    @property
    def lazy(self) -> Lazy[PrunedUnits]:
        return self.chosen

    def _note(self, non_finite: int) -> str:
        return trn(
            "{count:,} block of NaN or infinite norm ranks as the largest",
            "{count:,} blocks of NaN or infinite norm rank as the largest",
            non_finite,
        )

    def mark(self, start: int, step: int, codes: Codes) -> None:
        blocks, out = self.blocks, np.empty(codes.size, np.bool_)
        pruned = self.chosen().pruned.reshape(blocks.down, blocks.across)
        group_kernels.mark_blocks(pruned, blocks.height, blocks.width, blocks.columns, start, out)
        key_kernels.mark_where(out, np.uint8(step), codes)

    def element_rank(self, flat: int) -> ElementRank:
        row, column = divmod(flat, self.blocks.columns)
        row, column = row // self.blocks.height, column // self.blocks.width
        if row >= self.blocks.down or column >= self.blocks.across:
            return ElementRank(pruned=False, unit=tr("weight outside the blocks"))
        return self.chosen().element_rank(
            row * self.blocks.across + column, tr("block ({row}, {column})", row=row, column=column)
        )
