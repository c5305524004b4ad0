"""The decision of `NM`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import target_scores
from prune_gui.pruning.decisions.target import Decision, Target, dimension
from prune_gui.pruning.methods.n_m import NM
from prune_gui.pruning.parallel import chunks, spread
from prune_gui.pruning.predicates import NMCut, NMGroups
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning groups needs at least one dimension. Leave it out of the "
    "targets, or use an unstructured method."
)
UNEVEN: Final = deferred(
    "{name} has shape {shape}: {length:,} elements along dimension {dim} do not divide into groups "
    "of {m}. Set tail to keep to leave the last {rest} unpruned, or leave it out of the targets."
)
UNEVEN_AS_ONE: Final = deferred(
    "{name} has shape {shape}: {length:,} elements along dimension {dim} and those after it do not "
    "divide into groups of {m}. Set tail to keep to leave the last {rest} unpruned, or leave it "
    "out of the targets."
)


def decide(method: NM, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Compute the counts of unpruned targets from shapes; count the elements of others."""
    cuts = [_cut(method, target) for target in targets]
    counted_elements = sum(target.size for target in targets if target.remaining_mask is not None)
    decisions = []
    with monitor.plan(counted_elements):
        for target, cut in zip(targets, cuts, strict=True):
            monitor.advance()
            decisions.append(Decision(cut, _count(target, cut, monitor)))
    return decisions


def _cut(method: NM, target: Target) -> NMCut:
    dim = dimension(target, method.dim, min_dims=1, flat=FLAT)
    after = math.prod(target.shape[dim + 1 :])
    along = target.shape[dim]
    flatten = method.flatten
    if isinstance(method.dim, str):  # groups have no channels of the other kind
        others = target.layout.input_dim if method.dim == "output" else target.layout.output_dim
        flatten = flatten and others < dim
    groups = NMGroups(method.m, along * after, 1) if flatten else NMGroups(method.m, along, after)
    if groups.length % method.m and method.tail == "refuse":
        raise RecipeError(
            tr(
                UNEVEN_AS_ONE if flatten else UNEVEN,
                name=target.name,
                shape=list(target.shape),
                length=groups.length,
                dim=dim,
                m=method.m,
                rest=groups.length % method.m,
            )
        )
    keys = ScoreKeys.of(target_scores(method, target))
    return NMCut(Ranking(keys, target.remaining_mask), groups, method.m - method.n)


def _count(target: Target, cut: NMCut, monitor: Monitor) -> int:
    if target.remaining_mask is None:
        slabs = target.size // cut.groups.slab
        return slabs * (cut.groups.slab // cut.groups.block) * cut.groups.inner * cut.going

    return sum(spread(partial(_count_span, cut), chunks(target.size), monitor))


def _count_span(cut: NMCut, span: tuple[int, int], monitor: Monitor) -> int:
    monitor.advance(span[1] - span[0])
    return cut.count(*span)
