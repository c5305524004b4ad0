"""Masks as a fold: the first step whose predicate holds is the step that pruned the entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning import kernels
from prune_gui.pruning.keys import Alive
from prune_gui.pruning.predicates import Predicate
from prune_gui.recipe.codes import KEPT


@dataclass(frozen=True, slots=True)
class Layer:
    """What one step says of one parameter."""

    step: int
    predicate: Predicate


Part = Callable[[Sequence[Layer], int, int], NDArray[Any]]
"""`pruned_by` or `kept`."""


def pruned_by(layers: Sequence[Layer], start: int, stop: int) -> NDArray[np.uint8]:
    """Return, for the flat entries [start, stop), the step that pruned each, or `KEPT`."""
    out = np.full(stop - start, KEPT, np.uint8)
    for layer in layers:
        kernels.mark_step(layer.predicate.prunes(start, stop), np.uint8(layer.step), out)
    return out


def kept(layers: Sequence[Layer], start: int, stop: int) -> NDArray[np.bool_]:
    """Return, for the flat entries [start, stop), where no step prunes."""
    out = np.ones(stop - start, np.bool_)
    for layer in layers:
        np.greater(out, layer.predicate.prunes(start, stop), out=out)
    return out


def alive(layers: Sequence[Layer]) -> Alive | None:
    """Return what tells the entries still there; None if no step has touched the parameter."""
    return _Kept(tuple(layers)) if layers else None


@dataclass(frozen=True, slots=True)
class _Kept:
    """Tells what some layers leave; equal to whatever tells it of the same layers."""

    layers: tuple[Layer, ...]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        return kept(self.layers, start, stop)
