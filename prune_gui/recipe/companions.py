"""Files that a recipe names beside the checkpoint: scores, and masks made elsewhere."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.pruning.methods import Content
from prune_gui.pruning.sources import TensorScores

if TYPE_CHECKING:
    from prune_gui.recipe.recipe import Recipe


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
                f"{path} has no tensor named {target.name}. "
                "Add it there, or leave the parameter out of the targets."
            )
        columns = target.shape[1:2]
        if found.shape != target.shape and not (what == "scores" and found.shape == columns != ()):
            or_columns = f" or, one per input column, {list(columns)}" if columns else ""
            raise RecipeError(
                f"{path}: {target.name} has shape {list(found.shape)}, but the parameter has "
                f"{list(target.shape)}. Give it that shape"
                f"{or_columns if what == 'scores' else ''}."
            )
        if what != "mask" and found.not_prunable:
            raise RecipeError(
                f"{path}: {target.name} cannot serve as {what}: {found.not_prunable}. "
                "They are floating point numbers."
            )
        return mask_entries(file, found) if what == "mask" else file_entries(file, found)


@dataclass(frozen=True, slots=True)
class _View:
    """Views a tensor of an open file; equal to whatever views the same one."""

    file: Checkpoint
    key: str

    def __call__(self) -> torch.Tensor:
        return self.file.view_key(self.key)


def file_entries(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return what reads the entries of a parameter of a checkpoint."""
    dtype: torch.dtype = getattr(torch, info.dtype)
    return TensorScores(_View(file, info.pair[0] if info.pair else info.name), info.shape, dtype)


def mask_entries(file: Checkpoint, info: TensorInfo) -> TensorScores:
    """Return what reads the mask of a reparametrized pair, or a parameter that is a mask."""
    read = _View(file, info.pair[1] if info.pair else info.name)
    return TensorScores(read, info.shape, read().dtype)
