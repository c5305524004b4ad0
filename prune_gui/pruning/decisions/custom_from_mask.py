"""The decision of `CustomFromMask`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.custom_mask import CustomFromMask
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.predicates import CustomMask
from prune_gui.pruning.selection.scores import Scores


def decide(method: CustomFromMask, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Prune where the mask is 0; this reads and checks the whole mask."""
    masks = [target.other(method.mask, "mask") for target in targets]
    with monitor.plan(sum(mask.nbytes for mask in masks)):
        return [
            _decide(method, target, mask, monitor)
            for target, mask in zip(targets, masks, strict=True)
        ]


def _decide(method: CustomFromMask, target: Target, mask: Scores, monitor: Monitor) -> Decision:
    predicate = CustomMask(mask)
    pruned = 0
    for start, stop in chunks(target.size):
        chunk = mask.part(start, stop).to(torch.float64)
        if method.take == "mask" and not bool(((chunk == 0) | (chunk == 1)).all()):
            raise RecipeError(
                tr(
                    "{path}: the mask of {name} holds values other than 0 and 1. To prune the "
                    "zeros of a checkpoint, set take to zeros.",
                    path=method.mask,
                    name=target.name,
                )
            )
        zeros = predicate.prunes(start, stop)
        if target.remaining_mask is not None:
            zeros &= target.remaining_mask(start, stop)
        pruned += int(zeros.sum())
        monitor.advance((stop - start) * mask.dtype.itemsize)
    return Decision(predicate, pruned)
