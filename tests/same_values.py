"""Deep comparison of values that were read with those of a reference reader."""

from __future__ import annotations

import torch

COMPARED_ATTRIBUTES = ("shape", "dtype", "layout", "requires_grad", "is_meta", "is_quantized")
"""Attributes of tensors that must be equal."""


def same(one: object, other: object) -> bool:
    """Return whether two values are equal in types, order, attributes and tensor bytes."""
    stack = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while stack:
        one, other = stack.pop()
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
            stack += zip(one, other, strict=True)
            if isinstance(one, dict):
                stack += zip(one.values(), other.values(), strict=True)
                stack.append((getattr(one, "__dict__", None), getattr(other, "__dict__", None)))
        elif isinstance(one, set):
            if {*map(repr, one)} != {*map(repr, other)}:
                return False
        elif repr(one) != repr(other):  # compared by repr, so that NaN equals NaN
            return False
    return True


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if any(getattr(one, name) != getattr(other, name) for name in COMPARED_ATTRIBUTES):
        return False
    if one.layout != torch.strided:
        return True  # the values of sparse tensors are never read
    if one.stride() != other.stride() or one.storage_offset() != other.storage_offset():
        return False
    if (one.is_conj(), one.is_neg()) != (other.is_conj(), other.is_neg()):
        return False
    return one.is_meta or _storage_bytes(one) == _storage_bytes(other)


def _storage_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the storage from the first element of a tensor to its last."""
    storage = tensor.untyped_storage()
    data = torch.empty(0, dtype=torch.uint8).set_(storage)
    return data.numpy().tobytes()
