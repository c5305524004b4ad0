"""Files that a recipe names beside the checkpoint: scores, masks and earlier weights."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.checkpoint.parameters import COMPILED_PREFIX, DATA_PARALLEL_PREFIX
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.file_stamps import FileStamps
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run
from prune_gui.pruning.decisions.target import Content
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.pruning.methods.custom_mask import CustomFromMaskMethod
from prune_gui.pruning.predicates import CustomMask
from prune_gui.pruning.selection.scores import Scores, StoredTensor, TensorScores
from prune_gui.recipe.patterns import patterns_for
from prune_gui.recipe.recipe import IN_FILE, Provenance, Step
from prune_gui.recipe.stack import AppliedStep

log = logging.getLogger(__name__)
NO_SCORES: Final = deferred(
    "{path}: {name} cannot be used as scores: {reason}. Scores must be floating point numbers."
)
NO_WEIGHTS: Final = deferred(
    "{path}: {name} cannot be used as weights: {reason}. Weights must be floating point numbers."
)
RECORDING_KEY: Final = "prune_gui.recording"
"""Metadata: a JSON object with the keys of `RecordedScores`, and others for people."""
LAYER_STATISTICS: Final = ("means", "second_moments", "batch_norm")
"""Statistics that are not scores of weights."""
MODEL_PREFIX: Final = "model."
"""Begins the names in checkpoints of training programs that keep the network in a field `model`."""


class AuxiliaryFiles:
    """The open auxiliary files: opened on first use, closed with this object. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Checkpoint, FileStamps]] = {}

    def __reduce__(self) -> tuple[type[AuxiliaryFiles], tuple[()]]:
        return AuxiliaryFiles, ()

    def file(self, path: str) -> Checkpoint:
        """Return the checkpoint at an absolute path; opened again if it was changed or replaced."""
        with self._lock:
            file, stamps = self._open.get(path, (None, None))
            if file is not None and stamps is not None and not stamps.changed():
                return file
            before = FileStamps.of([Path(path)])
            try:
                file = open_checkpoint(path)
            except CheckpointError as error:
                raise RecipeError(str(error)) from error
            weakref.finalize(self, file.close)
            others = FileStamps.of({file.path, *file.files} - {Path(path)})
            self._open[path] = file, FileStamps((*before.states, *others.states))
            return file

    def entries(
        self, path: str, target: TensorInfo, what: Content, layout: WeightLayout = USUAL
    ) -> Scores:
        """Return a reader of the tensor of `target` in the file at `path`.

        Of a reparametrized pair, `what` selects one of the two. Scores may be one number per input
        column, of which `layout` tells the dimension.
        """
        file = self.file(path)
        info = scores_tensor(file, target) if what == "scores" else file.tensors.get(target.name)
        if info is None:
            raise RecipeError(
                "{path} has no tensor named {name}. Add it to the file, or leave the parameter "
                "out of the targets.",
                path=path,
                name=target.name,
            )
        columns = target.shape[layout.input_dim :][:1] if len(target.shape) > 1 else ()
        by_column = what == "scores" and columns != ()
        if info.shape != target.shape and not (by_column and info.shape == columns):
            fields = {"path": path, "name": target.name, "found": list(info.shape)}
            if not by_column:
                raise RecipeError(
                    "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that "
                    "shape.",
                    **fields,
                    shape=list(target.shape),
                )
            raise RecipeError(
                "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that "
                "shape or, for one score per input column, {columns}.",
                **fields,
                shape=list(target.shape),
                columns=list(columns),
            )
        if what != "mask":
            _check_floats(path, info, NO_SCORES if what == "scores" else NO_WEIGHTS)
        return mask_reader(file, info) if what == "mask" else weight_reader(file, info)

    def vector(self, path: str, key: str, length: int) -> Scores:
        """Return a reader of a vector of scores in the file at `path`."""
        file = self.file(path)
        info = file.tensors.get(key)
        if info is None:
            raise RecipeError(
                "{path} has no vector named {name}. Add it to the file, or leave the group out "
                "of the targets.",
                path=path,
                name=key,
            )
        if info.shape != (length,):
            raise RecipeError(
                "{path}: {name} has shape {found}, but the group has {count:,} units. Give it one "
                "score for each.",
                path=path,
                name=key,
                found=list(info.shape),
                count=length,
            )
        _check_floats(path, info, NO_SCORES)
        return weight_reader(file, info)


