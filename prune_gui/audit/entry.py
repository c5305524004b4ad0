"""One weight: what it is, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Weight:
    """One entry of a parameter.

    Attributes:
        index: along every dimension.
        value: in the file.
        code: which step pruned it; 0 kept, 255 in the file.
    """

    index: tuple[int, ...]
    value: float
    code: int


def weight_at(resolution: Resolution, name: str, index: tuple[int, ...], flat: int) -> Weight:
    """Return one entry, given its index along every dimension and its flat (row-major) one."""
    value = float(resolution.checkpoint.view(name)[index])
    return Weight(index, value, int(resolution.pruned_by_within(name, flat, flat + 1)[0]))
