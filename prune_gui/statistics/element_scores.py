"""The scores by which a step ranked the elements of a parameter, of each, and where it cuts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Bits, Flags, Numbers
from prune_gui.pruning.methods import LAMP_KINDS, ScoreKind
from prune_gui.pruning.predicates import (
    BlockCut,
    ChannelCut,
    ElementCut,
    NMCut,
    Predicate,
    PrunedUnits,
    RowCut,
)
from prune_gui.pruning.selection.keys import KeySource, RandomKeys, ScoreKeys
from prune_gui.recipe import Resolution
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.recipe.stack import AppliedStep
from prune_gui.statistics.weight_values import of_bits


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one parameter, and how the steps prune by them.

    There is a key per element; those of LAMP scores are the keys of what these are computed from.
    If a step prunes the k lowest elements that `layers` leave, `lowest` is (step, k).
    """

    kind: ScoreKind
    keys: KeySource
    layers: tuple[AppliedStep, ...]
    lowest: tuple[int, int] | None = None


def scored_steps(resolution: Resolution, name: str) -> dict[int, ScoreKind]:
    """Return the steps that ranked single elements of a parameter, and the kind of score."""
    kinds: dict[int, ScoreKind] = {}
    steps = resolution.recipe.steps
    for applied in resolution.layers.get(name, ()):
        if applied.step <= len(steps) and isinstance(
            applied.predicate, ElementCut | RowCut | NMCut
        ):
            kind = steps[applied.step - 1].method.score_kind
            if kind is not None:
                kinds[applied.step] = kind
    return kinds


