"""The name, shape, dtype and other properties of a parameter, without its values."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final, Literal, NamedTuple

from prune_gui.language import deferred


class TensorType(NamedTuple):
    """A type of tensors: torch's or ggml's name, and the size of a block.

    A row of a tensor consists of whole blocks, which have one element if the type is not quantized.
    """

    dtype: str
    block_elements: int
    block_nbytes: int


TENSOR_TYPES: Final = {
    0: TensorType("float32", 1, 4),
    1: TensorType("float16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 40),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("int8", 1, 1),
    25: TensorType("int16", 1, 2),
    26: TensorType("int32", 1, 4),
    27: TensorType("int64", 1, 8),
    28: TensorType("float64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("bfloat16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
}
"""The types by their number in a file."""
TYPE_NUMBERS: Final = {tensor_type.dtype: number for number, tensor_type in TENSOR_TYPES.items()}
QUANTIZED_TYPES: Final = {
    tensor_type.dtype: tensor_type
    for tensor_type in TENSOR_TYPES.values()
    if tensor_type.block_elements > 1
}
"""The quantized types by dtype."""


ELEMENT_BITS: Final = {
    dtype: bits
    for bits, dtypes in {
        128: ("complex128",),
        64: ("float64", "complex64", "int64", "uint64"),
        32: ("float32", "complex32", "int32", "uint32", "qint32"),
        16: ("float16", "bfloat16", "int16", "uint16"),
        8: (
            *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
            *("float8_e8m0fnu", "float4_e2m1fn_x2", "int8", "uint8", "bool", "qint8", "quint8"),
        ),
        6: ("float6_e2m3", "float6_e3m2"),
        4: ("float4_e2m1",),
    }.items()
    for dtype in dtypes
}
"""Bits of one element by dtype: torch's name, or ours where torch has none (4 and 6 bits)."""

PACKED_DTYPES: Final = frozenset({"float6_e2m3", "float6_e3m2", "float4_e2m1", *QUANTIZED_TYPES})
"""Dtypes that torch does not have, of less than 8 bits or of blocks; read as bytes."""

CODE_DTYPES: Final = frozenset(
    {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
)
"""Dtypes of weights that may be codes, which are multiplied by scales."""
PRUNABLE_DTYPES: Final = frozenset({"float64", "float32", "float16", "bfloat16", *CODE_DTYPES})

QUANTIZED: Final = deferred("quantized")
PACKED: Final = deferred("packed")
MAX_DIMS: Final = 64
MAX_ELEMENTS: Final = 1 << 50
"""The limit for tensors whose elements need not all be in the file; keeps sums of many exact."""


Kind = Literal["buffer", "statistic", "scale", "alpha", "mask", "moment", "average"]
"""What a tensor is that is no weight; see `prune_gui.checkpoint.roles`."""


class RawTensor(NamedTuple):
    """One tensor as the file stores it.

    Attributes:
        view: equal for two tensors that are the same view of the same memory; None if unique.
        special: see `TensorInfo`.
        shares: the key of a different view that has some elements in the same memory.
        is_buffer: whether the file has it as a buffer of a module, not as a parameter.
    """

    shape: tuple[int, ...]
    dtype: str
    view: Hashable = None
    special: str | None = None
    shares: str | None = None
    is_buffer: bool = False


class WeightScale(NamedTuple):
    """The scales of a weight: the key of their tensor, and a shape with the weight's dimensions.

    For each dimension, `blocks` says how many consecutive codes share a scale.
    """

    key: str
    shape: tuple[int, ...]
    blocks: tuple[int, ...]


class TensorInfo(NamedTuple):
    """One parameter of a checkpoint.

    `special`, `role` and `spared` are translated with `tr` when they are shown.

    Attributes:
        name: the name that is shown and that recipes use. The name of a reparametrized pair
            `X_orig`, `X_mask` is "X"; its shape is that of the original.
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
    scale: WeightScale | None = None

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
