"""Masks as a fold: the first step whose predicate holds is the step that prunes the element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.parallel import chunks, run
from prune_gui.pruning.arrays import Codes, Flags, Ints
from prune_gui.pruning.predicates import Predicate
from prune_gui.pruning.selection.keys import RemainingMask
from prune_gui.recipe.recipe import KEPT

Tile = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """A step, applied to one parameter; `predicate` holds for the elements that it prunes."""

    step: int
    predicate: Predicate


Evaluate = Callable[[Sequence[AppliedStep], int, int, Codes | None], NDArray[Any]]
"""`pruned_by` or `kept`."""


def pruned_by(
    applied_steps: Sequence[AppliedStep], start: int, stop: int, out: Codes | None = None
) -> Codes:
    """Return the step that pruned each element with flat index in [start, stop), or `KEPT`."""
    codes = np.empty(stop - start, np.uint8) if out is None else out
    codes[:] = KEPT
    for applied in applied_steps:
        applied.predicate.mark(start, applied.step, codes)
    return codes


def kept(
    applied_steps: Sequence[AppliedStep], start: int, stop: int, out: Codes | None = None
) -> Flags:
    """Return the mask of the flat indices [start, stop), True where kept; see `pruned_by`."""
    codes = pruned_by(applied_steps, start, stop, out)
    return np.equal(codes, KEPT, out=codes.view(np.bool_))


def kept_of_each(stacks: Sequence[Sequence[AppliedStep]], bounds: Ints) -> Flags:
    """Return the masks of several whole parameters, concatenated; True where kept."""
    codes = np.full(bounds[-1], KEPT, np.uint8)
    for depth in range(max(map(len, stacks), default=0)):
        at_depth = [steps[depth] if depth < len(steps) else None for steps in stacks]
        first = 0
        for _, batch in groupby(at_depth, lambda one: one and (one.step, type(one.predicate))):
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


def remaining_mask_of(applied_steps: Sequence[AppliedStep]) -> RemainingMask | None:
    """Return a reader of the mask of remaining elements; None if no step targets the parameter."""
    return _Kept(tuple(applied_steps)) if applied_steps else None


@dataclass(frozen=True, slots=True)
class _Kept:
    applied_steps: tuple[AppliedStep, ...]

    def __call__(self, start: int, stop: int) -> Flags:
        return kept(self.applied_steps, start, stop)

    @staticmethod
    def together(masks: Sequence[_Kept | None], bounds: Ints) -> Flags:
        """Return the masks of whole parameters, concatenated; None keeps everything."""
        return kept_of_each([mask.applied_steps if mask else () for mask in masks], bounds)


@dataclass(frozen=True, eq=False)
class Masks:
    """The masks of the parameters of a checkpoint, which must stay open."""

    checkpoint: Checkpoint
    layers: Mapping[str, tuple[AppliedStep, ...]]

    def mask(self, name: str, tile: Tile | None = None) -> torch.Tensor:
        """Return a boolean tensor of the parameter's shape, True where kept.

        Args:
            tile: one slice of step 1 per dimension; None: the whole parameter.

        Raises:
            RecipeError: the checkpoint has no such parameter, or the parameter has no such tile.
            CheckpointError: the file changed while it was read.
        """
        if tile is not None:
            return self._tile(name, tile) == KEPT
        return self._whole(name, kept, torch.bool)

    def pruned_by(self, name: str, tile: Tile | None = None) -> torch.Tensor:
        """Return the step that pruned each element, as torch.uint8 of the parameter's shape.

        0: kept; i: pruned by step i (from 1); 255: pruned in the file. Arguments and errors are
        those of `mask`.
        """
        if tile is not None:
            return self._tile(name, tile)
        return self._whole(name, pruned_by, torch.uint8)

    def pruned_by_within(self, name: str, start: int, stop: int, out: Codes | None = None) -> Codes:
        """Return `pruned_by` of the elements with flat (row-major) indices [start, stop)."""
        return pruned_by(self.layers.get(name, ()), start, stop, out)

    def _whole(self, name: str, evaluate: Evaluate, dtype: torch.dtype) -> torch.Tensor:
        shape, applied_steps = self._info(name).shape, self.layers.get(name, ())
        out = np.empty(shape, np.uint8)
        flat = out.reshape(-1)

        def fill(span: tuple[int, int]) -> None:
            evaluate(applied_steps, *span, flat[slice(*span)])

        for _ in run(fill, chunks(flat.size)):
            pass
        self.checkpoint.check()
        return torch.from_numpy(out).view(dtype)

    def _tile(self, name: str, tile: Tile) -> torch.Tensor:
        shape = self._info(name).shape
        fits = isinstance(tile, tuple) and len(tile) == len(shape)
        if not fits or any(not isinstance(p, slice) or p.step not in (None, 1) for p in tile):
            raise RecipeError(
                "{name} has shape {shape}; a tile of it is a tuple with a slice of step 1 for each "
                "dimension.",
                name=name,
                shape=list(shape),
            )
        ranges = [range(*part.indices(n)) for part, n in zip(tile, shape, strict=True)]
        out = np.empty([len(indices) for indices in ranges], np.uint8)
        if out.ndim == 0:
            return self.pruned_by(name)
        for row in np.ndindex(out.shape[:-1]) if out.size else ():
            index = [indices[i] for indices, i in zip(ranges, (*row, 0), strict=True)]
            first = int(np.ravel_multi_index(index, shape))
            out[row] = self.pruned_by_within(name, first, first + out.shape[-1])
        return torch.from_numpy(out)

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.checkpoint.tensors[name]
        except KeyError:
            raise RecipeError(
                "{path} has no parameter named {name}.", path=self.checkpoint.path, name=name
            ) from None
