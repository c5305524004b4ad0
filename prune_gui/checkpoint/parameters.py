"""From the raw tensors of a file to parameters: pairs and tied tensors become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from prune_gui.checkpoint.roles import roles
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.language import later, tr

ORIGINAL: Final = "_orig"
MASK: Final = "_mask"
PARALLEL: Final = "module."
COMPILED: Final = "_orig_mod."
TOLD_AT_MOST: Final = 5
"""Remarks of one kind."""


class RawTensor(NamedTuple):
    """One tensor as the file stores it.

    Attributes:
        shape: its shape.
        dtype: its dtype; see `ENTRY_BITS`.
        view: equal for two tensors that are the very same view of the same memory; None if unique.
        special: see `TensorInfo`.
        shares: the key of another tensor that has some of its entries in the same memory without
            being the same view; None if there is none.
    """

    shape: tuple[int, ...]
    dtype: str
    view: Hashable = None
    special: str | None = None
    shares: str | None = None


def parameters(raw: Mapping[str, RawTensor]) -> tuple[dict[str, TensorInfo], list[str]]:
    """Fold raw tensors into parameters.

    A pair is `X_orig` and a dense `X_mask` of the same shape, with no tensor `X` beside them. Two
    names are tied if everything they stand for is the same view of the same memory.

    Returns:
        The parameters by name, in the order in which the file first mentions them, and sentences
        about what a person would not expect.
    """
    found: dict[str, TensorInfo] = {}
    owners: dict[Hashable, str] = {}  # of views, the names that came first
    aliases: dict[str, list[str]] = {}
    apart: list[str] = []
    overlaps: dict[str, str] = {}
    for key, tensor in raw.items():
        pair = _pair(key, raw, apart) if key.endswith((ORIGINAL, MASK)) else None
        name = pair[0].removesuffix(ORIGINAL) if pair else key
        if name in found:
            continue
        shown = raw[pair[0]] if pair else tensor
        if shown.view is not None:
            view = (shown.view, raw[pair[1]].view) if pair else shown.view
            owner = owners.setdefault(view, name)
            if owner != name:
                aliases.setdefault(owner, []).append(name)
                continue
        spared = None
        if shown.shares is not None:
            spared = later("shares memory with {other}", other=shown.shares)
            overlaps[name] = shown.shares
        found[name] = TensorInfo(
            name, shown.shape, shown.dtype, (), pair, shown.special, spared=spared
        )
    for owner, names in aliases.items():
        found[owner] = found[owner]._replace(aliases=tuple(dict.fromkeys(names)))
    for name, role in roles(found).items():
        spared = role.spared or found[name].spared
        found[name] = found[name]._replace(role=role.text, spared=spared)
    remarks = [
        *_about(apart, lambda name: _why_apart(name, raw)),
        *_about(list(overlaps), lambda name: _why_spared(name, overlaps[name])),
        *_about_prefixes(found),
    ]
    return found, remarks


def _about(names: Sequence[str], tell: Callable[[str], str]) -> Iterator[str]:
    """Yield a remark on each of the first few names, and on how many others there are."""
    yield from map(tell, names[:TOLD_AT_MOST])
    more = len(names) - TOLD_AT_MOST
    if more > 0:
        yield tr("The same goes for {more:,} more.", more=more)


def _why_apart(name: str, raw: Mapping[str, RawTensor]) -> str:
    """Return why what looks like a pair is none."""
    original, mask = raw[name + ORIGINAL], raw[name + MASK]
    special = original.special or mask.special
    if name in raw:
        message = later(
            "{original!r} and {mask!r} are shown as two tensors, because {name!r} exists too."
        )
    elif original.shape != mask.shape:
        message = later(
            "{original!r} and {mask!r} are shown as two tensors, because their shapes differ."
        )
    else:
        message = later(
            "{original!r} and {mask!r} are shown as two tensors, because they are not both dense "
            "({special})."
        )
    return tr(
        message,
        original=name + ORIGINAL,
        mask=name + MASK,
        name=name,
        special=tr(special) if special else "",
    )


def _why_spared(name: str, other: str) -> str:
    """Return why a tensor in the memory of another one is not pruned."""
    return tr(
        "{name!r} shares some of its entries with {other!r}, and is not pruned, "
        "because that would prune both.",
        name=name,
        other=other,
    )


def _about_prefixes(names: Iterable[str]) -> Iterator[str]:
    """Yield remarks on what training wraps around the names of a model."""
    names = list(names)
    if names and all(name.startswith(PARALLEL) for name in names):
        yield tr(
            "Every name begins with {prefix!r}, as DataParallel leaves it. The names are kept as "
            "they are.",
            prefix=PARALLEL,
        )
    if any(COMPILED in name for name in names):
        yield tr(
            "Names hold {part!r}, as torch.compile leaves it. The names are kept as they are.",
            part=COMPILED,
        )


def _pair(key: str, raw: Mapping[str, RawTensor], apart: list[str]) -> tuple[str, str] | None:
    """Return the keys of the pair that `key` belongs to, if it does.

    The name of what looks like one, and is none, is added to `apart`.
    """
    name = key.removesuffix(ORIGINAL) if key.endswith(ORIGINAL) else key.removesuffix(MASK)
    original, mask = raw.get(name + ORIGINAL), raw.get(name + MASK)
    if original is None or mask is None:
        return None
    dense = original.special is None and mask.special is None
    if name not in raw and original.shape == mask.shape and dense:
        return name + ORIGINAL, name + MASK
    if key.endswith(ORIGINAL):
        apart.append(name)
    return None
