"""The scores and cuts of a span of elements in one step: `Predicate.element_rank`, vectorized."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.predicates import (
    BlockCut,
    ChannelCut,
    ElementCut,
    NMCut,
    NMGroups,
    Predicate,
    PrunedUnits,
    RowCut,
)
from prune_gui.pruning.selection.keys import Bits, KeySource, RandomKeys, ScoreKeys
from prune_gui.statistics.values import of_bits

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]

ALL: Flags = np.ones(0, np.bool_)
"""An empty array in place of flags: all are True."""


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """The scores of a span of elements in a step. Each array has one value per element.

    Attributes:
        scores: float64, the score; a new array, which the caller may overwrite.
        cuts: float64, the score of the last pruned unit; arbitrary where `cut` is False.
        ranked: whether the step ranked the element; ignores what earlier steps pruned.
        cut: whether the step prunes anything in the group in which it ranked the element.
    """

    scores: Numbers
    cuts: Numbers
    ranked: Flags
    cut: Flags


ElementRanks = Callable[[int, int], ScoreBlock]
"""From start and stop to the scores of the flat indices [start, stop)."""


@singledispatch
def element_ranks_of(_: Predicate) -> ElementRanks | None:
    """Return a reader of the scores of a step; None if it does not rank by a number."""
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
        return ScoreBlock(scores, *_uniform(size, value, prunes=cut.pruned > 0))

    return read


@element_ranks_of.register
def _(predicate: RowCut) -> ElementRanks | None:
    keys = predicate.ranking.keys
    numbers = _numbers(keys)
    if numbers is None:
        return None

    def read(start: int, stop: int) -> ScoreBlock:
        cuts = predicate.cuts()
        row = np.arange(start, stop) // predicate.shape.after % predicate.shape.rows
        return ScoreBlock(
            numbers(keys.bits(start, stop)),
            numbers(cuts.thresholds)[row],
            np.ones(stop - start, np.bool_),
            (cuts.last_ties >= 0)[row],
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
        remaining_scores = (
            scores
            if remaining_mask is None
            else np.where(remaining_mask(begin, end), scores, -np.inf)
        )
        cuts, grouped = np.zeros(end - begin), np.zeros(end - begin, np.bool_)
        for part, shape in _whole_groups(groups, begin, end):
            ordered = np.sort(remaining_scores[part].reshape(shape), axis=1)
            cuts[part] = np.broadcast_to(ordered[:, predicate.going - 1, None], shape).reshape(-1)
            grouped[part] = True
        span = slice(start - begin, stop - begin)
        prunes = grouped & (cuts > -np.inf if predicate.going else False)
        return ScoreBlock(scores[span], cuts[span], grouped[span], prunes[span])

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


def _uniform(size: int, cut: float, *, prunes: bool) -> tuple[Numbers, Flags, Flags]:
    """Return cuts, ranked and cut of a `ScoreBlock` with equal values, as broadcast arrays."""
    return (
        np.broadcast_to(np.float64(cut), size),
        np.broadcast_to(np.True_, size),
        np.broadcast_to(np.bool_(prunes), size),
    )


def _of_units(chosen: PrunedUnits, units: NDArray[np.intp], inside: Flags) -> ScoreBlock:
    """Return the scores of elements, given the unit that each belongs to."""
    size = units.size
    if chosen.ranks is None or not chosen.ranks.size:
        return ScoreBlock(np.zeros(size), np.zeros(size), np.zeros(size, np.bool_), inside)
    ranks, pruned = chosen.ranks.astype(np.float64), chosen.ranks[chosen.pruned]
    cut = float(pruned.max()) if pruned.size else 0.0
    return ScoreBlock(ranks[units], np.full(size, cut), inside, np.full(size, pruned.size > 0))


def _numbers(keys: KeySource) -> Callable[[Bits], Numbers] | None:
    """Return a function from raw bits to the scores that they represent; None if unknown."""
    if isinstance(keys, ScoreKeys):
        return partial(_absolute, keys)
    if isinstance(keys, RandomKeys):
        return lambda bits: bits / np.float64(keys.magnitude + 1)
    return None


def _absolute(keys: ScoreKeys, bits: Bits) -> Numbers:
    with np.errstate(invalid="ignore"):  # numpy warns about some NaN, which stay NaN
        absolute: Numbers = np.abs(of_bits(bits, keys.dtype), dtype=np.float64)
    return absolute


def _whole_groups(
    groups: NMGroups, begin: int, end: int
) -> list[tuple[slice, tuple[int, int, int]]]:
    """Return the parts of [begin, end) that consist of whole groups, and the shape of each.

    The members of a group are along the middle dimension of the shape.
    """
    parts = []
    for slab in range(begin // groups.slab, -(-end // groups.slab)):
        first = max(begin, slab * groups.slab)
        whole = slab * groups.slab + groups.slab // groups.block * groups.block
        last = min(end, whole)
        if last > first:
            shape = ((last - first) // groups.block, groups.m, groups.inner)
            parts.append((slice(first - begin, last - begin), shape))
    return parts
