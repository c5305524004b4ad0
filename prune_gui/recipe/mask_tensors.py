"""Tensors that are masks: boolean ones, and integers that are all 0 or 1; as steps, too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods.custom_mask import CustomFromMaskMethod
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import CustomMask
from prune_gui.pruning.selection.scores import Scores
from prune_gui.recipe.auxiliary_files import mask_reader
from prune_gui.recipe.patterns import patterns_for
from prune_gui.recipe.provenance import Provenance
from prune_gui.recipe.recipe import IN_FILE, Step
from prune_gui.recipe.stack import AppliedStep

MASK_DTYPES: Final = frozenset({"bool", "uint8", "int8"})


def masks_in(
    checkpoint: Checkpoint, monitor: Monitor
) -> tuple[dict[str, tuple[AppliedStep, ...]], dict[str, tuple[int, int]]]:
    """Return the masks of a file as `Resolution.layers` and `Resolution.counts`.

    The zeros of a mask are pruned in the file. Integers are read up to the first chunk with another
    value than 0 and 1. Single numbers are no masks.
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
