"""Which parameters a step corrects, with which tensors of a recording; recordings at hand."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import tr
from prune_gui.pruning.methods.correction import BiasCorrection, CorrectionMethod, Refit
from prune_gui.recipe.auxiliary_files import RecordedScores, recorded_tensor
from prune_gui.recipe.correction.least_squares import means_fit, moments_fit
from prune_gui.recipe.recipe import Step

WEIGHT, BIAS = "weight", "bias"
log = logging.getLogger(__name__)
CORRECTIONS: Final[Mapping[str, Callable[[str], CorrectionMethod]]] = {
    Refit.statistic: lambda path: Refit(moments=path),
    BiasCorrection.statistic: lambda path: BiasCorrection(means=path),
}
"""Corrections with a recording of the dense model, by its statistic; the best one first."""
TARGETS: Final = "dims>1"


@dataclass(frozen=True, slots=True)
class CorrectionSource:
    """What a corrected parameter is computed from.

    Attributes:
        target: the parameter that the recording is about; of a bias, the weight beside it.
        transposed: whether the input channels are dimension 0 of the weight.
    """

    target: TensorInfo
    tensor: TensorInfo
    transposed: bool


@dataclass(frozen=True, eq=False)
class AppliedCorrection:
    """A step that corrects kept weights.

    Attributes:
        notes: by name of a corrected parameter, a note on its values; it grows while these are
            computed.
    """

    step: int
    method: CorrectionMethod
    file: Checkpoint
    sources: Mapping[str, CorrectionSource]
    remarks: Mapping[str, str]
    notes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the recording, as hexadecimal digits; reads the file on first use."""
        try:
            with self.file.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise RecipeError(
                "{path} cannot be read: {reason}.",
                path=str(self.file.path),
                reason=error.strerror or str(error),
            ) from error


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
    recorded = _recording(file, method.statistic)
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


def _recording(file: Checkpoint, statistic: str) -> RecordedScores:
    recorded = RecordedScores.of(file)
    if recorded is None or recorded.statistic != statistic:
        raise RecipeError(
            "{path} is not a recording of {statistic}. Write one with "
            'prune_gui.record(model, "{statistic}"); see prune-gui record --example.',
            path=str(file.path),
            statistic=statistic,
        )
    return recorded


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
        fits = moments_fit(shape, found, transposed=source.transposed)
    elif isinstance(method, BiasCorrection):
        fits = means_fit(shape, found, transposed=source.transposed)
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
    """Return a step that uses a recording in the folder of a checkpoint, or in one within it.

    Only files with the names that `prune_gui.record` gives are opened, and of these the header is
    read. None if none of them was recorded for parameters with the shapes of the checkpoint, or if
    the folder cannot be read.
    """
    try:
        for statistic, path in _candidates(checkpoint):
            if _fits(path, statistic, checkpoint):
                return Step(method=CORRECTIONS[statistic](str(path)), targets=(TARGETS,))
    except OSError as error:
        log.warning("Recordings of %s cannot be looked for: %s", checkpoint.path, error)
    return None


def _candidates(checkpoint: Checkpoint) -> Iterator[tuple[str, Path]]:
    path = checkpoint.path.absolute()
    folder = path if path.is_dir() else path.parent
    for statistic in CORRECTIONS:
        name = f"{statistic}.safetensors"
        for candidate in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if candidate.is_file():
                yield statistic, candidate


def _fits(path: Path, statistic: str, checkpoint: Checkpoint) -> bool:
    try:
        with open_checkpoint(path) as file:
            recorded = RecordedScores.of(file)
    except CheckpointError:
        return False
    if recorded is None or recorded.statistic != statistic:
        return False
    names = ((info, recorded.name_of(info)) for info in checkpoint.tensors.values())
    shapes = [recorded.shapes[name] == info.shape for info, name in names if name is not None]
    return bool(shapes) and all(shapes)
