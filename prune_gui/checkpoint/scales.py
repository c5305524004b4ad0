"""The scales of weights that are stored as 8-bit floating point codes: value = code x scale.

All known writers multiply, also under the name `weight_scale_inv` (DeepSeek).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.tensor_info import CODE_DTYPES, RawTensor, WeightScale

if TYPE_CHECKING:
    import torch

SCALE_DTYPES: Final = frozenset({"float64", "float32", "float16", "bfloat16", "float8_e8m0fnu"})
EXPONENT_BIAS: Final = 127
"""Of scales that are powers of two, stored as uint8 (OCP Microscaling Formats, 2023)."""
STEM: Final = re.compile(r"(?P<module>(?:.*[./])?)(?P<weight>[^./]+)")
SUFFIXES: Final = ("_scale", "_scale_inv")
"""Of the name of the weight: compressed-tensors, ModelOpt, FBGEMM; DeepSeek."""
STORED: Final = re.compile(r"(.*_)q?data")
"""The end of the name of codes whose scales end with "scale" in its place: quanto, torchao."""
BLOCK_FIELD: Final = "quantization_config.weight_block_size."
"""The field of config.json with the number of codes per scale, and the number of a dimension."""


def _scale_names(name: str) -> Iterator[str]:
    for suffix in SUFFIXES:
        yield name + suffix
    match = STEM.fullmatch(name)
    if match and match["weight"] == "weight":
        yield f"{match['module']}scale_weight"  # ComfyUI
        yield f"{match['module']}scale"
    if stored := STORED.fullmatch(name):
        yield f"{stored[1]}scale"


def scale_of(
    name: str, raw: Mapping[str, RawTensor], key: str, config: Mapping[str, int]
) -> WeightScale | None:
    """Return the scales of a weight; None if it is not known by what its codes are multiplied."""
    codes = raw[key]
    if codes.dtype not in CODE_DTYPES or not codes.shape or f"{name}_zero_point" in raw:
        return None
    for other in _scale_names(name):
        scales = raw.get(other)
        if scales is None or other == key:
            continue
        if scales.dtype not in SCALE_DTYPES and scales.dtype != "uint8":
            return None
        named = tuple(config.get(f"{BLOCK_FIELD}{dim}", 0) for dim in range(2))
        fitted = _fitted(scales.shape, codes.shape, named)
        return fitted and WeightScale(other, *fitted)
    return None


@lru_cache(1024)
def _fitted(
    shape: tuple[int, ...], codes: tuple[int, ...], named: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return shape and blocks of a `WeightScale` for shapes of scales and codes, if they tell."""
    dims, rows = len(codes), shape
    if math.prod(shape) == 1:
        return (1,) * dims, codes
    while rows[-1:] == (1,):
        rows = rows[:-1]
    if rows == codes[: len(rows)]:
        shape = rows + (1,) * (dims - len(rows))
    if len(shape) != dims:
        return None
    given = (0,) * (dims - 2) + named if dims > 1 else (0,)
    blocks = tuple(map(_block, codes, shape, given))
    return (shape, blocks) if all(blocks) else None


def _block(codes: int, scales: int, named: int) -> int:
    """Return how many consecutive codes share each of some scales; 0 if that is not known.

    The last scale may have fewer. Blocks are as config.json says, or a power of two, or all equal.
    """
    if scales in (1, codes):
        return max(codes // max(scales, 1), 1)
    if not 0 < scales < codes:
        return 0
    power = 1 << (-(-codes // scales) - 1).bit_length()
    choices = (named, power, codes // scales)
    return next((size for size in choices if size and -(-codes // size) == scales), 0)


def dequantized(
    codes: torch.Tensor,
    start: int,
    shape: tuple[int, ...],
    scales: torch.Tensor,
    scale: WeightScale,
) -> torch.Tensor:
    """Return codes from the flat index `start` on times their scales, float32.

    `shape` is that of the weight; `scales` are all of its scales, of any shape.
    """
    import torch  # slow to import

    values = codes.float()
    if scales.numel() == 1:
        return values * _numbers(scales).reshape(())
    columns = shape[-1]
    first, end = start // columns, -(-(start + codes.numel()) // columns)
    rows = torch.arange(first, end)
    of_rows = torch.zeros_like(rows)  # the index of the row of scales for each row of codes
    stride = 1
    for size, length, block in zip(
        reversed(shape[:-1]), reversed(scale.shape[:-1]), reversed(scale.blocks[:-1]), strict=True
    ):
        of_rows += rows % size // block * stride
        rows //= size
        stride *= length
    wide = _numbers(scales.reshape(-1, scale.shape[-1])[of_rows])
    if scale.blocks[-1] > 1:
        wide = wide.repeat_interleave(scale.blocks[-1], 1)[:, :columns]
    return values.mul_(wide.reshape(-1)[start - first * columns :][: values.numel()])


def _numbers(scales: torch.Tensor) -> torch.Tensor:
    import torch  # slow to import

    if scales.dtype is torch.uint8:
        return torch.ldexp(torch.ones(scales.shape), scales.int() - EXPONENT_BIAS)
    return scales.float()
