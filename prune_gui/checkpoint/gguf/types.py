"""The types of tensors in GGUF files, as ggml defines them (ggml/include/ggml.h)."""

from __future__ import annotations

from typing import Final, NamedTuple


class TensorType(NamedTuple):
    """A type of tensors.

    Attributes:
        dtype: torch's name, or ggml's name of a quantized type.
        block_elements: elements of one block; 1 if the type is not quantized. A row of a tensor
            consists of whole blocks.
        block_nbytes: bytes of one block.
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
