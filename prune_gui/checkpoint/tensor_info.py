"""What a checkpoint says about one parameter, without its values."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from prune_gui.language import later

ENTRY_BITS: Final = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float6_e2m3": 6,
    "float6_e3m2": 6,
    "float4_e2m1": 4,
    "float4_e2m1fn_x2": 8,
    "complex128": 128,
    "complex64": 64,
    "complex32": 32,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "uint64": 64,
    "uint32": 32,
    "uint16": 16,
    "uint8": 8,
    "bool": 8,
    "qint32": 32,
    "qint8": 8,
    "quint8": 8,
}
"""Bits of one entry, by torch's name of the dtype, or ours where torch has none (4 and 6 bits)."""

PACKED_DTYPES: Final = frozenset({"float6_e2m3", "float6_e3m2", "float4_e2m1"})
"""Entries that do not end on a byte; torch has no such dtypes, their tensors are read as bytes."""

PRUNABLE_DTYPES: Final = frozenset(
    {
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
    }
)

MAX_DIMS: Final = 64
MAX_ENTRIES: Final = 1 << 50
"""Of a tensor that need not be in the file entry by entry, so that sums of many stay exact."""


class TensorInfo(NamedTuple):
    """One parameter of a checkpoint.

    What is said of it in words is for `tr`.

    Attributes:
        name: as shown, and as recipes name it. A reparametrized pair `X_orig`, `X_mask` is "X".
        shape: of the tensor; of the original for a pair.
        dtype: torch's name without "torch."; see `ENTRY_BITS`.
        aliases: further names of the very same parameter (tied weights). For a pair they too are
            names without `_orig`.
        pair: the file's keys of the original and of the mask, if it holds a reparametrized pair.
        special: why the values are not plain dense entries ("sparse", "quantized", ...), or None.
            Special tensors are shown, never pruned; a torch file keeps them as they are.
        role: what it is for another parameter, such as one half of a weight norm; or None.
        spared: why it is not pruned though its values could be, in a few words; or None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    aliases: tuple[str, ...] = ()
    pair: tuple[str, str] | None = None
    special: str | None = None
    role: str | None = None
    spared: str | None = None

    @property
    def numel(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the entries take when stored densely."""
        return size_in_bytes(self.shape, self.dtype)

    @property
    def not_prunable(self) -> str | None:
        """Why the parameter cannot be pruned, in a few words; None if it can."""
        if self.special is not None:
            return self.special
        if self.dtype not in PRUNABLE_DTYPES:
            return _reason(self.dtype)
        if self.spared is not None:
            return self.spared
        if self.numel == 0:
            return later("empty")
        return None


def size_in_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes that a dense tensor takes; entries below 8 bits are packed."""
    return (math.prod(shape) * ENTRY_BITS[dtype] + 7) // 8


def _reason(dtype: str) -> str:
    if dtype == "float8_e8m0fnu":
        return later("cannot hold a zero")
    if dtype in PACKED_DTYPES or dtype == "float4_e2m1fn_x2":
        return later("packed")
    if dtype.startswith("q"):
        return later("quantized")
    if dtype.startswith("complex"):
        return later("complex")
    return later("boolean") if dtype == "bool" else later("integer")
