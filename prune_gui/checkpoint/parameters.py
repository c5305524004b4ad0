"""From the raw tensors of a file to parameters: pairs and tied tensors become one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from prune_gui.checkpoint.tensor_info import TensorInfo

ORIGINAL: Final = "_orig"
MASK: Final = "_mask"


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor as the file stores it.

    Attributes:
        shape: its shape.
        dtype: its dtype; see `ENTRY_BITS`.
        view: equal for two tensors that are the very same view of the same memory; None if unique.
        special: see `TensorInfo`.
    """

    shape: tuple[int, ...]
    dtype: str
    view: Hashable = None
    special: str | None = None


def parameters(raw: Mapping[str, RawTensor]) -> tuple[dict[str, TensorInfo], list[str]]:
    """Fold raw tensors into parameters.

    A pair is `X_orig` and a dense `X_mask` of the same shape, with no tensor `X` beside them. Two
    names are tied if everything they stand for is the same view of the same memory.

    Returns:
        The parameters by name, in the order in which the file first mentions them, and sentences
        about what a person would not expect.
    """
    members: dict[str, tuple[str, str] | None] = {}
    remarks: list[str] = []
    for key in raw:
        name, pair = _pair(key, raw, remarks) or (key, None)
        members.setdefault(name, pair)

    names: dict[Hashable, list[str]] = {}  # of each distinct parameter, the first one counts
    for name, pair in members.items():
        names.setdefault(_identity(name, pair, raw), []).append(name)

    found = {}
    for name, *aliases in names.values():
        pair = members[name]
        shown = raw[pair[0] if pair else name]
        found[name] = TensorInfo(
            name, shown.shape, shown.dtype, tuple(aliases), pair, shown.special
        )
    return found, remarks


def _pair(
    key: str, raw: Mapping[str, RawTensor], remarks: list[str]
) -> tuple[str, tuple[str, str]] | None:
    """Return the name and the keys of the pair that `key` belongs to, if it does."""
    name = key.removesuffix(ORIGINAL) if key.endswith(ORIGINAL) else key.removesuffix(MASK)
    original, mask = raw.get(name + ORIGINAL), raw.get(name + MASK)
    if name == key or original is None or mask is None:
        return None
    if name in raw:
        problem = f"{name!r} exists too"
    elif original.shape != mask.shape:
        problem = "their shapes differ"
    elif original.special or mask.special:
        problem = f"they are not both dense ({original.special or mask.special})"
    else:
        return name, (name + ORIGINAL, name + MASK)
    if key.endswith(ORIGINAL):
        remarks.append(
            f"{name + ORIGINAL!r} and {name + MASK!r} are shown as two tensors, because {problem}."
        )
    return None


def _identity(name: str, pair: tuple[str, str] | None, raw: Mapping[str, RawTensor]) -> Hashable:
    """Return what two names share exactly if they are one parameter."""
    views = [raw[key].view for key in pair or (name,)]
    return name if None in views else tuple(views)