def _check_floats(path: str, info: TensorInfo, message: str) -> None:
    if info.not_prunable:
        raise RecipeError(message, path=path, name=info.name, reason=tr(info.not_prunable))


@dataclass(frozen=True)
class ScaledWeights:
    """The weights that a file stores as codes with scales; see `Checkpoint.values_span`."""

    file: Checkpoint
    name: str
    shape: tuple[int, ...]
    nbytes: int
    dtype: torch.dtype = torch.float32

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the weights of the flat indices [start, stop)."""
        return self.file.values_span(self.name, start, stop)


def weight_reader(file: Checkpoint, info: TensorInfo) -> Scores:
    """Return a reader of the weights of a parameter; of a reparametrized pair, of ``X_orig``."""
    if info.scale is not None:
        return ScaledWeights(file, info.name, info.shape, info.nbytes)
    dtype: torch.dtype = getattr(torch, info.dtype)
    return TensorScores(
        StoredTensor(file, info.pair[0] if info.pair else info.name), info.shape, dtype
    )


def mask_reader(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return a reader of the mask of a reparametrized pair, or of a tensor that is a mask."""
    read = StoredTensor(file, info.pair[1] if info.pair else info.name)
    return TensorScores(read, info.shape, read().dtype)


class RecordedScores(BaseModel):
    """What a file of recorded scores tells; `transposed` weights have input channels first."""

    model_config = ConfigDict(frozen=True)

    statistic: str
    shapes: dict[str, tuple[int, ...]]
    aliases: dict[str, str]
    transposed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, file: Checkpoint) -> RecordedScores | None:
        """Read the metadata of a file; None if it has none of a recording, or is malformed."""
        return _parsed(file.metadata.get(RECORDING_KEY, ""))

    def name_of(self, target: TensorInfo) -> str | None:
        """Return the name of a parameter of a checkpoint in the recording; None if it has none."""
        for name in (target.name, *target.aliases):
            for candidate in _candidates(name):
                found = self.aliases.get(candidate, candidate)
                if found in self.shapes:
                    return found
        return None


def scores_tensor(file: Checkpoint, target: TensorInfo) -> TensorInfo | None:
    """Return the tensor of a file that has the scores of a parameter; None if there is none.

    In a recorded file, it may be that of a tied parameter, and the name may lack ``module.`` and
    ``_orig_mod.``, or lack or add ``model.`` at the start.
    """
    recorded = RecordedScores.of(file)
    if recorded is None:
        return file.tensors.get(target.name)
    if recorded.statistic in LAYER_STATISTICS:
        raise RecipeError(
            "{path} holds {statistic} of layer inputs, which are no scores of weights. Use a "
            "file of activations, ria, fisher, obd or taylor.",
            path=str(file.path),
            statistic=recorded.statistic,
        )
    return recorded_tensor(file, recorded, target)


def recorded_tensor(
    file: Checkpoint, recorded: RecordedScores, target: TensorInfo
) -> TensorInfo | None:
    """Return the tensor of a recorded file that belongs to a parameter; None if there is none."""
    name = recorded.name_of(target)
    if name is None:
        return None
    if recorded.shapes[name] != target.shape:
        raise RecipeError(
            "{path} was recorded for another model: there {name} has shape {found}, but the "
            "parameter has {shape}. Record the statistics of this model.",
            path=str(file.path),
            name=name,
            found=list(recorded.shapes[name]),
            shape=list(target.shape),
        )
    return file.tensors.get(name)


