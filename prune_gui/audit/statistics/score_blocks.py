"""By what a step ranked entries, and where it cut: `Predicate.standing` for many at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.statistics.values import of_bits
from prune_gui.pruning.predicates import (
    BlockCut,
    ChannelCut,
    ElementCut,
    Groups,
    NMCut,
    Predicate,
    PrunedChannels,
    RowCut,
)
from prune_gui.pruning.selection.keys import Bits, KeySource, RandomKeys, ScoreKeys

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]

ALL: Flags = np.ones(0, np.bool_)
"""In the place of an array of flags: all are set."""


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """How a stretch of entries stood when a step ranked them.

    Attributes:
        scores: that they were ranked by; an array of its own, to be written to.
        cuts: the score of the last unit that goes; of any number where none goes.
        ranked: whether an entry was ranked, as far as the step itself decides.
        cut: whether anything goes where it was ranked.
    """

    scores: Numbers
    cuts: Numbers
    ranked: Flags
    cut: Flags


ElementRanks = Callable[[int, int], ScoreBlock]
"""For flat indices [start, stop)."""


@singledispatch
def element_ranks_of(_: Predicate) -> ElementRanks | None:
    """Return what tells how entries stood in a step; None if it did not rank them by a number."""
    return None


@element_ranks_of.register
def _(predicate: ElementCut) -> ElementRanks | None:
    keys = predicate.ranking.keys
    numbers = _numbers(keys)
    if numbers is None:
        return None

    def read(start: int, stop: int) -> ScoreBlock:
        cut, size = predicate.cut(), stop - start
        value = keys.value(cut.threshold) if cut.pruned else 0.0
        scores = numbers(keys.bits(start, stop))
        return ScoreBlock(scores, *_alike(size, value, goes=cut.pruned > 0))

    return read


@element_ranks_of.register
def _(predicate: RowCut) -> ElementRanks | None:
    keys = predicate.ranking.keys
    numbers = _numbers(keys)
    if numbers is None:
        return None

    def read(start: int, stop: int) -> ScoreBlock:
        cuts = predicate.cuts()
        first, last = start // predicate.columns, -(-stop // predicate.columns)
        row = np.arange(start, stop) // predicate.columns - first
        return ScoreBlock(
            numbers(keys.bits(start, stop)),
            numbers(cuts.thresholds[first:last])[row],
            np.ones(stop - start, np.bool_),
            (cuts.last_ties[first:last] >= 0)[row],
        )

    return read


@element_ranks_of.register
def _(predicate: NMCut) -> ElementRanks | None:
    keys, remaining_mask, groups = (
        predicate.ranking.keys,
        predicate.ranking.remaining_mask,
        predicate.groups,
    )
    numbers = _numbers(keys)
    if numbers is None:
        return None

    def read(start: int, stop: int) -> ScoreBlock:
        begin, end = groups.around(start)[0], groups.around(stop - 1)[1]
        scores = numbers(keys.bits(begin, end))
        left = (
            scores
            if remaining_mask is None
            else np.where(remaining_mask(begin, end), scores, -np.inf)
        )
        cuts, grouped = np.zeros(end - begin), np.zeros(end - begin, np.bool_)
        for part, members in _whole_groups(groups, begin, end):
            ordered = np.sort(left[part].reshape(members), axis=1)
            cuts[part] = np.broadcast_to(ordered[:, predicate.going - 1, None], members).reshape(-1)
            grouped[part] = True
        here = slice(start - begin, stop - begin)
        goes = grouped & (cuts > -np.inf if predicate.going else False)
        return ScoreBlock(scores[here], cuts[here], grouped[here], goes[here])

    return read


@element_ranks_of.register
def _(predicate: ChannelCut) -> ElementRanks:
    inner = math.prod(predicate.shape[predicate.dim + 1 :])

    def read(start: int, stop: int) -> ScoreBlock:
        units = np.arange(start, stop) // inner % predicate.shape[predicate.dim]
        return _of_units(predicate.chosen(), units, np.ones(stop - start, np.bool_))

    return read


@element_ranks_of.register
def _(predicate: BlockCut) -> ElementRanks:
    blocks = predicate.blocks

    def read(start: int, stop: int) -> ScoreBlock:
        row, column = np.divmod(np.arange(start, stop), blocks.columns)
        row, column = row // blocks.height, column // blocks.width
        inside = (row < blocks.down) & (column < blocks.across)
        units = np.where(inside, row * blocks.across + column, 0)
        return _of_units(predicate.chosen(), units, inside)

    return read


def _alike(size: int, cut: float, *, goes: bool) -> tuple[Numbers, Flags, Flags]:
    """Return what all entries of a stretch have in common, in arrays that take no memory."""
    return (
        np.broadcast_to(np.float64(cut), size),
        np.broadcast_to(np.True_, size),
        np.broadcast_to(np.bool_(goes), size),
    )


def _of_units(chosen: PrunedChannels, units: NDArray[np.intp], inside: Flags) -> ScoreBlock:
    """Return how entries stood by the units that they are in."""
    size = units.size
    if chosen.ranks is None or not chosen.ranks.size:
        return ScoreBlock(np.zeros(size), np.zeros(size), np.zeros(size, np.bool_), inside)
    ranks, going = chosen.ranks.astype(np.float64), chosen.ranks[chosen.pruned]
    cut = float(going.max()) if going.size else 0.0
    return ScoreBlock(ranks[units], np.full(size, cut), inside, np.full(size, going.size > 0))


def _numbers(keys: KeySource) -> Callable[[Bits], Numbers] | None:
    """Return what turns raw bits into the numbers that their keys stand for."""
    if isinstance(keys, ScoreKeys):
        return partial(_absolute, keys)
    if isinstance(keys, RandomKeys):
        return lambda bits: bits / np.float64(keys.magnitude + 1)
    return None


def _absolute(keys: ScoreKeys, bits: Bits) -> Numbers:
    with np.errstate(invalid="ignore"):  # some NaN are said to be invalid, and stay NaN
        found: Numbers = np.abs(of_bits(bits, keys.dtype), dtype=np.float64)
    return found


def _whole_groups(groups: Groups, begin: int, end: int) -> list[tuple[slice, tuple[int, int, int]]]:
    """Return the parts of [begin, end) that are whole groups, and as what to shape each.

    Members of a group lie along the middle dimension of that shape.
    """
    found = []
    for slab in range(begin // groups.slab, -(-end // groups.slab)):
        first = max(begin, slab * groups.slab)
        whole = slab * groups.slab + groups.slab // groups.block * groups.block
        last = min(end, whole)
        if last > first:
            shape = ((last - first) // groups.block, groups.m, groups.inner)
            found.append((slice(first - begin, last - begin), shape))
    return found
