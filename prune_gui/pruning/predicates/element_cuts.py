"""Predicates that prune the single elements below a cut, or the lowest ones of each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr, trn
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run, spread
from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints
from prune_gui.pruning.kernels import group_loops as group_kernels
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates.predicate import ElementRank, Predicate
from prune_gui.pruning.selection.batched import mark_batched
from prune_gui.pruning.selection.keys import (
    KeySource,
    Ranking,
    ScoreKeys,
    with_equal_nans,
)
from prune_gui.pruning.selection.radix_select import Cut, RowCuts, RowShape, mark_codes, row_keys
from prune_gui.pruning.selection.row_column_scores import RowColumnScores


@dataclass(frozen=True, slots=True, eq=False)
class ElementCut(Predicate):
    """Prunes the elements whose keys are below a cut."""

    ranking: Ranking
    cut: Lazy[Cut]

    @property
    def lazy(self) -> Lazy[Cut]:
        return self.cut

    def _note(self, non_finite: int) -> str:
        return trn(
            "{count:,} NaN or infinite score ranks as the largest",
            "{count:,} NaN or infinite scores rank as the largest",
            non_finite,
        )

    def mark(self, start: int, step: int, codes: Codes) -> None:
        mark_codes(self.ranking.keys, self.cut(), start, step, codes)

    @staticmethod
    def mark_each(every: Sequence[ElementCut], bounds: Ints, step: int, codes: Codes) -> None:
        mark_batched(
            [one.ranking.keys for one in every], [one.cut() for one in every], bounds, step, codes
        )

    def covers(self, other: Predicate) -> bool:
        if not isinstance(other, ElementCut) or self.ranking.keys != other.ranking.keys:
            return False
        cut, lower = self.cut(), other.cut()
        return (cut.threshold, cut.last_tie) >= (lower.threshold, lower.last_tie)

    def element_rank(self, flat: int) -> ElementRank:
        cut = self.cut()
        keys = with_equal_nans(self.ranking.keys, key_at(self.ranking.keys, flat))
        key = key_at(keys, flat)
        ranking = replace(self.ranking, keys=keys)

        def count(span: tuple[int, int]) -> tuple[int, int]:
            bits, mask = keys.bits(*span), ranking.mask(*span)
            return _count_before(bits, keys, mask, key, flat - span[0])

        before, ranked = np.sum(list(run(count, chunks(keys.size))), axis=0).tolist()
        return ElementRank(
            pruned=key < cut.threshold or (key == cut.threshold and flat <= cut.last_tie),
            score=keys.value(key),
            cut=keys.value(cut.threshold) if cut.pruned else None,
            rank=before,
            ranked=ranked,
            factors=factors_at(self.ranking.keys, flat),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowCut(Predicate):
    """Prunes the elements of each row whose keys are below the cut of the row."""

    ranking: Ranking
    shape: RowShape
    cuts: Lazy[RowCuts]

    def mark(self, start: int, step: int, codes: Codes) -> None:
        cuts = self.cuts()
        keys = with_equal_nans(self.ranking.keys, int(cuts.thresholds.max()))
        bits = keys.bits(start, start + codes.size)
        key_kernels.mark_rows(
            bits,
            bits.dtype.type(keys.magnitude),
            cuts.thresholds,
            cuts.last_ties,
            self.shape.after,
            start,
            np.uint8(step),
            codes,
        )

    def element_rank(self, flat: int) -> ElementRank:
        cuts, (row, column) = self.cuts(), self.shape.row_and_column(flat)
        keys = with_equal_nans(self.ranking.keys, key_at(self.ranking.keys, flat))
        key, threshold = key_at(keys, flat), int(cuts.thresholds[row])
        bits, kept = row_keys(replace(self.ranking, keys=keys), self.shape, row)
        before, ranked = _count_before(bits, keys, kept, key, column)
        last = int(cuts.last_ties[row])
        return ElementRank(
            pruned=key < threshold or (key == threshold and column <= last),
            unit=tr("weight of row {row}", row=row),
            score=keys.value(key),
            cut=keys.value(threshold) if last >= 0 else None,
            rank=before,
            ranked=ranked,
            factors=factors_at(self.ranking.keys, flat),
        )


def key_at(keys: KeySource, flat: int) -> int:
    """Return the key of the element at a flat index."""
    return int(keys.bits(flat, flat + 1)[0]) & keys.magnitude


def factors_at(keys: KeySource, flat: int) -> tuple[float, float] | None:
    """Return the factors of the row and column of an element; None if its score has none."""
    scores = keys.scores if isinstance(keys, ScoreKeys) else None
    return scores.factors_at(flat) if isinstance(scores, RowColumnScores) else None


def _count_before(
    bits: Bits, keys: KeySource, mask: Flags | None, key: int, at: int
) -> tuple[int, int]:
    """Count the remaining of some elements: those that rank before the one at `at`, and all."""
    as_key = bits.dtype.type
    before, remaining = key_kernels.count_before(
        bits, as_key(keys.magnitude), mask, as_key(key), at
    )
    return int(before), int(remaining)


T = TypeVar("T", bound="np.generic[Any]")


@dataclass(frozen=True, slots=True)
class NMGroups:
    """The groups of `m` elements of a parameter.

    The parameter is a sequence of slabs of `length` times `inner` elements. From the start of a
    slab on, every `m` elements that are `inner` apart form a group, without those after the last
    whole group.
    """

    m: int
    length: int
    inner: int

    @property
    def slab(self) -> int:
        return self.length * self.inner

    @property
    def block(self) -> int:
        return self.m * self.inner

    def around(self, flat: int) -> tuple[int, int]:
        """Return the span that contains `flat`: a block of whole groups, or ungrouped elements."""
        slab, offset = divmod(flat, self.slab)
        whole = self.slab // self.block * self.block
        begin = min(offset // self.block * self.block, whole)
        return slab * self.slab + begin, slab * self.slab + min(begin + self.block, self.slab)


@dataclass(frozen=True, slots=True, eq=False)
class NMCut(Predicate):
    """Prunes the `going` lowest keys of each group, of equal ones the first.

    Those already pruned rank lowest. Nothing is cached: each call of `mark` ranks the groups of its
    span.
    """

    ranking: Ranking
    groups: NMGroups
    going: int

    def mark(self, start: int, step: int, codes: Codes) -> None:
        keys = self.ranking.keys
        lowest = self._lowest(keys.bits, keys.magnitude, start, start + codes.size)
        key_kernels.mark_where(lowest, np.uint8(step), codes)

    def total(self, size: int, monitor: Monitor) -> int:
        """Return the number of remaining elements to prune of all `size` elements."""
        groups = self.groups
        if self.ranking.remaining_mask is None:
            slabs = size // groups.slab
            return slabs * (groups.slab // groups.block) * groups.inner * self.going
        return sum(spread(self._count, chunks(size), monitor))

    def _count(self, span: tuple[int, int], monitor: Monitor) -> int:
        """Return the number of remaining elements in a span to prune if all keys were equal.

        The sum over all spans is the number that is pruned with any keys.
        """
        pruned = self._lowest(lambda a, b: np.zeros(b - a, np.uint8), 0x7F, *span)
        if self.ranking.remaining_mask is not None:
            pruned &= self.ranking.remaining_mask(*span)
        monitor.advance(span[1] - span[0])
        return int(np.count_nonzero(pruned))

    def element_rank(self, flat: int) -> ElementRank:
        begin, end = self.groups.around(flat)
        if end - begin < self.groups.block:
            return ElementRank(pruned=False, unit=tr("weight outside the groups"))
        keys, remaining_mask, inner = (
            self.ranking.keys,
            self.ranking.remaining_mask,
            self.groups.inner,
        )
        members = range(begin + (flat - begin) % inner, end, inner)
        keys_by_index = {
            i: key_at(keys, i) if remaining_mask is None or remaining_mask(i, i + 1)[0] else -1
            for i in members
        }
        order = sorted(members, key=keys_by_index.__getitem__)
        pruned_before = sum(key < 0 for key in keys_by_index.values())
        rank = order.index(flat)
        return ElementRank(
            pruned=rank < self.going,
            unit=tr("weight of a group of {m}", m=self.groups.m),
            score=keys.value(key_at(keys, flat)),
            cut=keys.value(keys_by_index[order[self.going - 1]])
            if self.going > pruned_before
            else None,
            rank=rank - pruned_before if rank >= pruned_before else None,
            ranked=len(order) - pruned_before,
            factors=factors_at(keys, flat),
        )

    def _lowest(
        self, bits: Callable[[int, int], Bits], magnitude: int, start: int, stop: int
    ) -> Flags:
        """Return where the lowest keys of each group are in [start, stop); reads whole groups."""
        if start == stop:
            return np.zeros(0, np.bool_)
        groups, remaining_mask = self.groups, self.ranking.remaining_mask
        inner, slab = groups.inner, groups.slab
        begin, end = groups.around(start)
        row, column = divmod(start - begin, inner)
        if end - begin == groups.block and column + stop - start <= inner:
            # The span has one member of each of several adjacent groups: read only these groups, as
            # a slab of their own.
            width = stop - start
            firsts = range(begin + column, end, inner)
            spans = [(first, first + width) for first in firsts]
            inner, slab, slab_offset, offset = width, width * groups.m, 0, row * width
        else:
            spans = [(begin, groups.around(stop - 1)[1])]
            slab_offset, offset = begin % slab, start - begin
        span_bits = _concatenated([bits(*span) for span in spans])
        mask = (
            None
            if remaining_mask is None
            else _concatenated([remaining_mask(*span) for span in spans])
        )
        out = np.empty(span_bits.size, np.bool_)
        as_key = span_bits.dtype.type
        group_kernels.mark_groups(
            span_bits, as_key(magnitude), mask, self.going, groups.m, inner, slab, slab_offset, out
        )
        return out[offset : offset + stop - start]


def _concatenated(arrays: Sequence[NDArray[T]]) -> NDArray[T]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
