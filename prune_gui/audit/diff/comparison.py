"""What two moments prune, side by side: both, only one, or neither; exact at any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.code_index import CodeIndex
from prune_gui.audit.raster.density import Tile, Within, count_in_cells, grid_shape
from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.audit.statistics.patterns import followed_by
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT

RIGHT: Final = 1
LEFT: Final = 2
BOTH: Final = LEFT | RIGHT

Obstacle = Literal["shape", "not_left", "not_right", "not_prunable"]
"""Why two moments cannot be compared by a parameter: it has another shape on either side, one side
has no such tensor, or it cannot be pruned on one of them."""

_SLOTS: Final = CodeIndex((KEPT, RIGHT, LEFT, BOTH), np.arange(256, dtype=np.uint8) % 4)


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many entries two moments prune, of one parameter or of several.

    Attributes:
        name: of the parameter.
        both: pruned in both moments.
        left: pruned in the left one alone.
        right: pruned in the right one alone.
        total: all entries.
        patterns: the n:m patterns that the mask follows in the left moment, and in the right one;
            none if that was not asked for.
    """

    name: str
    both: int
    left: int
    right: int
    total: int
    patterns: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def kept(self) -> int:
        """How many entries neither prunes."""
        return self.total - self.both - self.left - self.right

    @property
    def iou(self) -> float:
        """Pruned in both over pruned in either; 1.0 if nothing is."""
        either = self.total - self.kept
        return self.both / either if either else 1.0


@dataclass(frozen=True, slots=True)
class Shares:
    """A grid of cells over a rectangle of a plane. The arrays are read-only.

    Attributes:
        both: float32, per cell, the share of its entries that both moments prune.
        left: likewise, the left one alone.
        right: likewise, the right one alone.
    """

    both: NDArray[np.float32]
    left: NDArray[np.float32]
    right: NDArray[np.float32]


def until(resolution: Resolution, steps: int) -> Resolution:
    """Return what the first so many steps of a recipe had pruned. Looks at no weight."""
    later = resolution.outcomes[steps:]
    return replace(
        resolution,
        recipe=resolution.recipe.with_steps(resolution.recipe.steps[:steps]),
        layers={
            name: tuple(layer for layer in layers if layer.step <= steps or layer.step == IN_FILE)
            for name, layers in resolution.layers.items()
        },
        counts={
            name: (pruned - sum(outcome.pruned.get(name, 0) for outcome in later), total)
            for name, (pruned, total) in resolution.counts.items()
        },
        outcomes=resolution.outcomes[:steps],
    )


def comparable(left: Resolution, right: Resolution, name: str) -> bool:
    """Tell whether both can prune a parameter of this name, of one shape."""
    return _obstacle(left, right, name) is None


def left_out(left: Resolution, right: Resolution) -> Counter[Obstacle]:
    """Return how many parameters of either side are not `comparable`, by what is in the way."""
    obstacles = (_obstacle(left, right, name) for name in {**left.counts, **right.counts})
    return Counter(obstacle for obstacle in obstacles if obstacle is not None)


def _obstacle(left: Resolution, right: Resolution, name: str) -> Obstacle | None:
    of_left, of_right = (side.checkpoint.tensors.get(name) for side in (left, right))
    if of_left is None:
        return "not_left"
    if of_right is None:
        return "not_right"
    if of_left.shape != of_right.shape:
        return "shape"
    return None if name in left.counts and name in right.counts else "not_prunable"


def shares(
    left: Resolution,
    right: Resolution,
    name: str,
    plane: SliceLayout,
    rows: range,
    columns: range,
    cells: tuple[int, int],
    monitor: Monitor,
) -> Shares:
    """Return what two moments prune in each cell of a rectangle of a parameter; see `density`.

    Raises:
        Cancelled: the monitor said so.
    """
    found = np.zeros((len(_SLOTS.codes), *grid_shape(rows, columns, cells)), np.float32)

    def take(tile: Tile, counts: NDArray[np.int64], entries: NDArray[np.int64]) -> None:
        found[:, *tile] = counts / entries

    if left.layers.get(name) or right.layers.get(name):
        within = _classes(left, right, name)
        count_in_cells(within, _SLOTS, plane, rows, columns, cells, take, monitor)
    found.flags.writeable = False
    return Shares(found[BOTH], found[LEFT], found[RIGHT])


def overlaps(
    left: Resolution, right: Resolution, names: Iterable[str], monitor: Monitor
) -> tuple[Overlap, ...]:
    """Return how much two moments prune of each parameter.

    Entries are looked at only where both prune some and neither moment follows from the other.

    Args:
        left: one moment.
        right: another one, of the same checkpoint or of another.
        names: of parameters that are `comparable`.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    return tuple(_overlap(left, right, name, monitor) for name in names)


def with_patterns(
    rows: Iterable[Overlap], left: Resolution, right: Resolution, monitor: Monitor
) -> tuple[Overlap, ...]:
    """Return overlaps with the n:m patterns that both masks follow.

    Raises:
        Cancelled: the monitor said so.
    """

    def follow(row: Overlap) -> Overlap:
        of_left = followed_by(left, row.name, monitor)
        same = left.layers.get(row.name) == right.layers.get(row.name) and not row.left + row.right
        of_right = of_left if same else followed_by(right, row.name, monitor)
        return replace(row, patterns=(of_left, of_right))

    return tuple(map(follow, rows))


def summed(rows: Iterable[Overlap]) -> Overlap:
    """Return several overlaps as one."""
    columns = [(row.both, row.left, row.right, row.total) for row in rows]
    return Overlap("", *(sum(column) for column in zip(*columns, strict=True))) if columns else NONE


NONE: Final = Overlap("", 0, 0, 0, 0)


def _overlap(left: Resolution, right: Resolution, name: str, monitor: Monitor) -> Overlap:
    monitor.advance()
    (of_left, total), (of_right, _) = left.counts[name], right.counts[name]
    layers_left, layers_right = left.layers.get(name, ()), right.layers.get(name, ())
    fewer = min(len(layers_left), len(layers_right))
    if layers_left[:fewer] == layers_right[:fewer] or not (of_left and of_right):
        both = min(of_left, of_right)  # what the first steps pruned, later ones leave pruned
    else:
        both = _count_both(_classes(left, right, name), total, monitor)
    return Overlap(name, both, of_left - both, of_right - both, total)


def _count_both(within: Within, size: int, monitor: Monitor) -> int:
    def count(span: tuple[int, int]) -> int:
        monitor.advance(span[1] - span[0])
        memory = np.empty(span[1] - span[0], np.uint8)
        return int(np.count_nonzero(within(*span, memory) == BOTH))

    monitor.expect(size)
    return sum(run(count, chunks(size)))


def _classes(left: Resolution, right: Resolution, name: str) -> Within:
    """Return what tells of flat entries which moments prune them: `LEFT`, `RIGHT`, `BOTH`, 0."""

    def within(start: int, stop: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        of_left = left.pruned_by_within(name, start, stop) != KEPT
        of_right = right.pruned_by_within(name, start, stop, out) != KEPT
        np.multiply(of_left, np.uint8(LEFT), out=out)
        out |= of_right
        return out

    return within
