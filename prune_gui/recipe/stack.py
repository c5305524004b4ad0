"""Masks as a fold: the first step whose predicate holds is the step that pruned the entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


Part = Callable[[Sequence[Layer], int, int, "NDArray[np.uint8] | None"], NDArray[Any]]
"""`pruned_by` or `kept`."""


def pruned_by(
    layers: Sequence[Layer], start: int, stop: int, out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Return, for the flat entries [start, stop), the step that pruned each, or `KEPT`.

    Args:
        layers: of the parameter, in order.
        start: the first entry.
        stop: the one after the last.
        out: memory for the answer, one byte per entry; new memory if None.
    """
    codes = np.empty(stop - start, np.uint8) if out is None else out
    codes[:] = KEPT
    for layer in layers:
        layer.predicate.mark(start, layer.step, codes)
    return codes


def kept(
    layers: Sequence[Layer], start: int, stop: int, out: NDArray[np.uint8] | None = None
) -> NDArray[np.bool_]:
    """Return, for the flat entries [start, stop), where no step prunes; as `pruned_by`."""
    codes = pruned_by(layers, start, stop, out)
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def alive(layers: Sequence[Layer]) -> Alive | None:
    """Return what tells the entries still there; None if no step has touched the parameter."""
    return _Kept(tuple(layers)) if layers else None


@dataclass(frozen=True, slots=True)
class _Kept:
    """Tells what some layers leave; equal to whatever tells it of the same layers."""

    layers: tuple[Layer, ...]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        return kept(self.layers, start, stop)
