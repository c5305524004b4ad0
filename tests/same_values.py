"""Comparing what was read with what the reference reads, all the way down."""

from __future__ import annotations

import torch

SHOWN = ("shape", "dtype", "layout", "requires_grad", "is_meta", "is_quantized")
"""Attributes of tensors that have to be equal."""


def same(one: object, other: object) -> bool:
    """Tell whether two values are the same, with their types, order and attributes."""
    waiting = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, other = waiting.pop()
        if (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if type(one) is not type(other):
            return False
        if isinstance(one, torch.Tensor):
            if not _same_tensor(one, other):
                return False
        elif isinstance(one, dict | list | tuple):
            if len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
            if isinstance(one, dict):
                waiting += zip(one.values(), other.values(), strict=True)
                waiting.append((getattr(one, "__dict__", None), getattr(other, "__dict__", None)))
        elif isinstance(one, set):
            if {*map(repr, one)} != {*map(repr, other)}:
                return False
        elif repr(one) != repr(other):  # NaN is equal to NaN here
            return False
    return True


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if any(getattr(one, name) != getattr(other, name) for name in SHOWN):
        return False
    if one.layout != torch.strided:
        return True  # nobody looks at the values of sparse tensors
    if one.stride() != other.stride() or one.storage_offset() != other.storage_offset():
        return False
    if (one.is_conj(), one.is_neg()) != (other.is_conj(), other.is_neg()):
        return False
    return one.is_meta or _octets(one) == _octets(other)


def _octets(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the storage from the first element of a tensor to its last."""
    storage = tensor.untyped_storage()
    octets = torch.empty(0, dtype=torch.uint8).set_(storage)
    return octets.numpy().tobytes()
