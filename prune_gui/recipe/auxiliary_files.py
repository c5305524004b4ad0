"""Files that a recipe names in addition to the checkpoint: scores, masks and earlier weights."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.decisions.target import Content
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.pruning.selection.scores import Scores, StoredTensor, TensorScores
from prune_gui.recipe.recorded_scores import scores_tensor

_Stamps = dict[Path, tuple[int, int, int] | None]

OTHER_SHAPE: Final = deferred(
    "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that shape."
)
OTHER_LENGTH: Final = deferred(
    "{path}: {name} has shape {found}, but the group has {count:,} units. Give it one score for "
    "each."
)
OTHER_COLUMNS: Final = deferred(
    "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that shape or, for "
    "one score per input column, {columns}."
)
NO_SCORES: Final = deferred(
    "{path}: {name} cannot be used as scores: {reason}. Scores must be floating point numbers."
)
NO_WEIGHTS: Final = deferred(
    "{path}: {name} cannot be used as weights: {reason}. Weights must be floating point numbers."
)


class AuxiliaryFiles:
    """The open auxiliary files: each is opened on first use, all are closed with this object.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Checkpoint, _Stamps]] = {}

    def __reduce__(self) -> tuple[type[AuxiliaryFiles], tuple[()]]:
        """Pickle no open file: another process opens what it uses."""
        return AuxiliaryFiles, ()

    def file(self, path: str) -> Checkpoint:
        """Return the checkpoint at an absolute path: the same object while the file is unchanged.

        A file that was changed or replaced in the meantime is opened again. A deleted file stays
        open.

        Raises:
            RecipeError: the file cannot be opened.
        """
        with self._lock:
            return self._opened(path)

    def _opened(self, path: str) -> Checkpoint:
        if path in self._open:
            file, stamps = self._open[path]
            if all(now in (None, stamps[other]) for other, now in _stamps(stamps).items()):
                return file
        before = _stamps([Path(path)])
        try:
            file = open_checkpoint(path)
        except CheckpointError as error:
            if "\n" not in str(error):
                raise RecipeError(str(error)) from error
            raise RecipeError(
                tr(
                    "Opening {path} requires running code. Open it by itself to see how to convert "
                    "it.",
                    path=path,
                )
            ) from error
        weakref.finalize(self, file.close)
        self._open[path] = file, _stamps((file.path, *file.files)) | before
        return file

    def entries(
        self, path: str, target: TensorInfo, what: Content, layout: WeightLayout = USUAL
    ) -> Scores:
        """Return a reader of the tensor of `target` in the file at `path`.

        The tensor has the name of `target`; scores are found as by `scores_tensor`.

        If that tensor is a reparametrized pair (``X_orig`` and ``X_mask``), `what` selects one of
        the two. Scores may have the shape of the parameter or be one number per input column, of
        which `layout` tells the dimension.

        Raises:
            RecipeError: the file cannot be opened, or has no tensor of that name and shape.
        """
        file = self.file(path)
        info = scores_tensor(file, target) if what == "scores" else file.tensors.get(target.name)
        if info is None:
            raise RecipeError(
                tr(
                    "{path} has no tensor named {name}. Add it to the file, or leave the parameter "
                    "out of the targets.",
                    path=path,
                    name=target.name,
                )
            )
        columns = target.shape[layout.input_dim :][:1] if len(target.shape) > 1 else ()
        by_column = what == "scores" and columns != ()
        if info.shape != target.shape and not (by_column and info.shape == columns):
            message = OTHER_COLUMNS if by_column else OTHER_SHAPE
            raise RecipeError(
                tr(
                    message,
                    path=path,
                    name=target.name,
                    found=list(info.shape),
                    shape=list(target.shape),
                    columns=list(columns),
                )
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
                tr(
                    "{path} has no vector named {name}. Add it to the file, or leave the group out "
                    "of the targets.",
                    path=path,
                    name=key,
                )
            )
        if info.shape != (length,):
            raise RecipeError(
                tr(OTHER_LENGTH, path=path, name=key, found=list(info.shape), count=length)
            )
        _check_floats(path, info, NO_SCORES)
        return weight_reader(file, info)


def _check_floats(path: str, info: TensorInfo, message: str) -> None:
    if info.not_prunable:
        raise RecipeError(tr(message, path=path, name=info.name, reason=tr(info.not_prunable)))


def _stamps(paths: Iterable[Path]) -> _Stamps:
    """Return size in bytes, modification time in ns and inode of each file; None if it is gone."""
    stamps: _Stamps = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            stamps[path] = None
        else:
            stamps[path] = status.st_size, status.st_mtime_ns, status.st_ino
    return stamps


@dataclass(frozen=True)
class ScaledWeights:
    """The weights that a file stores as codes with scales; see `Checkpoint.values_span`.

    Attributes:
        file: the checkpoint.
        info: the parameter.
    """

    file: Checkpoint
    info: TensorInfo

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        return self.info.shape

    @property
    def dtype(self) -> torch.dtype:
        """float32."""
        return torch.float32

    @property
    def nbytes(self) -> int:
        """Number of bytes to read for all elements."""
        return self.info.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the weights of the flat indices [start, stop)."""
        return self.file.values_span(self.info.name, start, stop)


def weight_reader(file: Checkpoint, info: TensorInfo) -> Scores:
    """Return a reader of the weights of a parameter; of a reparametrized pair, of ``X_orig``."""
    if info.scale is not None:
        return ScaledWeights(file, info)
    dtype: torch.dtype = getattr(torch, info.dtype)
    return TensorScores(
        StoredTensor(file, info.pair[0] if info.pair else info.name), info.shape, dtype
    )


def mask_reader(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return a reader of the mask of a reparametrized pair, or of a tensor that is a mask."""
    read = StoredTensor(file, info.pair[1] if info.pair else info.name)
    return TensorScores(read, info.shape, read().dtype)
