"""A file of masks as a step of a recipe."""

from __future__ import annotations

from pathlib import Path

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods.custom_mask import CustomFromMask
from prune_gui.recipe.mask_tensors import masks_in
from prune_gui.recipe.patterns import patterns_for
from prune_gui.recipe.provenance import Provenance
from prune_gui.recipe.step import Step


def mask_step(path: Path, checkpoint: Checkpoint, monitor: Monitor) -> Step | None:
    """Return a step that applies the masks of a file to the parameters that they fit.

    A mask fits a prunable parameter of the same name and shape. None if there is none.

    Args:
        path: the file of masks: boolean tensors, integers of 0 and 1, reparametrized pairs, or all
            tensors of a file that this program wrote in the form of masks.
        checkpoint: the checkpoint to prune.
        monitor: receives the bytes read.

    Raises:
        CheckpointError: the file cannot be opened.
    """
    with open_checkpoint(path) as file:
        made = Provenance.of(file.metadata)
        masks = set(masks_in(file, monitor)[1])
        for info in file.tensors.values():
            if info.pair is not None or (made is not None and made.form == "masks"):
                masks.add(info.name)
        shapes = {name: file.tensors[name].shape for name in masks}
    names = [info.name for info in checkpoint.tensors.values() if _fits(info, shapes)]
    if not names:
        return None
    targets = patterns_for(names, checkpoint.tensors.values())
    return Step(method=CustomFromMask(mask=str(path.absolute())), targets=targets)


def _fits(info: TensorInfo, shapes: dict[str, tuple[int, ...]]) -> bool:
    return not info.not_prunable and shapes.get(info.name) == info.shape