def recordings_beside(checkpoint: Checkpoint, statistics: Iterable[str]) -> dict[str, Path]:
    """Return the recordings in the folder of a checkpoint, or in one within it, by statistic.

    They have the names of `prune_gui.record`, and shapes of the checkpoint; headers are read.
    """
    path = checkpoint.path.absolute()
    folder = path if path.is_dir() else path.parent
    found: dict[str, Path] = {}
    for statistic in statistics:
        name = f"{statistic}.safetensors"
        try:
            candidates = [folder / name, *sorted(folder.glob(f"*/{name}"))]
            fitting = (one for one in candidates if _fits(one, statistic, checkpoint))
            if (one := next(fitting, None)) is not None:
                found[statistic] = one
        except OSError as error:
            log.warning("Recordings of %s cannot be looked for: %s", checkpoint.path, error)
    return found


def _fits(path: Path, statistic: str, checkpoint: Checkpoint) -> bool:
    if not path.is_file():
        return False
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


def _candidates(name: str) -> Iterator[str]:
    yield name
    # "x.module.y" is x wrapped for parallel training; a prefix is preceded by nothing or a dot
    plain = f".{name}"
    for prefix in (DATA_PARALLEL_PREFIX, COMPILED_PREFIX):
        plain = plain.replace(f".{prefix}", ".")
    plain = plain[1:]
    yield plain
    yield plain.removeprefix(MODEL_PREFIX)
    yield MODEL_PREFIX + plain


@lru_cache(maxsize=4)
def _parsed(text: str) -> RecordedScores | None:
    try:
        return RecordedScores.model_validate_json(text)
    except ValidationError:
        return None


MASK_DTYPES: Final = frozenset({"bool", "uint8", "int8"})


def masks_in(
    checkpoint: Checkpoint, monitor: Monitor
) -> tuple[dict[str, tuple[AppliedStep, ...]], dict[str, tuple[int, int]]]:
    """Return the masks of a file as `Resolution.layers` and `Resolution.counts`.

    Integers are read up to the first chunk with another value. Single numbers are no masks.
    """
    layers: dict[str, tuple[AppliedStep, ...]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for info in checkpoint.tensors.values():
        if info.dtype in MASK_DTYPES and info.special is None and info.shape and info.numel:
            mask = mask_reader(checkpoint, info)
            zeros = _count_zeros(mask, info, monitor)
            if zeros is not None:
                layers[info.name] = (AppliedStep(IN_FILE, CustomMask(mask)),)
                counts[info.name] = zeros, info.numel
    return layers, counts


def _count_zeros(mask: Scores, info: TensorInfo, monitor: Monitor) -> int | None:
    monitor.expect(info.nbytes)
    zeros = 0
    for zeros_in_span in run(partial(_count_in_span, mask, monitor), chunks(info.numel)):
        if zeros_in_span is None:
            return None
        zeros += zeros_in_span
    return zeros


def _count_in_span(mask: Scores, monitor: Monitor, span: tuple[int, int]) -> int | None:
    monitor.advance(span[1] - span[0])
    chunk = mask.part(*span)
    values = chunk.view(torch.uint8).numpy()
    if chunk.dtype != torch.bool and values.max() > 1:
        return None
    return values.size - int(np.count_nonzero(values))


def mask_step(path: Path, checkpoint: Checkpoint, monitor: Monitor) -> Step | None:
    """Return a step with the masks of a file that fit a parameter by name and shape, or None."""
    with open_checkpoint(path) as file:
        made = Provenance.of(file.metadata)
        masks = set(masks_in(file, monitor)[1])
        for info in file.tensors.values():
            if info.pair is not None or (made is not None and made.form == "masks"):
                masks.add(info.name)
        shapes = {name: file.tensors[name].shape for name in masks}
    names = [
        info.name
        for info in checkpoint.tensors.values()
        if not info.not_prunable and shapes.get(info.name) == info.shape
    ]
    if not names:
        return None
    targets = patterns_for(names, checkpoint.tensors.values())
    return Step(method=CustomFromMaskMethod(mask=str(path.absolute())), targets=targets)
