"""The values of corrected parameters: computed on first use from the masks of all steps, cached."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import torch
from cachetools import LRUCache
from torch import Tensor

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.devices import chosen_device
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.correction import BiasCorrection, CorrectionMethod, Refit
from prune_gui.pruning.selection.scores import wide_dtype
from prune_gui.recipe.auxiliary_files import (
    RecordedScores,
    recorded_tensor,
    recordings_beside,
)
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.recipe import Step
from prune_gui.recipe.stack import Masks

CACHE_BYTES: Final = 1 << 30
"""Limit on the bytes of the cached parameters; one is cached whatever its size."""


class CorrectedValues:
    """An LRU cache of corrected parameters of a checkpoint. Thread-safe."""

    def __init__(self) -> None:
        self._cached: LRUCache[Hashable, tuple[Lazy[Tensor], int]] = LRUCache(
            CACHE_BYTES, lambda entry: min(entry[1], CACHE_BYTES)
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
            if key not in self._cached:
                values = Lazy(partial(self._computed, masks, corrections, name, last))
                self._cached[key] = values, masks.checkpoint.tensors[name].nbytes
            values, _ = self._cached[key]
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
                values,
                mask,
                recording,
                last.method.damping,
                transposed=source.transposed,
                device=chosen_device(),
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
                means = least_squares.mean_outputs(lost, recording, transposed=source.transposed)
                shifted = values.double() + means
            corrected = torch.where(mask, _rounded(shifted, values.dtype), values)
        last.file.check()
        checkpoint.check()
        return corrected


def refitted(
    weight: Tensor,
    kept: Tensor,
    moments: Tensor,
    damping: float,
    *,
    transposed: bool,
    device: torch.device | None = None,
    guess: Tensor | None = None,
) -> tuple[Tensor, str]:
    """Return a weight with its kept elements solved by least squares, and a note or "".

    Pruned elements, rows without pruned elements, and columns whose input was always 0, are
    unchanged. `moments`: (columns, columns), or (groups, columns, columns); see `rows_of`. It is
    computed on a device, by default that of the weight, where the result is. `guess`: see
    `fit_rows`, in rows.
    """
    groups = moments.shape[0] if moments.dim() == 3 else 1
    wide = weight.to(wide_dtype(weight.dtype))
    rows, mask = (least_squares.rows_of(one, groups, transposed=transposed) for one in (wide, kept))
    fit = least_squares.fit_rows(rows, mask, moments, damping, device, guess)
    delta = least_squares.from_rows(
        fit.delta.to(wide.device, wide.dtype), weight.shape, transposed=transposed
    )
    corrected = torch.where(delta == 0, wide, wide + delta)
    return _rounded(corrected, weight.dtype), _note(fit.damping, fit.residual, damping)


def _note(damping: float, residual: float, wanted: float) -> str:
    if damping > wanted:
        return tr(
            "damping raised to {damping:g}: the recorded moments are not positive definite",
            damping=damping,
        )
    if residual > least_squares.TOLERANCE:
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


WEIGHT, BIAS = "weight", "bias"
CORRECTIONS: Final[Mapping[str, Callable[[str], CorrectionMethod]]] = {
    Refit.statistic: lambda path: Refit(moments=path),
    BiasCorrection.statistic: lambda path: BiasCorrection(means=path),
}
"""Corrections with a recording of the dense model, by its statistic; the best one first."""
TARGETS: Final = "dims>1"


@dataclass(frozen=True, slots=True)
class CorrectionSource:
    """What a corrected parameter is computed from; `target` of a bias is the weight beside it."""

    target: TensorInfo
    tensor: TensorInfo
    transposed: bool


@dataclass(frozen=True, eq=False)
class AppliedCorrection:
    """A step that corrects kept weights; `notes` grow while values are computed."""

    step: int
    method: CorrectionMethod
    file: Checkpoint
    sources: Mapping[str, CorrectionSource]
    remarks: Mapping[str, str]
    notes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the recording, as hexadecimal digits; reads the file on first use."""
        path = str(self.file.path)
        unreadable = RecipeError.on_os_error("{path} cannot be read: {reason}.", path=path)
        with unreadable, self.file.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def check_uncorrected(corrections: Sequence[AppliedCorrection]) -> None:
    """Check that there are no corrections, for outputs that cannot contain them."""
    if corrections:
        raise RecipeError(
            "Step {number} corrects kept weights, which only the finalized and the compact "
            "form contain. Save as one of these, or disable the step.",
            number=corrections[0].step,
        )