def scores_of(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step with what all steps prune; None if the step has no scores."""
    kind = scored_steps(resolution, name).get(step)
    if kind is None:
        return None
    [own] = (applied for applied in resolution.layers[name] if applied.step == step)
    assert isinstance(own.predicate, ElementCut | RowCut | NMCut)
    return _scored(resolution, name, kind, own.predicate.ranking.keys, own)


def scores_before(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step with what earlier steps prune; None if it has no scores."""
    scored = scores_of(resolution, name, step)
    if scored is None:
        return None
    earlier = takewhile(lambda applied: applied.step != step, resolution.layers[name])
    return Scored(scored.kind, scored.keys, tuple(earlier))


def weights_of(resolution: Resolution, name: str) -> Scored:
    """Return the absolute weights of a parameter as scores, with what all steps prune."""
    weights = weight_reader(resolution.checkpoint, resolution.checkpoint.tensors[name])
    applied_steps = resolution.layers.get(name, ())
    last = applied_steps[-1] if applied_steps else None
    if last is not None and isinstance(last.predicate, ElementCut):
        keys = last.predicate.ranking.keys
        if isinstance(keys, ScoreKeys) and keys.scores == weights:
            return _scored(resolution, name, "weights", keys, last)
    return Scored("weights", ScoreKeys.of(weights), applied_steps)


def _scored(
    resolution: Resolution, name: str, kind: ScoreKind, keys: KeySource, own: AppliedStep
) -> Scored:
    """Return the scores by which the applied step `own` ranks.

    If `own` is last and prunes the lowest scores, its effect follows from their number, so that a
    score histogram stays valid when the cut moves. Otherwise every step is counted by element.
    """
    applied_steps = resolution.layers[name]
    in_file = own.step > len(resolution.recipe.steps)
    if in_file or applied_steps[-1] is not own or not isinstance(own.predicate, ElementCut):
        return Scored(kind, keys, applied_steps)
    k = resolution.outcomes[own.step - 1].pruned[name]
    return Scored(kind, keys, applied_steps[:-1], (own.step, k))


ALL: Flags = np.ones(0, np.bool_)
"""An empty array in place of flags: all are True."""


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """The scores of a span of elements in a step. Each array has one value per element.

    Attributes:
        scores: a new array, which the caller may overwrite.
        cuts: the score of the last pruned unit; arbitrary where `cut` is False.
        ranked: whether the step ranked the element; ignores what earlier steps pruned.
        cut: whether the step prunes anything in the group in which it ranked the element.
    """

    scores: Numbers
    cuts: Numbers
    ranked: Flags
    cut: Flags


ElementRanks = Callable[[int, int], ScoreBlock]
"""From start and stop to the scores of the flat indices [start, stop)."""
NumbersOf = Callable[[Bits], Numbers]
"""From raw bits to the scores that they represent."""


def element_ranks_of(predicate: Predicate) -> ElementRanks | None:
    """Return a reader of the scores of a step; None if it does not rank by a number."""
    if isinstance(predicate, ChannelCut):
        return partial(_of_channels, predicate)
    if isinstance(predicate, BlockCut):
        return partial(_of_blocks, predicate)
    if not isinstance(predicate, ElementCut | RowCut | NMCut):
        return None
    numbers = _numbers(predicate.ranking.keys)
    if numbers is None:
        return None
    if isinstance(predicate, ElementCut):
        return partial(_of_elements, predicate, numbers)
    if isinstance(predicate, RowCut):
        return partial(_of_rows, predicate, numbers)
    return partial(_of_groups, predicate, numbers)


def _of_elements(predicate: ElementCut, numbers: NumbersOf, start: int, stop: int) -> ScoreBlock:
    cut, keys, size = predicate.cut(), predicate.ranking.keys, stop - start
    value = keys.value(cut.threshold) if cut.pruned else 0.0
    return ScoreBlock(
        numbers(keys.bits(start, stop)),
        np.broadcast_to(np.float64(value), size),
        np.broadcast_to(np.True_, size),
        np.broadcast_to(np.bool_(cut.pruned > 0), size),
    )


def _of_rows(predicate: RowCut, numbers: NumbersOf, start: int, stop: int) -> ScoreBlock:
    cuts = predicate.cuts()
    row = np.arange(start, stop) // predicate.shape.after % predicate.shape.rows
    return ScoreBlock(
        numbers(predicate.ranking.keys.bits(start, stop)),
        numbers(cuts.thresholds)[row],
        np.ones(stop - start, np.bool_),
        (cuts.last_ties >= 0)[row],
    )


def _of_groups(predicate: NMCut, numbers: NumbersOf, start: int, stop: int) -> ScoreBlock:
    groups, remaining_mask = predicate.groups, predicate.ranking.remaining_mask
    begin, end = groups.around(start)[0], groups.around(stop - 1)[1]
    scores = remaining_scores = numbers(predicate.ranking.keys.bits(begin, end))
    if remaining_mask is not None:
        remaining_scores = np.where(remaining_mask(begin, end), scores, -np.inf)
    cuts, grouped = np.zeros(end - begin), np.zeros(end - begin, np.bool_)
    for slab in range(begin // groups.slab, -(-end // groups.slab)):
        first = max(begin, slab * groups.slab)
        whole = slab * groups.slab + groups.slab // groups.block * groups.block
        part = slice(first - begin, min(end, whole) - begin)
        if part.start >= part.stop:
            continue
        shape = ((part.stop - part.start) // groups.block, groups.m, groups.inner)
        ordered = np.sort(remaining_scores[part].reshape(shape), axis=1)
        cuts[part] = np.broadcast_to(ordered[:, predicate.going - 1, None], shape).reshape(-1)
        grouped[part] = True
    span = slice(start - begin, stop - begin)
    prunes = grouped & (cuts > -np.inf if predicate.going else False)
    return ScoreBlock(scores[span], cuts[span], grouped[span], prunes[span])


def _of_channels(predicate: ChannelCut, start: int, stop: int) -> ScoreBlock:
    inner = math.prod(predicate.shape[predicate.dim + 1 :])
    units = np.arange(start, stop) // inner % predicate.shape[predicate.dim]
    return _of_units(predicate.chosen(), units, np.ones(stop - start, np.bool_))


def _of_blocks(predicate: BlockCut, start: int, stop: int) -> ScoreBlock:
    blocks = predicate.blocks
    row, column = np.divmod(np.arange(start, stop), blocks.columns)
    row, column = row // blocks.height, column // blocks.width
    inside = (row < blocks.down) & (column < blocks.across)
    units = np.where(inside, row * blocks.across + column, 0)
    return _of_units(predicate.chosen(), units, inside)


def _of_units(chosen: PrunedUnits, units: NDArray[np.intp], inside: Flags) -> ScoreBlock:
    size = units.size
    if chosen.ranks is None or not chosen.ranks.size:
        return ScoreBlock(np.zeros(size), np.zeros(size), np.zeros(size, np.bool_), inside)
    ranks, pruned = chosen.ranks.astype(np.float64), chosen.ranks[chosen.pruned]
    cut = float(pruned.max()) if pruned.size else 0.0
    return ScoreBlock(ranks[units], np.full(size, cut), inside, np.full(size, pruned.size > 0))


def _numbers(keys: KeySource) -> NumbersOf | None:
    if isinstance(keys, ScoreKeys):
        return partial(_absolute, keys)
    if isinstance(keys, RandomKeys):
        return lambda bits: bits / np.float64(keys.magnitude + 1)
    return None


def _absolute(keys: ScoreKeys, bits: Bits) -> Numbers:
    with np.errstate(invalid="ignore"):  # numpy warns about some NaN, which stay NaN
        absolute: Numbers = np.abs(of_bits(bits, keys.dtype), dtype=np.float64)
    return absolute


@dataclass(frozen=True, slots=True)
class StepCut:
    """The cut of a step in one parameter, by absolute weight or score: it prunes those below.

    It is `inclusive` if it prunes some that equal the value. `shared` is the cut of all targets if
    the step stops before it in this parameter because of its `max_sparsity`.
    """

    value: float
    inclusive: bool = True
    shared: float | None = None


def weight_cuts(resolution: Resolution, name: str) -> dict[int, StepCut]:
    """Return the finite cut in the absolute weights of a parameter for each step that has one."""
    cuts = {}
    for applied in resolution.layers.get(name, ()):
        if applied.step == IN_FILE:
            continue
        is_ranked = resolution.recipe.steps[applied.step - 1].method.ranks_weights
        if is_ranked and (cut := _cut(resolution, applied, float)) is not None:
            cuts[applied.step] = cut
    return cuts


def score_cut(
    resolution: Resolution, name: str, step: int, score_at: Callable[[float], float]
) -> StepCut | None:
    """Return the finite cut of a step in its own scores of a parameter, if it has one."""
    [applied] = (one for one in resolution.layers[name] if one.step == step)
    return _cut(resolution, applied, score_at)


def _cut(
    resolution: Resolution, applied: AppliedStep, score_at: Callable[[float], float]
) -> StepCut | None:
    predicate = applied.predicate
    if not isinstance(predicate, ElementCut):
        return None
    cut, keys = predicate.cut(), predicate.ranking.keys

    def number(key: int) -> float:
        return score_at(keys.value(key))

    value, shared_key = number(cut.threshold), _shared_threshold(resolution, applied.step)
    if not math.isfinite(value):
        return None
    is_limited = shared_key is not None and shared_key > cut.threshold
    shared = number(shared_key) if shared_key is not None and is_limited else math.inf
    return StepCut(value, cut.last_tie >= 0, shared if math.isfinite(shared) else None)


def _shared_threshold(resolution: Resolution, step: int) -> int | None:
    """Return the key at which a step with a limit cuts targets that it does not limit."""
    method, outcome = resolution.recipe.steps[step - 1].method, resolution.outcomes[step - 1]
    if (
        method.ranking_scope != "global"
        or method.score_kind in LAMP_KINDS  # no common weight or score
        or getattr(method, "max_sparsity", 1.0) == 1.0
    ):
        return None
    cuts = [one.cut() for one in outcome.predicates.values() if isinstance(one, ElementCut)]
    return max((cut.threshold for cut in cuts if cut.pruned), default=None)
