"""Comparison of the masks of two resolutions: pruned in both, in one, or in neither; exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run
from prune_gui.raster.cell_grid import CellGrid, Tile
from prune_gui.raster.density import Within, count_in_cells
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.recipe import IN_FILE, KEPT
from prune_gui.statistics import weight_values
from prune_gui.statistics.kernels import CodeIndex

RIGHT: Final = 1
LEFT: Final = 2
BOTH: Final = LEFT | RIGHT
CORRECTED: Final = BOTH + 1

Stack = Sequence[stack.AppliedStep]
"""The steps that are applied to a parameter."""

_CODES: Final = (KEPT, RIGHT, LEFT, BOTH, CORRECTED)
_CODE_INDEX: Final = CodeIndex(_CODES, np.arange(256, dtype=np.uint8) % len(_CODES))


@dataclass(frozen=True, slots=True)
class Overlap:
    """Numbers of elements that two resolutions prune, in one parameter or in several.

    Attributes:
        name: name of the parameter; "" for several.
    """

    name: str
    both: int
    left: int
    right: int
    total: int

    @property
    def kept(self) -> int:
        return self.total - self.both - self.left - self.right

    @property
    def iou(self) -> float:
        """Intersection over union of the pruned elements; 1.0 if none is pruned."""
        either = self.total - self.kept
        return self.both / either if either else 1.0


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the elements of each cell of a grid; read-only float32 (cells down, cells across).

    Attributes:
        corrected: that both keep, and that have other values in each because steps correct them.
    """

    both: NDArray[np.float32]
    left: NDArray[np.float32]
    right: NDArray[np.float32]
    corrected: NDArray[np.float32]


def until(resolution: Resolution, steps: int, names: Iterable[str] | None = None) -> Resolution:
    """Return the resolution after the first `steps` steps. Reads no weights.

    Args:
        names: prunable parameters that the result describes; None for all. It also describes the
            weights from which corrections of these follow.
    """
    later = resolution.outcomes[steps:]
    corrections = tuple(one for one in resolution.corrections if one.step <= steps)
    if names is None:
        names = resolution.counts
    else:
        names = list(names)
        found = [one.sources[name] for one in corrections for name in names if name in one.sources]
        names = dict.fromkeys(names + [source.target.name for source in found])
    layers, counts = {}, {}
    for name in names:
        pruned, total = resolution.counts[name]
        counts[name] = pruned - sum(outcome.pruned.get(name, 0) for outcome in later), total
        if name in resolution.layers:
            applied = resolution.layers[name]
            layers[name] = tuple(o for o in applied if o.step <= steps or o.step == IN_FILE)
    return replace(
        resolution,
        recipe=resolution.recipe.with_steps(resolution.recipe.steps[:steps]),
        layers=layers,
        counts=counts,
        outcomes=resolution.outcomes[:steps],
        corrections=corrections,
    )


def comparable(left: Resolution, right: Resolution, name: str) -> bool:
    """Return whether a parameter is prunable on both sides and has the same shape."""
    is_prunable = name in left.counts and name in right.counts
    shapes = (side.checkpoint.tensors[name].shape for side in (left, right))
    return is_prunable and len(set(shapes)) == 1


def shares(
    left: Resolution | None,
    right: Resolution | None,
    name: str,
    grid: CellGrid[SliceLayout],
    monitor: Monitor,
) -> Shares:
    """Return the shares that two resolutions prune in each cell of a grid; see `density`.

    None for a resolution that has no such parameter, which counts as pruning nothing.
    """
    result = np.zeros((len(_CODE_INDEX.codes), *grid.shape), np.float32)

    def take(tile: Tile, counts: NDArray[np.int64], elements: NDArray[np.int64]) -> None:
        result[:, *tile] = counts / elements

    coded = ((left, LEFT), (right, RIGHT))
    sides = [(side, code) for side, code in coded if side and side.layers.get(name)]
    within = _classes(sides, name)
    has_corrected = bool(left and right and corrects_differently(left, right, name))
    if left and right and has_corrected:
        within = _with_corrected(within, left, right, name)
    if sides or has_corrected:
        count_in_cells(within, _CODE_INDEX, grid, take, monitor)
    result.flags.writeable = False
    return Shares(result[BOTH], result[LEFT], result[RIGHT], result[CORRECTED])


def corrects_differently(left: Resolution, right: Resolution, name: str) -> bool:
    """Return whether steps give the kept elements of a parameter other values on both sides."""
    same_file = left.checkpoint is right.checkpoint
    return same_file and left.values_key(name) != right.values_key(name)


def summed(rows: Iterable[Overlap]) -> Overlap:
    """Return the sum of several overlaps."""
    columns = [(row.both, row.left, row.right, row.total) for row in rows]
    return Overlap("", *(sum(column) for column in zip((0, 0, 0, 0), *columns, strict=True)))


def count_pruned_by_all(task: tuple[Sequence[Stack], int], monitor: Monitor) -> int:
    """Return how many elements of a parameter of some size each of several stacks prunes."""
    stacks, size = task

    def count(span: tuple[int, int]) -> int:
        monitor.advance(span[1] - span[0])
        pruned = [stack.pruned_by(applied, *span) != KEPT for applied in stacks]
        return int(np.count_nonzero(np.logical_and.reduce(pruned)))

    return sum(run(count, chunks(size)))


def _classes(sides: Sequence[tuple[Resolution, int]], name: str) -> Within:
    """Return a reader of which sides prune each element: the sum of their codes, or 0."""

    def within(start: int, stop: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        out[:] = 0
        for side, code in sides:
            pruned = side.pruned_by_within(name, start, stop) != KEPT
            out |= np.multiply(pruned, code, dtype=np.uint8)
        return out

    return within


def _with_corrected(within: Within, left: Resolution, right: Resolution, name: str) -> Within:
    """Return a reader of the classes of another, and `CORRECTED` where kept values differ."""
    readers = [weight_values.bits_reader_of(side.values(name)) for side in (left, right)]

    def read(start: int, stop: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        within(start, stop, out)
        of_left, of_right = (reader(start, stop) for reader in readers)
        out[(out == 0) & (of_left != of_right)] = CORRECTED
        return out

    return read