def plan_correction(
    step: int,
    method: CorrectionMethod,
    targets: Iterable[TensorInfo],
    checkpoint: Checkpoint,
    file: Checkpoint,
    protected: Collection[str],
) -> AppliedCorrection:
    """Find the parameters that a step corrects. Reads no values."""
    recorded = RecordedScores.of(file)
    if recorded is None or recorded.statistic != method.statistic:
        raise RecipeError(
            "{path} is not a recording of {statistic}. Write one with "
            'prune_gui.record(model, "{statistic}"); see prune-gui record --example.',
            path=str(file.path),
            statistic=method.statistic,
        )
    sources: dict[str, CorrectionSource] = {}
    remarks: dict[str, str] = {}
    found = False
    for target in targets:
        tensor = recorded_tensor(file, recorded, target)
        if tensor is not None and target.scale is not None and isinstance(method, Refit):
            found = True
            remarks[target.name] = tr("not corrected: it is stored as codes with scales")
            continue
        if tensor is None:
            if len(target.shape) > 1:
                remarks[target.name] = tr("not corrected: it is not in the recording")
            continue
        found = True
        source = CorrectionSource(target, tensor, tensor.name in recorded.transposed)
        corrected: str | None = target.name
        if isinstance(method, BiasCorrection):
            corrected, remark = _bias_of(target, checkpoint, protected)
            if source.transposed and len(target.shape) > 2:
                corrected, remark = None, tr("not corrected: it is of a transposed convolution")
            if corrected is None:
                remarks[target.name] = remark
                continue
        _check_shape(method, source, file)
        sources[corrected or target.name] = source
    if not found:
        raise RecipeError(
            "{path} has nothing about the targets of the step. Record the statistics of this "
            "model, or change the targets.",
            path=str(file.path),
        )
    return AppliedCorrection(step, method, file, sources, remarks)


def _bias_of(
    weight: TensorInfo, checkpoint: Checkpoint, protected: Collection[str]
) -> tuple[str | None, str]:
    module, dot, _ = weight.name.rpartition(".")
    info = checkpoint.tensors.get(module + dot + BIAS)
    if info is None or info.not_prunable:
        return None, tr("not corrected: the layer has no bias in the file")
    if info.name in protected:
        return None, tr("not corrected: {name} is protected", name=info.name)
    return info.name, ""


def _check_shape(method: CorrectionMethod, source: CorrectionSource, file: Checkpoint) -> None:
    shape, found = source.target.shape, source.tensor.shape
    if isinstance(method, Refit):
        fits = least_squares.moments_fit(shape, found, transposed=source.transposed)
    elif isinstance(method, BiasCorrection):
        fits = least_squares.means_fit(shape, found, transposed=source.transposed)
    else:
        fits = shape == found
    if not fits or source.tensor.not_prunable:
        raise RecipeError(
            "{path}: {name} has shape {found}, which does not fit a parameter of shape "
            "{shape}. Record the statistics again.",
            path=str(file.path),
            name=source.tensor.name,
            found=list(found),
            shape=list(shape),
        )


def correction_beside(checkpoint: Checkpoint) -> Step | None:
    """Return the best correction with a recording beside a checkpoint; None if there is none."""
    return next(corrections_beside(checkpoint), None)


def corrections_beside(checkpoint: Checkpoint) -> Iterator[Step]:
    """Yield steps that use recordings beside a checkpoint, the best one first; headers are read."""
    for statistic, path in recordings_beside(checkpoint, CORRECTIONS).items():
        yield Step(method=CORRECTIONS[statistic](str(path)), targets=(TARGETS,))
