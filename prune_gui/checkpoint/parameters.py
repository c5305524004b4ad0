"""Merging the raw tensors of a file into parameters: each pair and each tie becomes one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from prune_gui.checkpoint.roles import roles
from prune_gui.checkpoint.scales import scale_of
from prune_gui.checkpoint.tensor_info import CODE_DTYPES, RawTensor, TensorInfo
from prune_gui.language import deferred, tr, trn

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
