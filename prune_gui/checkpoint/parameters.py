"""From the raw tensors of a file to parameters: pairs and tied tensors become one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prune_gui.checkpoint.roles import roles
from prune_gui.checkpoint.tensor_info import TensorInfo

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
    overlaps: list[str] = []
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
            spared = f"shares memory with {shown.shares}"
            overlaps.append(
                f"{name!r} shares some of its entries with {shown.shares!r}, and is not pruned, "
                "because that would prune both."
            )
        found[name] = TensorInfo(
            name, shown.shape, shown.dtype, (), pair, shown.special, spared=spared
        )
    for owner, names in aliases.items():
        found[owner] = found[owner]._replace(aliases=tuple(dict.fromkeys(names)))
    for name, role in roles(found).items():
        spared = role.spared or found[name].spared
        found[name] = found[name]._replace(role=role.text, spared=spared)
    return found, [*_first(apart), *_first(overlaps), *_about_prefixes(found)]


def _first(remarks: list[str]) -> list[str]:
    more = len(remarks) - TOLD_AT_MOST
    return [*remarks[:TOLD_AT_MOST], f"The same goes for {more:,} more."] if more > 0 else remarks


def _about_prefixes(names: Iterable[str]) -> Iterator[str]:
    """Yield remarks on what training wraps around the names of a model."""
    names = list(names)
    if names and all(name.startswith(PARALLEL) for name in names):
        yield (
            f"Every name begins with {PARALLEL!r}, as DataParallel leaves it. The names are kept "
            "as they are."
        )
    if any(COMPILED in name for name in names):
        yield (
            f"Names hold {COMPILED!r}, as torch.compile leaves it. The names are kept as they are."
        )


def _pair(key: str, raw: Mapping[str, RawTensor], remarks: list[str]) -> tuple[str, str] | None:
    """Return the keys of the pair that `key` belongs to, if it does."""
    name = key.removesuffix(ORIGINAL) if key.endswith(ORIGINAL) else key.removesuffix(MASK)
    original, mask = raw.get(name + ORIGINAL), raw.get(name + MASK)
    if original is None or mask is None:
        return None
    if name in raw:
        problem = f"{name!r} exists too"
    elif original.shape != mask.shape:
        problem = "their shapes differ"
    elif original.special or mask.special:
        problem = f"they are not both dense ({original.special or mask.special})"
    else:
        return name + ORIGINAL, name + MASK
    if key.endswith(ORIGINAL):
        remarks.append(
            f"{name + ORIGINAL!r} and {name + MASK!r} are shown as two tensors, because {problem}."
        )
    return None
