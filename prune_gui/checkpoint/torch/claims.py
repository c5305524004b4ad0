"""Checks of what a torch pickle claims about tensors against the storages that they view."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, cast

import torch
import torch._utils
from torch.storage import TypedStorage

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, MAX_DIMS, MAX_ELEMENTS

STORAGE_DTYPES: Final = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "ComplexDoubleStorage": torch.complex128,
    "ComplexFloatStorage": torch.complex64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "QInt32Storage": torch.qint32,
    "QInt8Storage": torch.qint8,
    "QUInt8Storage": torch.quint8,
    "UntypedStorage": torch.uint8,
}
"""The dtypes of the storage classes that torch names in its files."""
_KINDS: Final = "Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool"
TORCH_TYPES: Final = re.compile(
    rf"torch\.(Tensor|(cuda\.)?((sparse\.)?({_KINDS})Tensor|({_KINDS}|Complex\w+)Storage)|Q\w+Storage"
    rf"|storage\.\w+typedStorage|storage\.TypedStorage|per_(tensor|channel)_\w+"
    rf"|{'|'.join(ELEMENT_BITS)}|u?int[1-7]|bits\w+|quint[24]x[24])"
)
"""Classes, dtypes and schemes that torch.load reads by default and never calls."""


def typed_storage(values: torch.UntypedStorage, dtype: torch.dtype) -> TypedStorage:
    """Return a view of a storage of bytes as elements of a dtype, which torch.load makes too."""
    make: Any = TypedStorage
    return cast("TypedStorage", make(wrap_storage=values, dtype=dtype, _internal=True))


def nbytes_of(storage: TypedStorage) -> int:
    """Return the size of a storage in bytes. Its own `nbytes` warns that it is deprecated."""
    return storage._untyped_storage.nbytes()


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of storage elements that a strided view spans."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def torch_attribute(path: str) -> object:
    """Return a class, dtype, layout or scheme of torch; None if this version does not have it."""
    value: object = torch
    for name in path.split(".")[1:]:
        value = getattr(value, name, None)
    constants = type, torch.dtype, torch.layout, torch.qscheme
    return value if isinstance(value, constants) else None


def checked_view(
    storage: TypedStorage,
    offset: int,
    shape: tuple[object, ...],
    strides: tuple[object, ...],
    dtype: torch.dtype | None = None,
) -> int:
    """Return the number of elements of a strided view of a storage.

    Args:
        shape: the shape of the view.
        dtype: the dtype of the view; None for that of the storage.
    """
    if len(shape) != len(strides):
        raise FalseClaimError("it declares a tensor of an impossible shape")
    numel = checked_numel((offset, *strides), shape)
    span = extent(cast("tuple[int, ...]", shape), cast("tuple[int, ...]", strides))
    if (offset + span) * (dtype or storage.dtype).itemsize > nbytes_of(storage):
        raise FalseClaimError(
            "it declares a tensor of shape {shape}, which does not fit its {nbytes:,} bytes",
            shape=shape,
            nbytes=nbytes_of(storage),
        )
    return numel


def checked_numel(others: tuple[object, ...], shape: tuple[object, ...]) -> int:
    """Return the number of elements of a tensor.

    Args:
        shape: the shape.
    """
    if len(shape) <= MAX_DIMS and are_sizes((*others, *shape)):
        sizes = cast("tuple[int, ...]", shape)
        if math.prod(filter(None, sizes)) <= MAX_ELEMENTS:
            return math.prod(sizes)
    raise FalseClaimError("it declares a tensor of an impossible shape")


def are_sizes(values: tuple[object, ...]) -> bool:
    """Return whether all values are whole numbers in the range of sizes and offsets."""
    return all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def check_hooks(hooks: object) -> None:
    """Check that a tensor has no backward hooks; torch writes an empty dictionary."""
    if hooks:
        raise FalseClaimError("it attaches other data to a tensor")


def set_conj_and_neg(tensor: torch.Tensor, bits: object, numel: int, storage: TypedStorage) -> None:
    """Set the conjugate and negative bits of a tensor, given as {"conj": True, "neg": True}."""
    if not bits:
        return
    if not isinstance(bits, dict) or not all(
        name in ("conj", "neg") and value is True for name, value in bits.items()
    ):  # a value is never hashed, as the hash of nested tuples can take endless time
        raise FalseClaimError("it describes a tensor in a way torch does not write")
    if numel * tensor.itemsize > nbytes_of(storage):  # reading the values would copy them
        raise FalseClaimError("it repeats the elements of a conjugate or negative tensor")
    set_metadata: Any = torch._utils.set_tensor_metadata
    set_metadata(tensor, bits)
