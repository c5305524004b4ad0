"""The tensors of a checkpoint that are masks: boolean ones, and integers that are all 0 or 1."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import CustomMask
from prune_gui.pruning.selection.scores import Scores
from prune_gui.recipe.auxiliary_files import mask_reader
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.recipe.stack import AppliedStep

MASK_DTYPES: Final = frozenset({"bool", "uint8", "int8"})


def masks_in(
    checkpoint: Checkpoint, monitor: Monitor
) -> tuple[Mapping[str, tuple[AppliedStep, ...]], Mapping[str, tuple[int, int]]]:
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
    """Return the number of zeros; None if there are other values than 0 and 1."""
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
