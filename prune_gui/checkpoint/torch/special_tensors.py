"""Sparse and meta tensors of a pickle, and those of subclasses, built from checked arguments.

Each function takes the machine and the arguments of the call. It raises FalseClaimError if
torch.save does not write such a call.
"""

from __future__ import annotations

from typing import Any, Final, cast

import torch

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.torch.claims import checked_numel
from prune_gui.checkpoint.torch.pickle_machine import Global, Machine

COMPRESSED_LAYOUTS: Final = {
    torch.sparse_csr,
    torch.sparse_bsr,
    torch.sparse_csc,
    torch.sparse_bsc,
}
LOCAL_TENSOR: Final = "_local_tensor"
"""The attribute of a DTensor with the elements that are on this device."""


class ForeignTensor(torch.Tensor):
    """A tensor of a subclass that needs code: dtype and shape, without values."""


def sparse_tensor(_machine: Machine, arguments: tuple[object, ...]) -> torch.Tensor:
    """Build a sparse tensor from (layout, parts); as in torch.load, the indices are not checked."""
    unknown = FalseClaimError("it describes a sparse tensor in a way torch does not write")
    match arguments:
        case (torch.layout() as layout, tuple() as members):
            pass
        case _:
            raise unknown
    make: Any
    options: dict[str, object]
    match layout, members:
        case torch.sparse_coo, (
            torch.Tensor() as indices,
            torch.Tensor() as values,
            tuple() as shape,
            *coalesced,
        ) if len(coalesced) < 2:
            checked_numel((), shape)
            make = torch.sparse_coo_tensor
            options = {"is_coalesced": coalesced[0] is True} if coalesced else {}
            parts: tuple[object, ...] = (indices, values)
        case _, (
            torch.Tensor() as pointers,
            torch.Tensor() as indices,
            torch.Tensor() as values,
            tuple() as shape,
        ) if layout in COMPRESSED_LAYOUTS:
            checked_numel((), shape)
            make = torch.sparse_compressed_tensor
            options = {"layout": layout}
            parts = (pointers, indices, values)
        case _:
            raise unknown
    try:
        return cast("torch.Tensor", make(*parts, shape, check_invariants=False, **options))
    except (RuntimeError, ValueError, TypeError) as error:
        raise unknown from error


def meta_tensor(_machine: Machine, arguments: tuple[object, ...]) -> torch.Tensor:
    """Build a tensor without values from (dtype, shape, strides, requires_grad)."""
    match arguments:
        case (
            torch.dtype() as dtype,
            tuple() as shape,
            tuple() as strides,
            bool() as gradient,
        ) if len(shape) == len(strides):
            checked_numel(strides, shape)
            return torch.empty_strided(
                cast("tuple[int, ...]", shape),
                cast("tuple[int, ...]", strides),
                dtype=dtype,
                device="meta",
                requires_grad=gradient,
            )
    raise FalseClaimError("it declares a tensor of an impossible shape")


def wrapper_subclass(machine: Machine, arguments: tuple[object, ...]) -> torch.Tensor:
    """Build from (class, dtype, shape, strides, ...); the values are in attributes of the class."""
    match arguments:
        case (Global(), torch.dtype() as dtype, tuple() as shape, tuple() as strides, *_):
            empty = meta_tensor(machine, (dtype, shape, strides, False))
            return empty.as_subclass(ForeignTensor)
    return not_written(machine, arguments)


def local_tensor(tensor: torch.Tensor, attributes: object) -> torch.Tensor:
    """Return the values of a DTensor if all are in the file; else, and for others, the tensor."""
    slots = attributes[-1] if isinstance(attributes, tuple) and attributes else attributes
    local = slots.get(LOCAL_TENSOR) if isinstance(slots, dict) else None
    is_whole = isinstance(local, torch.Tensor) and local.shape == tensor.shape
    return local if isinstance(local, torch.Tensor) and is_whole else tensor


def not_written(_machine: Machine, _arguments: tuple[object, ...]) -> torch.Tensor:
    """Refuse arguments that torch does not write; calls that need code become records."""
    raise FalseClaimError("it describes a tensor in a way torch does not write")
