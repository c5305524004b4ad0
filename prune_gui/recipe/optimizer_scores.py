"""Scores from the state that Adam left in a training checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.moments import named_moments
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.decisions.target import Content
from prune_gui.pruning.layouts import WeightLayout
from prune_gui.pruning.methods.fields import OPTIMIZER
from prune_gui.pruning.selection.scores import Scores, TensorScores, wide_dtype
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles, weight_reader

SQUARES: Final = "exp_avg_sq"
"""The moving average of squared gradients, as `Adam` and `AdamW` of torch call it."""
NO_SQUARES: Final = deferred(
    "{file} has no exp_avg_sq of {name}, which Adam keeps: importance: optimizer needs a training "
    "checkpoint with the state of the optimizer. Open one, or name a file of scores."
)
UNCERTAIN: Final = deferred(
    "{file}: the weights cannot be ranked by its optimizer, because it is not certain which "
    "moments belong to which parameter: {reason}. Name a file of scores."
)

_squares: WeakKeyDictionary[Checkpoint, dict[str, ReferenceType[torch.Tensor]]] = (
    WeakKeyDictionary()
)
"""By checkpoint and parameter; weak, because a checkpoint releases its tensors when it closes."""


@dataclass(frozen=True)
class OptimizerScores:
    """v * w^2, where v is Adam's moving average of the squared gradient of the weight w.

    This is twice the score of Optimal Brain Damage (LeCun et al. 1990), with v as the diagonal of
    the Fisher information. The bias correction of v is the same factor for all weights.

    Attributes:
        weights: the weights.
        squares: v, of the same shape.
    """

    weights: Scores
    squares: Scores

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        return self.weights.shape

    @property
    def dtype(self) -> torch.dtype:
        """float32 or wider."""
        return wide_dtype(self.weights.dtype)

    @property
    def nbytes(self) -> int:
        """Number of bytes to read for all elements."""
        return self.weights.nbytes + self.squares.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the scores of the flat indices [start, stop)."""
        weights = self.weights.part(start, stop).to(self.dtype)
        return self.squares.part(start, stop).to(self.dtype) * weights * weights


@dataclass(frozen=True, slots=True)
class _StoredSquares:
    """Returns v of a parameter when called; equal if the checkpoint and the name are."""

    checkpoint: TorchCheckpoint
    name: str

    def __call__(self) -> torch.Tensor:
        tensor = _squares_of(self.checkpoint)[self.name]()
        if tensor is None:
            raise CheckpointError(tr("{file} is closed.", file=self.checkpoint.path.name))
        return self.checkpoint.values_of(tensor).detach()


def read_other(
    checkpoint: Checkpoint,
    files: AuxiliaryFiles,
    info: TensorInfo,
    layout: WeightLayout,
    path: str,
    what: Content,
) -> Scores:
    """Return a reader of a tensor for a parameter: of a file, or of the checkpoint's optimizer."""
    if path == OPTIMIZER:
        return optimizer_scores(checkpoint, info)
    return files.entries(path, info, what, layout)


def optimizer_scores(checkpoint: Checkpoint, info: TensorInfo) -> OptimizerScores:
    """Return the scores of a parameter from the optimizer state of its checkpoint."""
    try:
        found = _squares_of(checkpoint)
    except CheckpointError as error:
        raise RecipeError(str(error)) from error
    tensor = found[info.name]() if info.name in found else None
    if (
        not isinstance(checkpoint, TorchCheckpoint)
        or tensor is None
        or not tensor.is_floating_point()
    ):
        raise RecipeError(tr(NO_SQUARES, file=checkpoint.path.name, name=info.name))
    read = _StoredSquares(checkpoint, info.name)
    squares = TensorScores(read, info.shape, tensor.dtype)
    return OptimizerScores(weight_reader(checkpoint, info), squares)


def _squares_of(checkpoint: Checkpoint) -> dict[str, ReferenceType[torch.Tensor]]:
    if not isinstance(checkpoint, TorchCheckpoint):
        return {}
    if checkpoint not in _squares:
        _squares[checkpoint] = {
            name: ref(tensor)
            for name, tensors in named_moments(checkpoint, UNCERTAIN).items()
            for key, tensor in tensors
            if key == SQUARES
        }
    return _squares[checkpoint]
