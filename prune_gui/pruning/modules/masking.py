"""Tensors under masks. No compiled loops: to load one takes longer than to mask a large tensor."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from prune_gui.parallel import chunks, run
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.pruning.selection.scores import has_values, is_on_cpu

LARGE_BYTES: Final = 1 << 22
"""Size from which numpy writes masks."""
PART_ELEMENTS: Final = 1 << 18
"""Elements that a thread reads at once."""


_gradient_of_relu: Final = torch.ops.aten.threshold_backward.default
"""Is the first tensor where the second is above 0, else 0, and reads both once, on every device.

`torch.where` needs a boolean mask, and on the CPU it branches on each element.
"""


def keep(t: Tensor, mask: Tensor) -> Tensor:
    """Return `t` where `mask` is not 0, and +0 elsewhere, even if `t` is non-finite there.

    Only the kept elements have gradients.
    """
    if t.dtype == mask.dtype and t.is_floating_point() and t.itemsize > 1:
        kept: Tensor = _gradient_of_relu(t, mask, 0)
        return kept
    return torch.where(mask.bool(), t, t.new_zeros(()))


def mask_like(like: Tensor, kept: Tensor) -> Tensor:
    """Return a mask in the dtype, device and memory format of `like`, 1 where `kept` is True.

    `kept` may broadcast. On the CPU, numpy writes large masks twice as fast as torch.
    """
    mask = torch.empty_like(like, requires_grad=False)
    if like.nbytes < LARGE_BYTES or like.is_complex() or kept.shape != like.shape:
        return mask.copy_(kept)
    if not all(is_plain(t) and is_on_cpu(t.device) and t.is_contiguous() for t in (like, kept)):
        return mask.copy_(kept)
    bits, [one] = raw_bits(mask.view(-1)), raw_bits(torch.ones(1, dtype=mask.dtype))
    flags = kept.detach().view(-1).numpy()

    def write(span: tuple[int, int]) -> None:
        np.multiply(one, flags[slice(*span)], out=bits[slice(*span)])

    for _ in run(write, chunks(bits.size, PART_ELEMENTS)):
        pass
    return mask


def is_binary(mask: Tensor) -> bool:
    """Return whether a mask holds only 0 and 1, as far as it holds values."""
    if mask.dtype == torch.bool or not has_values(mask):
        return True
    if not is_on_cpu(mask.device) or mask.is_complex():
        return bool(((mask == 0) | (mask == 1)).all())
    bits, [one] = raw_bits(mask.detach().reshape(-1)), raw_bits(torch.ones(1, dtype=mask.dtype))
    without_sign = bits.dtype.type(np.iinfo(bits.dtype).max >> mask.is_floating_point())

    def is_part_binary(span: tuple[int, int]) -> bool:
        part = bits[slice(*span)]
        return bool(((part == one) | ((part & without_sign) == 0)).all())

    return all(run(is_part_binary, chunks(bits.size, PART_ELEMENTS)))


def is_plain(t: Tensor) -> bool:
    """Return whether a tensor is of no subclass, and holds values."""
    return type(t) in (Tensor, nn.Parameter) and not t.is_meta
