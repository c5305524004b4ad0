"""Masks as a fold: the first step whose predicate holds is the step that pruned the entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.keys import Alive
from prune_gui.pruning.predicates import Predicate
from prune_gui.recipe.codes import KEPT


@dataclass(frozen=True, slots=True)
class Layer:
    """What one step says of one parameter."""

    step: int
    predicate: Predicate


def pruned_by(layers: Sequence[Layer], start: int, stop: int) -> NDArray[np.uint8]:
    """Return, for the flat entries [start, stop), the step that pruned each, or `KEPT`."""
    out = np.full(stop - start, KEPT, np.uint8)
    for layer in layers:
        fresh = layer.predicate.prunes(start, stop) & (out == KEPT)
        out += fresh.view(np.uint8) * np.uint8(layer.step)
    return out


def kept(layers: Sequence[Layer], start: int, stop: int) -> NDArray[np.bool_]:
    """Return, for the flat entries [start, stop), where no step prunes."""
    out = np.ones(stop - start, np.bool_)
    for layer in layers:
        np.logical_and(out, ~layer.predicate.prunes(start, stop), out=out)
    return out


def alive(layers: Sequence[Layer]) -> Alive | None:
    """Return what tells the entries still there; None if no step has touched the parameter."""
    if not layers:
        return None
    before = tuple(layers)
    return lambda start, stop: kept(before, start, stop)
