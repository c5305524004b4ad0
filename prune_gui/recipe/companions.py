"""Files that a recipe names beside the checkpoint: scores, and masks made elsewhere."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.pruning.methods import Content

if TYPE_CHECKING:
    import torch

    from prune_gui.recipe.recipe import Recipe


class Companions:
    """Opens each file once, when a step first asks for it; closes all when it goes itself."""

    def __init__(self) -> None:
        self._open: dict[str, Checkpoint] = {}

    def reader(
        self, recipe: Recipe, path: str, target: TensorInfo, what: Content
    ) -> Callable[[], torch.Tensor]:
        """Return what reads the tensor of `target`'s name in the file at `path`.

        A pruned parameter of that file (``X_orig`` and ``X_mask``) gives what is asked for.

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
        if found.shape != target.shape:
            raise RecipeError(
                f"{path}: {target.name} has shape {list(found.shape)}, but the parameter has "
                f"{list(target.shape)}."
            )
        if what == "scores" and found.not_prunable:
            raise RecipeError(
                f"{path}: {target.name} cannot serve as scores: {found.not_prunable}. "
                "Scores are floating point numbers."
            )
        key = found.pair[1] if found.pair and what == "mask" else None
        return partial(file.read_key, key) if key else partial(file.read, target.name)
