"""The predicate of N:M pruning: the lowest elements of each group of `m`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr
from prune_gui.pruning.kernels import groups as group_kernels
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.predicates.cuts import factors_at, key_at
from prune_gui.pruning.selection.keys import Bits
from prune_gui.pruning.selection.ranking import Ranking

T = TypeVar("T", bound="np.generic[Any]")


@dataclass(frozen=True, slots=True)
class NMGroups:
    """The groups of `m` elements of a parameter.

    The parameter is a sequence of slabs of `length` times `inner` elements. From the start of a
    slab on, every `m` elements that are `inner` apart form a group. The elements after the last
    whole group are in no group.

    Attributes:
        m: members of a group.
        length: size of the dimension along which groups lie.
        inner: distance between members, in elements.
    """

    m: int
    length: int
    inner: int

    @property
    def slab(self) -> int:
        """Elements of a slab."""
        return self.length * self.inner

    @property
    def block(self) -> int:
        """The minimum number of consecutive elements that hold whole groups."""
        return self.m * self.inner

    def around(self, flat: int) -> tuple[int, int]:
        """Return the span that contains `flat`: a block of whole groups, or ungrouped elements."""
        slab, offset = divmod(flat, self.slab)
        whole = self.slab // self.block * self.block
        begin = min(offset // self.block * self.block, whole)
        return slab * self.slab + begin, slab * self.slab + min(begin + self.block, self.slab)


@dataclass(frozen=True, slots=True, eq=False)
class NMCut(Predicate):
    """Prunes the elements of lowest key in each group; those already pruned rank lowest.

    Nothing is cached: each call of `mark` ranks the groups of its span.

    Attributes:
        ranking: the ranked elements.
        groups: the groups in which they are ranked.
        going: number of elements to prune per group; of equal keys the lower index first.
    """

    ranking: Ranking
    groups: NMGroups
    going: int
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        keys = self.ranking.keys
        lowest = self._lowest(keys.bits, keys.magnitude, start, start + codes.size)
        key_kernels.mark_where(lowest, np.uint8(step), codes)

    def count(self, start: int, stop: int) -> int:
        """Return the number of remaining elements in [start, stop) to prune if all keys were equal.

        The sum over all elements is the number that is pruned with any keys.
        """
        pruned = self._lowest(lambda a, b: np.zeros(b - a, np.uint8), 0x7F, start, stop)
        if self.ranking.remaining_mask is not None:
            pruned &= self.ranking.remaining_mask(start, stop)
        return int(np.count_nonzero(pruned))

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank in its group of the element at a flat index."""
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
    ) -> NDArray[np.bool_]:
        """Return a boolean array over [start, stop), True at the lowest keys of each group.

        All groups that overlap the span are read. `bits` returns the raw bits of a span.
        """
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
