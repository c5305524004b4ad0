"""The values of corrected parameters: computed on first use from the masks of all steps, cached."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Final

import torch
from cachetools import LRUCache
from torch import Tensor

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.correction import BiasCorrection, Refit
from prune_gui.pruning.selection.scores import wide_dtype
from prune_gui.recipe.correction.least_squares import (
    TOLERANCE,
    fit_rows,
    from_rows,
    mean_outputs,
    rows_of,
)
from prune_gui.recipe.correction.planning import AppliedCorrection
from prune_gui.recipe.stack import Masks

CACHE_BYTES: Final = 1 << 30
"""Limit on the bytes of the cached parameters; one is cached whatever its size."""


class CorrectedValues:
    """An LRU cache of corrected parameters of a checkpoint. Thread-safe."""

    def __init__(self) -> None:
        self._cached: LRUCache[Hashable, _LazyValues] = LRUCache(
            CACHE_BYTES, lambda values: min(values.nbytes, CACHE_BYTES)
        )
        self._lock = threading.Lock()

    def get(
        self,
        masks: Masks,
        corrections: Sequence[AppliedCorrection],
        name: str,
        before: int | None = None,
    ) -> Tensor:
        """Return the values of a parameter; see `Resolution.values`.

        If several steps correct it, the last one does: each begins with the weights of the file.
        """
        last = _last(corrections, name, before)
        if last is None:
            return masks.checkpoint.view(name)
        key = values_key(masks, corrections, name, before)
        with self._lock:
            values = self._cached.get(key)
            if values is None:
                nbytes = masks.checkpoint.tensors[name].nbytes
                work = partial(self._computed, masks, corrections, name, last)
                values = self._cached[key] = _LazyValues(nbytes, work)
        return values()

    def _computed(
        self,
        masks: Masks,
        corrections: Sequence[AppliedCorrection],
        name: str,
        last: AppliedCorrection,
    ) -> Tensor:
        source, checkpoint = last.sources[name], masks.checkpoint
        recording = last.file.read(source.tensor.name)
        if not recording.isfinite().all():
            raise RecipeError(
                "{path}: {name} has values that are not finite. Record the statistics again, "
                "with inputs that are finite and not too large for the dtype of the model.",
                path=str(last.file.path),
                name=source.tensor.name,
            )
        values, mask = checkpoint.view(name).detach(), masks.mask(name)
        if isinstance(last.method, Refit):
            corrected, note = refitted(
                values, mask, recording, last.method.damping, transposed=source.transposed
            )
            last.notes.pop(name, None)
            last.notes.update({name: note} if note else {})
        else:
            shifted = recording.double()
            if isinstance(last.method, BiasCorrection):
                weight = source.target.name
                if source.target.scale is not None:
                    dense = now = checkpoint.read_values(weight).double()
                else:
                    dense = checkpoint.view(weight).detach().double()
                    now = self.get(masks, corrections, weight, last.step).detach().double()
                lost = torch.where(masks.mask(weight), dense - now, dense)
                means = mean_outputs(lost, recording, transposed=source.transposed)
                shifted = values.double() + means
            corrected = torch.where(mask, _rounded(shifted, values.dtype), values)
        last.file.check()
        checkpoint.check()
        return corrected


class _LazyValues(Lazy[Tensor]):
    def __init__(self, nbytes: int, work: partial[Tensor]) -> None:
        super().__init__(work)
        self.nbytes = nbytes


def refitted(
    weight: Tensor, kept: Tensor, moments: Tensor, damping: float, *, transposed: bool
) -> tuple[Tensor, str]:
    """Return a weight with its kept elements solved by least squares, and a note or "".

    Pruned elements, rows without pruned elements, and columns whose input was always 0, are
    unchanged. The result has the dtype of the weight.

    Args:
        moments: (columns, columns), or (groups, columns, columns); see `rows_of`.
    """
    moments = moments if moments.dim() == 3 else moments[None]
    groups = moments.shape[0]
    wide = weight.to(wide_dtype(weight.dtype))
    rows = rows_of(wide, groups, transposed=transposed)
    mask = rows_of(kept, groups, transposed=transposed)
    fits = [fit_rows(*one, damping) for one in zip(rows, mask, moments, strict=True)]
    delta = from_rows(torch.stack([fit.delta for fit in fits]), weight.shape, transposed=transposed)
    corrected = torch.where(delta == 0, wide, wide + delta)
    return _rounded(corrected, weight.dtype), _note(
        max(fit.damping for fit in fits), max(fit.residual for fit in fits), damping
    )


def _note(damping: float, residual: float, wanted: float) -> str:
    if damping > wanted:
        return tr(
            "damping raised to {damping:g}: the recorded moments are not positive definite",
            damping=damping,
        )
    if residual > TOLERANCE:
        return tr(
            "not solved exactly: {residual:.1g} of the gradient is left; raise the damping",
            residual=residual,
        )
    return ""


def _rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return values in a dtype; finite ones stay finite."""
    limits = torch.finfo(dtype)
    return torch.where(values.isfinite(), values.clamp(limits.min, limits.max), values).to(dtype)


def _last(
    corrections: Sequence[AppliedCorrection], name: str, before: int | None
) -> AppliedCorrection | None:
    for correction in reversed(corrections):
        if name in correction.sources and (before is None or correction.step < before):
            return correction
    return None


def values_key(
    masks: Masks, corrections: Sequence[AppliedCorrection], name: str, before: int | None = None
) -> Hashable:
    """Return a key that is equal for equal `CorrectedValues.get`, of one checkpoint."""
    last = _last(corrections, name, before)
    predicates = tuple(applied.predicate for applied in masks.layers.get(name, ()))
    if last is None:
        return name, predicates
    source = last.sources[name].target.name
    of_source = values_key(masks, corrections, source, last.step) if source != name else ()
    return name, predicates, last.method, last.file, of_source
