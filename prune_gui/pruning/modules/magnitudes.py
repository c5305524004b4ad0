"""Ranking of the elements of a live tensor of any dtype, device and strides."""

from __future__ import annotations

from torch import Tensor

from prune_gui.pruning.selection.radix_select import smallest


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
        the same on all devices.
    """
    on_cpu = magnitudes(scores).to("cpu").contiguous()
    return smallest(on_cpu, k).to(scores.device)
