"""Masks as a fold: the first step whose predicate holds is the step that pruned the entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.predicates import Predicate
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.recipe.pruned_by_codes import KEPT


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """What one step says of one parameter."""

    step: int
    predicate: Predicate


Part = Callable[[Sequence[AppliedStep], int, int, "NDArray[np.uint8] | None"], NDArray[Any]]
"""`pruned_by` or `kept`."""


def pruned_by(
    layers: Sequence[AppliedStep], start: int, stop: int, out: NDArray[np.uint8] | None = None
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
    layers: Sequence[AppliedStep], start: int, stop: int, out: NDArray[np.uint8] | None = None
) -> NDArray[np.bool_]:
    """Return, for the flat entries [start, stop), where no step prunes; as `pruned_by`."""
    codes = pruned_by(layers, start, stop, out)
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def kept_of_each(
    every: Sequence[Sequence[AppliedStep]], bounds: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return where no step prunes, for whole parameters, one after the other.

    Args:
        every: the layers of each.
        bounds: where each parameter begins, and where the last one ends.
    """
    codes = np.full(bounds[-1], KEPT, np.uint8)
    for depth in range(max(map(len, every), default=0)):
        at = [layers[depth] if depth < len(layers) else None for layers in every]
        first = 0
        for _, alike in groupby(at, _kind):
            some = list(alike)
            last = first + len(some)
            if some[0] is not None:
                predicates = [layer.predicate for layer in some if layer is not None]
                mark = type(predicates[0]).mark_each
                start, stop = bounds[first], bounds[last]
                here = bounds[first : last + 1] - start
                mark(predicates, here, some[0].step, codes[start:stop])
            first = last
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def _kind(layer: AppliedStep | None) -> tuple[int, type[Predicate]] | None:
    """Return what layers that are marked at once have in common."""
    return None if layer is None else (layer.step, type(layer.predicate))


def remaining_mask_of(layers: Sequence[AppliedStep]) -> RemainingMask | None:
    """Return what tells the entries still there; None if no step has touched the parameter."""
    return _Kept(tuple(layers)) if layers else None


@dataclass(frozen=True, slots=True)
class _Kept:
    """Tells what some layers leave; equal to whatever tells it of the same layers."""

    layers: tuple[AppliedStep, ...]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        return kept(self.layers, start, stop)

    @staticmethod
    def together(every: Sequence[_Kept | None], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return what they tell of whole parameters, one after the other; None is all."""
        return kept_of_each([one.layers if one else () for one in every], bounds)
