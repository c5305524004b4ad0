"""Ranking of the elements of a live tensor of any dtype, device and strides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.selection.keys import KeySource, RemainingMask, ScoreKeys, ranking_dtype
from prune_gui.pruning.selection.radix_select import Cut, mark, smallest
from prune_gui.pruning.selection.scores import TensorScores, has_values


def magnitudes(t: Tensor) -> Tensor:
    """Return floating point numbers whose absolute values rank like those of `t`.

    The result is `t` itself, with signs, unless it is complex or integer.
    """
    t = t.detach()
    if t.is_complex():
        return t.abs()
    return t if t.is_floating_point() else t.double()


def k_smallest(scores: Tensor, k: int) -> Tensor:
    """Return a mask of the `k` smallest absolute scores; of equal ones, the lowest flat indices.

    Returns:
        Boolean, True for the k smallest, of the shape and on the device of `scores`. The result is
        the same on all devices. Of scores without values, it has no values that mean anything.
    """
    if not has_values(scores):
        return torch.zeros_like(scores, dtype=torch.bool)
    on_cpu = magnitudes(scores).to("cpu").contiguous()
    return smallest(on_cpu, k).to(scores.device)


def joint_keys(scores: Sequence[Tensor]) -> list[ScoreKeys]:
    """Return keys that rank the elements of several tensors by absolute value, without a copy."""
    dtype = ranking_dtype({t.dtype for t in scores})
    return [ScoreKeys(TensorScores.of(t), dtype) for t in scores]


def remaining_mask(remaining: Tensor | None) -> RemainingMask | None:
    """Return a contiguous boolean tensor on the CPU as the engine reads it."""
    if remaining is None:
        return None
    flat = remaining.view(-1).numpy()
    return lambda start, stop: flat[start:stop]


def kept_by_cut(keys: KeySource, cut: Cut) -> Tensor:
    """Return a flat boolean tensor, False where a cut prunes."""
    kept = np.empty(keys.size, np.bool_)

    def write(span: tuple[int, int]) -> None:
        np.logical_not(mark(keys, cut, *span), out=kept[slice(*span)])

    for _ in run(write, chunks(keys.size)):
        pass
    return torch.from_numpy(kept)
