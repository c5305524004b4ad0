"""The lowest of every few consecutive entries."""

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
from prune_gui.pruning.predicates.cuts import key_at
from prune_gui.pruning.selection.keys import Bits
from prune_gui.pruning.selection.radix_select import Ranking

T = TypeVar("T", bound="np.generic[Any]")


@dataclass(frozen=True, slots=True)
class Groups:
    """How the entries of a parameter make groups of `m`.

    The parameter is a row of slabs of `length` times `inner` entries. In each, every `m` entries
    that lie `inner` apart are a group, from the start on; what is left at the end is in none.

    Attributes:
        m: members of a group.
        length: of the dimension along which groups lie.
        inner: entries from a member to the next.
    """

    m: int
    length: int
    inner: int

    @property
    def slab(self) -> int:
        """Entries of a slab."""
        return self.length * self.inner

    @property
    def block(self) -> int:
        """The fewest consecutive entries that hold whole groups."""
        return self.m * self.inner

    def around(self, flat: int) -> tuple[int, int]:
        """Return the consecutive entries of whole groups, or of none, that an entry is among."""
        slab, place = divmod(flat, self.slab)
        whole = self.slab // self.block * self.block
        begin = min(place // self.block * self.block, whole)
        return slab * self.slab + begin, slab * self.slab + min(begin + self.block, self.slab)


@dataclass(frozen=True, slots=True, eq=False)
class NMCut(Predicate):
    """Prunes in each group the entries of least key, those that are gone already first of all.

    Nothing is remembered: the groups of a stretch are ranked when it is asked for.

    Attributes:
        ranking: the entries.
        groups: which of them are ranked together.
        going: how many of each group go; of equal keys the lower index.
    """

    ranking: Ranking
    groups: Groups
    going: int
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        keys = self.ranking.keys
        lowest = self._lowest(keys.bits, keys.magnitude, start, start + codes.size)
        key_kernels.mark_where(lowest, np.uint8(step), codes)

    def count(self, start: int, stop: int) -> int:
        """Return how many entries of [start, stop) still there would go if all keys were equal.

        Added over all entries that is how many do go, whatever the keys.
        """
        equal = self._lowest(lambda a, b: np.zeros(b - a, np.uint8), 0x7F, start, stop)
        if self.ranking.remaining_mask is not None:
            equal &= self.ranking.remaining_mask(start, stop)
        return int(np.count_nonzero(equal))

    def element_rank(self, flat: int) -> ElementRank:
        """Return how the entry of that flat index stood in its group."""
        begin, end = self.groups.around(flat)
        if end - begin < self.groups.block:
            return ElementRank(pruned=False, unit=tr("entry outside the groups"))
        keys, remaining_mask, inner = (
            self.ranking.keys,
            self.ranking.remaining_mask,
            self.groups.inner,
        )
        members = range(begin + (flat - begin) % inner, end, inner)
        ranks = {
            i: key_at(keys, i) if remaining_mask is None or remaining_mask(i, i + 1)[0] else -1
            for i in members
        }
        order = sorted(members, key=ranks.__getitem__)
        gone = sum(rank < 0 for rank in ranks.values())
        place = order.index(flat)
        return ElementRank(
            pruned=place < self.going,
            unit=tr("entry of a group of {m}", m=self.groups.m),
            score=keys.value(key_at(keys, flat)),
            cut=keys.value(ranks[order[self.going - 1]]) if self.going > gone else None,
            rank=place - gone if place >= gone else None,
            ranked=len(order) - gone,
        )

    def _lowest(
        self, bits: Callable[[int, int], Bits], magnitude: int, start: int, stop: int
    ) -> NDArray[np.bool_]:
        """Rank by some bits all groups that [start, stop) has a part in; tell which of it go."""
        if start == stop:
            return np.zeros(0, np.bool_)
        groups, remaining_mask = self.groups, self.ranking.remaining_mask
        inner, slab = groups.inner, groups.slab
        begin, end = groups.around(start)
        row, column = divmod(start - begin, inner)
        if end - begin == groups.block and column + stop - start <= inner:
            # One member each of groups side by side: read those alone, as a slab of their own.
            width = stop - start
            firsts = range(begin + column, end, inner)
            pieces = [(first, first + width) for first in firsts]
            inner, slab, place, offset = width, width * groups.m, 0, row * width
        else:
            pieces = [(begin, groups.around(stop - 1)[1])]
            place, offset = begin % slab, start - begin
        found = _joined([bits(*piece) for piece in pieces])
        there = (
            None
            if remaining_mask is None
            else _joined([remaining_mask(*piece) for piece in pieces])
        )
        out = np.empty(found.size, np.bool_)
        as_key = found.dtype.type
        group_kernels.mark_groups(
            found, as_key(magnitude), there, self.going, groups.m, inner, slab, place, out
        )
        return out[offset : offset + stop - start]


def _joined(parts: Sequence[NDArray[T]]) -> NDArray[T]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
