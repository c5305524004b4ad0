"""Ranking the scores of a live tensor: any real or complex dtype, any device, any strides."""

from __future__ import annotations

from torch import Tensor

from prune_gui.pruning.selection.radix_select import smallest


def magnitudes(t: Tensor) -> Tensor:
    """Return floating point numbers that rank as the absolute values of `t` do.

    They are those of `t` itself, sign and all, unless it is complex or integer.
    """
    t = t.detach()
    if t.is_complex():
        return t.abs()
    return t if t.is_floating_point() else t.double()


def k_smallest(scores: Tensor, k: int) -> Tensor:
    """Mark the `k` scores of least absolute value; of equal ones the lowest flat index goes first.

    Returns:
        Boolean, of the shape and on the device of `scores`: the same on every device.
    """
    on_cpu = magnitudes(scores).to("cpu").contiguous()
    return smallest(on_cpu, k).to(scores.device)
