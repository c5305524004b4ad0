"""Masks as a fold: the first step whose predicate holds is the step that prunes the element."""

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
    """A step, applied to one parameter.

    Attributes:
        step: the number of the step, from 1; `IN_FILE` for what is pruned in the file.
        predicate: holds for the elements that the step prunes.
    """

    step: int
    predicate: Predicate


Evaluate = Callable[[Sequence[AppliedStep], int, int, "NDArray[np.uint8] | None"], NDArray[Any]]
"""`pruned_by` or `kept`."""


def pruned_by(
    applied_steps: Sequence[AppliedStep],
    start: int,
    stop: int,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return the step that pruned each element with flat index in [start, stop), or `KEPT`.

    Args:
        start: the first flat index.
        stop: the flat index after the last.
        out: memory for the result, one byte per element; None: allocate it.
    """
    codes = np.empty(stop - start, np.uint8) if out is None else out
    codes[:] = KEPT
    for applied in applied_steps:
        applied.predicate.mark(start, applied.step, codes)
    return codes


def kept(
    applied_steps: Sequence[AppliedStep],
    start: int,
    stop: int,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.bool_]:
    """Return the mask of the flat indices [start, stop), True where kept; see `pruned_by`."""
    codes = pruned_by(applied_steps, start, stop, out)
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def kept_of_each(
    stacks: Sequence[Sequence[AppliedStep]], bounds: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return the masks of several whole parameters, concatenated; True where kept."""
    codes = np.full(bounds[-1], KEPT, np.uint8)
    for depth in range(max(map(len, stacks), default=0)):
        at_depth = [steps[depth] if depth < len(steps) else None for steps in stacks]
        first = 0
        for _, batch in groupby(at_depth, _batch_key):
            batched = list(batch)
            last = first + len(batched)
            if batched[0] is not None:
                predicates = [applied.predicate for applied in batched if applied is not None]
                mark = type(predicates[0]).mark_each
                start, stop = bounds[first], bounds[last]
                local_bounds = bounds[first : last + 1] - start
                mark(predicates, local_bounds, batched[0].step, codes[start:stop])
            first = last
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def _batch_key(applied: AppliedStep | None) -> tuple[int, type[Predicate]] | None:
    """Return a key that is equal for applied steps that can be marked in one call."""
    return None if applied is None else (applied.step, type(applied.predicate))


def remaining_mask_of(applied_steps: Sequence[AppliedStep]) -> RemainingMask | None:
    """Return a reader of the mask of remaining elements; None if no step targets the parameter."""
    return _Kept(tuple(applied_steps)) if applied_steps else None


@dataclass(frozen=True, slots=True)
class _Kept:
    """Computes the mask that some steps leave; equal for equal steps."""

    applied_steps: tuple[AppliedStep, ...]

    def __call__(self, start: int, stop: int) -> NDArray[np.bool_]:
        return kept(self.applied_steps, start, stop)

    @staticmethod
    def together(masks: Sequence[_Kept | None], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the masks of whole parameters, concatenated; None keeps everything."""
        return kept_of_each([mask.applied_steps if mask else () for mask in masks], bounds)
