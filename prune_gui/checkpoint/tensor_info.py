"""The name, shape, dtype and other properties of a parameter, without its values."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from prune_gui.checkpoint.gguf.types import QUANTIZED_TYPES
from prune_gui.checkpoint.scales import Scale
from prune_gui.language import deferred

ELEMENT_BITS: Final = {
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
"""Bits of one element by dtype: torch's name, or ours where torch has none (4 and 6 bits)."""

PACKED_DTYPES: Final = frozenset({"float6_e2m3", "float6_e3m2", "float4_e2m1", *QUANTIZED_TYPES})
"""Dtypes that torch does not have, of less than 8 bits or of blocks; read as bytes."""

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

QUANTIZED: Final = deferred("quantized")
PACKED: Final = deferred("packed")
MAX_DIMS: Final = 64
MAX_ELEMENTS: Final = 1 << 50
"""The limit for tensors whose elements need not all be in the file; keeps sums of many exact."""


Kind = Literal["buffer", "statistic", "scale", "alpha", "mask", "moment", "average"]
"""What a tensor is that is no weight; see `prune_gui.checkpoint.roles`."""


class TensorInfo(NamedTuple):
    """One parameter of a checkpoint.

    `special`, `role` and `spared` are translated with `tr` when they are shown.

    Attributes:
        name: the name that is shown and that recipes use. The name of a reparametrized pair
            `X_orig`, `X_mask` is "X".
        shape: the shape of the tensor; for a pair, of the original.
        dtype: torch's name without "torch."; see `ELEMENT_BITS` and `QUANTIZED_TYPES`.
        aliases: further names of the same parameter (tied weights); for a pair, without `_orig`.
        pair: the keys of original and mask in the file, for a reparametrized pair; else None.
        special: why the tensor is not plain and dense ("sparse", "quantized", ...), or None.
            Special tensors are shown and never pruned; a torch file keeps them unchanged.
        role: the role for another parameter, such as the magnitude of a weight norm; or None.
        spared: why a tensor is not pruned though its dtype may be, in a few words; or None.
        kind: what it is if it is no weight, and patterns without conditions leave it out; or None.
        scale: by what its codes are multiplied, if the file says so; or None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    aliases: tuple[str, ...] = ()
    pair: tuple[str, str] | None = None
    special: str | None = None
    role: str | None = None
    spared: str | None = None
    kind: Kind | None = None
    scale: Scale | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements when stored densely."""
        return size_in_bytes(self.shape, self.dtype)

    @property
    def not_prunable(self) -> str | None:
        """Why the parameter cannot be pruned, in a few words; None if it can."""
        if self.special is not None or self.spared is not None:
            return self.special or self.spared
        if self.dtype not in PRUNABLE_DTYPES:
            return _dtype_reason(self.dtype)
        if self.numel == 0:
            return deferred("empty")
        return None


def size_in_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a dense tensor; elements of less than 8 bits are packed."""
    if dtype in QUANTIZED_TYPES:
        _, block_elements, block_nbytes = QUANTIZED_TYPES[dtype]
        return math.prod(shape) // block_elements * block_nbytes
    return (math.prod(shape) * ELEMENT_BITS[dtype] + 7) // 8


def _dtype_reason(dtype: str) -> str:
    if dtype == "float8_e8m0fnu":
        return deferred("cannot hold a zero")
    if dtype in QUANTIZED_TYPES or dtype.startswith("q"):
        return QUANTIZED
    if dtype in PACKED_DTYPES or dtype == "float4_e2m1fn_x2":
        return PACKED
    if dtype.startswith("complex"):
        return deferred("complex")
    return deferred("boolean") if dtype == "bool" else deferred("integer")
