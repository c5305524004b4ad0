"""What a step ranked the entries of a parameter by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prune_gui.pruning.methods import ScoredMethod
from prune_gui.pruning.methods.lamp import Lamp
from prune_gui.pruning.predicates import ElementCut, NMCut, RowCut
from prune_gui.pruning.selection.keys import KeySource, ScoreKeys
from prune_gui.recipe import Resolution
from prune_gui.recipe.auxiliary_files import file_entries
from prune_gui.recipe.stack import AppliedStep

Kind = Literal["weights", "scores", "lamp", "random"]
"""Absolute weights; absolute scores of another source; LAMP scores; draws between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one parameter, and which of them go.

    Attributes:
        kind: of the scores.
        keys: one per entry, in the order of the scores; of absolute weights where `kind` is LAMP.
        layers: what pruned entries, in order; without that of `lowest`.
        lowest: (step, k) if a step prunes the k lowest of those that `layers` leave.
        cut: up to which key that step prunes; None without such a step.
    """

    kind: Kind
    keys: KeySource
    layers: tuple[AppliedStep, ...]
    lowest: tuple[int, int] | None = None
    cut: int | None = None


def scored_steps(resolution: Resolution, name: str) -> dict[int, Kind]:
    """Return which steps ranked single entries of a parameter, and by what."""
    found: dict[int, Kind] = {}
    for layer in resolution.layers.get(name, ()):
        if isinstance(layer.predicate, ElementCut | RowCut | NMCut) and layer.step <= len(
            resolution.recipe.steps
        ):
            found[layer.step] = _kind(resolution, layer)
    return found


def scores_of(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step, and what all steps prune by them; None if it has none."""
    layers = resolution.layers.get(name, ())
    own = next((layer for layer in layers if layer.step == step), None)
    if own is None or not isinstance(own.predicate, ElementCut | RowCut | NMCut):
        return None
    kind, keys = _kind(resolution, own), own.predicate.ranking.keys
    return _scored(resolution, name, kind, keys, own)


def found_by(resolution: Resolution, name: str, step: int) -> Scored | None:
    """Return the scores of a step and what was pruned before it; None if it has none."""
    layers = resolution.layers.get(name, ())
    place = next((i for i, layer in enumerate(layers) if layer.step == step), None)
    whole = scores_of(resolution, name, step)
    if place is None or whole is None:
        return None
    return Scored(whole.kind, whole.keys, layers[:place])


def weights_of(resolution: Resolution, name: str) -> Scored:
    """Return the absolute weights of a parameter as scores, and what all steps prune by them."""
    entries = file_entries(resolution.checkpoint, resolution.checkpoint.tensors[name])
    layers = resolution.layers.get(name, ())
    last = layers[-1] if layers else None
    if last is not None and isinstance(last.predicate, ElementCut):
        keys = last.predicate.ranking.keys
        if isinstance(keys, ScoreKeys) and keys.scores == entries:
            return _scored(resolution, name, "weights", keys, last)
    return Scored("weights", ScoreKeys.of(entries), layers)


def _kind(resolution: Resolution, layer: AppliedStep) -> Kind:
    method = resolution.recipe.steps[layer.step - 1].method
    if not isinstance(method, ScoredMethod):
        return "random"
    if not method.ranks_weights:
        return "scores"
    return "lamp" if isinstance(method, Lamp) else "weights"


def _scored(
    resolution: Resolution, name: str, kind: Kind, keys: KeySource, own: AppliedStep
) -> Scored:
    """Return scores, and what becomes of them when `own` is a layer that ranks by them.

    If it is the last layer and prunes the lowest, that follows from how many it prunes, and a
    spectrum outlives a change of its cut. Else all layers are to be counted entry by entry.
    """
    layers = resolution.layers[name]
    if layers[-1] is not own or not isinstance(own.predicate, ElementCut):
        return Scored(kind, keys, layers, cut=_cut(own))
    if own.step > len(resolution.recipe.steps):  # pruned in the file
        return Scored(kind, keys, layers)
    k = resolution.outcomes[own.step - 1].pruned[name]
    return Scored(kind, keys, layers[:-1], (own.step, k), _cut(own))


def _cut(own: AppliedStep) -> int | None:
    return own.predicate.cut().threshold if isinstance(own.predicate, ElementCut) else None
