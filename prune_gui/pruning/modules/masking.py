"""Tensors under masks.

Large tensors are read as raw bits by numpy, in parts that fit in a processor's cache. No compiled
loops are used: to load the first of a process takes longer than to mask a large tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from prune_gui.parallel import chunks, run
from prune_gui.pruning.arrays import Bits, Flags, Key
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.pruning.selection.scores import has_values

LARGE_BYTES: Final = 1 << 22
"""Size from which tensors are masked by numpy."""
PART_ELEMENTS: Final = 1 << 18
"""Elements that a thread reads at once."""


def keep(t: Tensor, mask: Tensor) -> Tensor:
    """Return `t` where `mask` is not 0, and +0 elsewhere, even if `t` is non-finite there.

    Only the kept elements have gradients.
    """
    if not _is_traced() and _is_fast(t, mask):
        kept: Tensor = _Keep.apply(t, mask)  # type: ignore[no-untyped-call]
        return kept
    return torch.where(mask.bool(), t, t.new_zeros(()))


def mask_product(mask: Tensor, kept: Tensor) -> Tensor:
    """Return the product of a mask and `kept`, in the dtype of the mask; `kept` may broadcast."""
    product = torch.empty_like(mask, requires_grad=False)
    if _is_fast(mask, kept):
        _write_kept(mask, kept, product)
        return product
    return torch.mul(mask.detach(), kept.to(mask.dtype), out=product)


def mask_like(like: Tensor, kept: Tensor) -> Tensor:
    """Return a mask in the dtype, device and memory format of `like`, 1 where `kept` is True."""
    mask = torch.empty_like(like, requires_grad=False)
    if _is_fast(like, kept):
        [one] = raw_bits(torch.ones(1, dtype=mask.dtype))
        flags = kept.detach().view(-1).numpy()
        _multiply_parts(lambda _: one, flags.__getitem__, raw_bits(mask.view(-1)))
        return mask
    return mask.copy_(kept.to(mask.device, mask.dtype))


def is_binary(mask: Tensor) -> bool:
    """Return whether a mask holds only 0 and 1, as far as it holds values."""
    if mask.dtype == torch.bool or not has_values(mask):
        return True
    if mask.device.type != "cpu" or mask.is_complex():
        return bool(((mask == 0) | (mask == 1)).all())
    bits, [one] = raw_bits(mask.detach().reshape(-1)), raw_bits(torch.ones(1, dtype=mask.dtype))

    def is_part_binary(span: tuple[int, int]) -> bool:
        part = bits[slice(*span)]
        return bool(((part == one) | ~_is_set(part, mask.dtype)).all())

    return all(run(is_part_binary, chunks(bits.size, PART_ELEMENTS)))


def is_plain(t: Tensor) -> bool:
    """Return whether numpy can read the memory of a tensor: it is of no subclass, on the CPU."""
    return type(t) in (Tensor, nn.Parameter) and t.device.type == "cpu"


class _Keep(torch.autograd.Function):
    """`keep` of large tensors.

    `torch.where` branches on each element, so an irregular mask makes it eight times slower.
    """

    @staticmethod
    def forward(t: Tensor, mask: Tensor) -> Tensor:
        kept = torch.empty_like(t, requires_grad=False)
        _write_kept(t, mask, kept)
        return kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        [mask] = ctx.saved_tensors
        return keep(grad, mask), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:  # noqa: ANN401
        [mask] = ctx.saved_tensors
        return keep(tangent, mask)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Tensor) -> tuple[Tensor, int]:  # noqa: ANN401
        t, mask = (
            argument if dim is None else argument.movedim(dim, 0)
            for argument, dim in zip(args, in_dims, strict=True)
        )
        return torch.where(mask.bool(), t, t.new_zeros(())), 0


def _is_fast(t: Tensor, mask: Tensor) -> bool:
    return (
        t.nbytes >= LARGE_BYTES
        and all(is_plain(own) and own.is_contiguous() for own in (t, mask))
        and mask.shape == t.shape
        and (mask.dtype == torch.bool or mask.itemsize == t.itemsize)
        and not (t.is_complex() or mask.is_complex())
    )


def _is_traced() -> bool:
    """Return whether torch records its operators, among which those of numpy are missing."""
    return (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or _get_current_dispatch_mode() is not None
    )


def _write_kept(t: Tensor, mask: Tensor, out: Tensor) -> None:
    bits, mask_bits, out_bits = (raw_bits(own.detach().view(-1)) for own in (t, mask, out))
    _multiply_parts(bits.__getitem__, lambda part: _is_set(mask_bits[part], mask.dtype), out_bits)


def _multiply_parts(
    bits: Callable[[slice], Bits | Key], flags: Callable[[slice], Flags], out: Bits
) -> None:
    """Set `out` to the product of bits and flags, part by part, in threads."""

    def write(span: tuple[int, int]) -> None:
        part = slice(*span)
        np.multiply(bits(part), flags(part), out=out[part])

    for _ in run(write, chunks(out.size, PART_ELEMENTS)):
        pass


def _is_set(bits: Bits, dtype: torch.dtype) -> Flags:
    """Return where the numbers of a dtype with these bits are not 0 (-0 is)."""
    if dtype == torch.bool:
        return bits.view(np.bool_)
    if dtype == torch.float32:  # numpy compares it at once, without a copy
        return np.not_equal(bits.view(np.float32), 0)
    if dtype.is_floating_point:
        bits = bits & bits.dtype.type(np.iinfo(bits.dtype).max >> 1)
    return np.not_equal(bits, 0)
