"""The scores by which a step ranked the elements of a parameter."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.pruning.methods import ScoreKind
from prune_gui.pruning.predicates import ElementCut, NMCut, RowCut
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.recipe import Resolution
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.recipe.stack import AppliedStep


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one parameter, and how the steps prune by them.

    Attributes:
        kind: the kind of the scores.
        keys: one key per element, ordered as the scores; of LAMP scores, the keys of what these are
            computed from.
        layers: the applied steps, in order, without the step of `lowest`.
        lowest: (step, k) if a step prunes the k lowest elements that `layers` leave.
    """

    kind: ScoreKind
    keys: KeySource
    layers: tuple[AppliedStep, ...]
    lowest: tuple[int, int] | None = None


def scored_steps(resolution: Resolution, name: str) -> dict[int, ScoreKind]:
    """Return the steps that ranked single elements of a parameter, and the kind of score."""
    kinds: dict[int, ScoreKind] = {}
    for applied in resolution.layers.get(name, ()):
        kind = _kind(resolution, applied)
        if kind is not None and isinstance(applied.predicate, ElementCut | RowCut | NMCut):
            kinds[applied.step] = kind
    return kinds


def scores_of(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step with what all steps prune; None if the step has no scores."""
    applied_steps = resolution.layers.get(name, ())
    own = next((applied for applied in applied_steps if applied.step == step), None)
    if own is None or not isinstance(own.predicate, ElementCut | RowCut | NMCut):
        return None
    kind = _kind(resolution, own)
    if kind is None:
        return None
    return _scored(resolution, name, kind, own.predicate.ranking.keys, own)


def scores_before(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step with what earlier steps prune; None if it has no scores."""
    applied_steps = resolution.layers.get(name, ())
    index = next((i for i, applied in enumerate(applied_steps) if applied.step == step), None)
    scored = scores_of(resolution, name, step)
    if index is None or scored is None:
        return None
    return Scored(scored.kind, scored.keys, applied_steps[:index])


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


def _kind(resolution: Resolution, applied: AppliedStep) -> ScoreKind | None:
    """Return the kind of score by which a step ranks; None for what is pruned in the file."""
    steps = resolution.recipe.steps
    return steps[applied.step - 1].method.score_kind if applied.step <= len(steps) else None


def _scored(
    resolution: Resolution, name: str, kind: ScoreKind, keys: KeySource, own: AppliedStep
) -> Scored:
    """Return the scores by which the applied step `own` ranks.

    If `own` is the last step and prunes the lowest scores, its effect follows from the number that
    it prunes (`lowest`), so that a score histogram stays valid when the cut moves. Otherwise every
    step is counted by element.
    """
    applied_steps = resolution.layers[name]
    if applied_steps[-1] is not own or not isinstance(own.predicate, ElementCut):
        return Scored(kind, keys, applied_steps)
    if own.step > len(resolution.recipe.steps):  # pruned in the file
        return Scored(kind, keys, applied_steps)
    k = resolution.outcomes[own.step - 1].pruned[name]
    return Scored(kind, keys, applied_steps[:-1], (own.step, k))
