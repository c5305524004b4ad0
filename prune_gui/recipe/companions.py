"""Files that a recipe names beside the checkpoint: scores, and masks made elsewhere."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import later, tr
from prune_gui.pruning.methods import Content
from prune_gui.pruning.sources import TensorScores, View

if TYPE_CHECKING:
    from prune_gui.recipe.recipe import Recipe

OTHER_SHAPE: Final = later(
    "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that shape."
)
OTHER_COLUMNS: Final = later(
    "{path}: {name} has shape {found}, but the parameter has {shape}. Give it that shape or, one "
    "per input column, {columns}."
)
NO_SCORES: Final = later(
    "{path}: {name} cannot serve as scores: {reason}. They are floating point numbers."
)
NO_WEIGHTS: Final = later(
    "{path}: {name} cannot serve as weights: {reason}. They are floating point numbers."
)


class Companions:
    """Opens each file once, when a step first asks for it; closes all when it goes itself."""

    def __init__(self) -> None:
        self._open: dict[str, Checkpoint] = {}

    def entries(self, recipe: Recipe, path: str, target: TensorInfo, what: Content) -> TensorScores:
        """Return what reads the tensor of `target`'s name in the file at `path`.

        A pruned parameter of that file (``X_orig`` and ``X_mask``) gives what is asked for. Scores
        may be one number per input column.

        Raises:
            RecipeError: the file cannot be opened, or has no such tensor of that shape.
        """
        location = str(recipe.locate(path))
        if location not in self._open:
            try:
                file = open_checkpoint(location)
            except CheckpointError as error:
                raise RecipeError(str(error)) from error
            weakref.finalize(self, file.close)
            self._open[location] = file
        file = self._open[location]
        found = file.tensors.get(target.name)
        if found is None:
            raise RecipeError(
                tr(
                    "{path} has no tensor named {name}. Add it there, or leave the parameter out "
                    "of the targets.",
                    path=path,
                    name=target.name,
                )
            )
        columns = target.shape[1:2]
        by_column = what == "scores" and columns != ()
        if found.shape != target.shape and not (by_column and found.shape == columns):
            message = OTHER_COLUMNS if by_column else OTHER_SHAPE
            raise RecipeError(
                tr(
                    message,
                    path=path,
                    name=target.name,
                    found=list(found.shape),
                    shape=list(target.shape),
                    columns=list(columns),
                )
            )
        if what != "mask" and found.not_prunable:
            message = NO_SCORES if what == "scores" else NO_WEIGHTS
            reason = tr(found.not_prunable)
            raise RecipeError(tr(message, path=path, name=target.name, reason=reason))
        return mask_entries(file, found) if what == "mask" else file_entries(file, found)


def file_entries(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return what reads the entries of a parameter of a checkpoint."""
    dtype: torch.dtype = getattr(torch, info.dtype)
    return TensorScores(View(file, info.pair[0] if info.pair else info.name), info.shape, dtype)


def mask_entries(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return what reads the mask of a reparametrized pair, or a parameter that is a mask."""
    read = View(file, info.pair[1] if info.pair else info.name)
    return TensorScores(read, info.shape, read().dtype)
