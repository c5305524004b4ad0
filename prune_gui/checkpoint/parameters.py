"""Merging the raw tensors of a file into parameters: each pair and each tie becomes one.

Weights that are stored as 8-bit floating point codes have scales: value = code x scale. All known
writers multiply, also under the name `weight_scale_inv` (DeepSeek).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.roles import roles
from prune_gui.checkpoint.tensor_info import CODE_DTYPES, RawTensor, TensorInfo, WeightScale
from prune_gui.language import deferred, tr, trn

if TYPE_CHECKING:
    import torch


ORIGINAL_SUFFIX: Final = "_orig"
MASK_SUFFIX: Final = "_mask"
DATA_PARALLEL_PREFIX: Final = "module."
COMPILED_PREFIX: Final = "_orig_mod."
OVERLAP: Final = deferred(
    "{name!r} shares some of its elements with {other!r}. It cannot be pruned, because that would "
    "prune both."
)
MAX_REMARKS_PER_KIND: Final = 5
"""Further remarks of the same kind are only counted."""


def parameters(
    raw: Mapping[str, RawTensor],
    config: Mapping[str, int] = MappingProxyType({}),
    root: Sequence[str | int] = (),
) -> tuple[dict[str, TensorInfo], list[str]]:
    """Merge raw tensors into parameters.

    A pair is `X_orig` and a dense `X_mask` of the same shape, without a tensor `X`. Two names are
    tied if they are the same view of the same memory; tied pairs also share the mask.
    """
    infos: dict[str, TensorInfo] = {}
    owners: dict[Hashable, str] = {}  # the first name of each view
    aliases: dict[str, list[str]] = {}
    unpaired: list[str] = []
    overlaps: dict[str, str] = {}
    for key, tensor in raw.items():
        pair = _pair(key, raw, unpaired) if key.endswith((ORIGINAL_SUFFIX, MASK_SUFFIX)) else None
        name = pair[0].removesuffix(ORIGINAL_SUFFIX) if pair else key
        if name in infos:
            continue
        values = raw[pair[0]] if pair else tensor
        if values.view is not None:
            view = (values.view, raw[pair[1]].view) if pair else values.view
            owner = owners.setdefault(view, name)
            if owner != name:
                aliases.setdefault(owner, []).append(name)
                continue
        spared = None
        if values.shares is not None:
            spared = deferred("shares memory with {other}", other=values.shares)
            overlaps[name] = values.shares
        infos[name] = TensorInfo(
            name, values.shape, values.dtype, (), pair, values.special, spared=spared
        )
    for owner, names in aliases.items():
        infos[owner] = infos[owner]._replace(aliases=tuple(dict.fromkeys(names)))
    buffers = [key for key, one in raw.items() if one.is_buffer]
    for name, role in roles(infos, buffers, "".join(f"{part}." for part in root)).items():
        spared = role.spared or infos[name].spared
        infos[name] = infos[name]._replace(role=role.text, spared=spared, kind=role.kind)
    unscaled = []
    for name, info in infos.items():
        if info.dtype not in CODE_DTYPES or info.kind or info.not_prunable:
            continue
        key = info.pair[0] if info.pair else info.name
        scales = (scale_of(one, raw, key, config) for one in (info.name, *info.aliases))
        if scale := next(filter(None, scales), None):
            infos[name] = info._replace(scale=scale)
        else:
            unscaled.append(name)
    remarks = [
        *_limited_remarks(unpaired, lambda name: _unpaired_remark(name, raw)),
        *_limited_remarks(
            list(overlaps), lambda name: tr(OVERLAP, name=name, other=overlaps[name])
        ),
    ]
    if unscaled:
        remark = trn(
            "{name!r} is stored as 8-bit floating point codes, and no scale of known shape is "
            "beside it. It is ranked and shown by its stored codes.",
            "{count:,} tensors, such as {name!r}, are stored as 8-bit floating point codes, and no "
            "scales of known shape are beside them. They are ranked and shown by their stored "
            "codes.",
            len(unscaled),
            name=unscaled[0],
        )
        remarks.append(remark)
    if infos and all(name.startswith(DATA_PARALLEL_PREFIX) for name in infos):
        remark = tr(
            "Every name begins with {prefix!r}, which DataParallel adds. The names are not "
            "changed.",
            prefix=DATA_PARALLEL_PREFIX,
        )
        remarks.append(remark)
    if any(COMPILED_PREFIX in name for name in infos):
        remark = tr(
            "Names contain {part!r}, which torch.compile adds. The names are not changed.",
            part=COMPILED_PREFIX,
        )
        remarks.append(remark)
    return infos, remarks


def _limited_remarks(names: Sequence[str], remark_of: Callable[[str], str]) -> Iterator[str]:
    yield from map(remark_of, names[:MAX_REMARKS_PER_KIND])
    more = len(names) - MAX_REMARKS_PER_KIND
    if more > 0:
        yield tr("The same applies to {more:,} more.", more=more)


def _unpaired_remark(name: str, raw: Mapping[str, RawTensor]) -> str:
    original, mask = name + ORIGINAL_SUFFIX, name + MASK_SUFFIX
    special = raw[original].special or raw[mask].special
    if name in raw:
        message = deferred(
            "{original!r} and {mask!r} are shown as two tensors, because {name!r} exists too."
        )
    elif raw[original].shape != raw[mask].shape:
        message = deferred(
            "{original!r} and {mask!r} are shown as two tensors, because their shapes differ."
        )
    else:
        message = deferred(
            "{original!r} and {mask!r} are shown as two tensors, because they are not both dense "
            "({special})."
        )
    return tr(
        message, original=original, mask=mask, name=name, special=tr(special) if special else ""
    )


def _pair(key: str, raw: Mapping[str, RawTensor], unpaired: list[str]) -> tuple[str, str] | None:
    """Return the keys of the pair of a key, or None; `unpaired` gets what only looks like one."""
    name = key[: -len(ORIGINAL_SUFFIX)]  # both suffixes have as many characters
    keys = name + ORIGINAL_SUFFIX, name + MASK_SUFFIX
    original, mask = map(raw.get, keys)
    if original is None or mask is None:
        return None
    dense = original.special is None and mask.special is None
    if name not in raw and original.shape == mask.shape and dense:
        return keys
    if key == keys[0]:
        unpaired.append(name)
    return None


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
