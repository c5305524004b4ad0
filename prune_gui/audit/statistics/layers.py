"""All parameters side by side: what is pruned of each, and how much of its energy that leaves.

What needs no weight is known at once; the rest is read bit by bit, and kept across edits as far as
they leave it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.statistics import values
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import Predicate
from prune_gui.pruning.selection.radix_select import SMALL
from prune_gui.recipe import Resolution, stack

TOGETHER: Final = 1024
"""How many are, at most: some milliseconds of work, so that Cancel is prompt."""

MEASURES: Final = np.dtype(
    [
        ("known", np.bool_),  # `energy`, `nan`, `infinite` and `dead_in_file`, which steps leave
        ("weighed", np.bool_),  # and `kept` and `dead`, which are of the steps there are
        ("energy", np.float64),
        ("kept", np.float64),
        ("nan", np.int64),
        ("infinite", np.int64),
        ("dead", np.int64),
        ("dead_in_file", np.int64),
    ]
)
"""What is found out about a parameter by reading it; see `Rows`."""


@dataclass(frozen=True, eq=False, slots=True)
class LayerStatistics:
    """What is known of every parameter that can be pruned. The arrays are read-only.

    Attributes:
        resolution: what is pruned.
        infos: the parameters, in file order.
        sizes: int64, the bytes of each.
        measures: of `MEASURES`, one per parameter; zeros where nothing is known yet.
    """

    resolution: Resolution
    infos: tuple[TensorInfo, ...]
    sizes: NDArray[np.int64]
    measures: NDArray[np.void]

    @property
    def checkpoint(self) -> Checkpoint:
        """The open file."""
        return self.resolution.checkpoint

    @property
    def is_complete(self) -> bool:
        """Whether every parameter is weighed."""
        return bool(self.measures["weighed"].all())

    @property
    def progress(self) -> float:
        """Which share of the bytes is read, in [0, 1]."""
        return float(self.sizes[self.measures["weighed"]].sum() / max(1, self.sizes.sum()))


def empty_statistics(
    resolution: Resolution, before: LayerStatistics | None = None
) -> LayerStatistics:
    """Return what is known of the parameters without reading any.

    Args:
        resolution: what is pruned.
        before: an earlier survey. What it found out about the same file still holds, and what is
            kept of a parameter does as long as the same is pruned of it.
    """
    if before is None or before.checkpoint is not resolution.checkpoint:
        infos = tuple(resolution.checkpoint.tensors[name] for name in resolution.counts)
        measures = np.zeros(len(infos), MEASURES)
        measures.flags.writeable = False
        sizes = np.array([info.nbytes for info in infos], np.int64)
        return LayerStatistics(resolution, infos, sizes, measures)
    measures = before.measures.copy()
    for place, info in enumerate(before.infos):
        pruned_by = _predicates(resolution, info.name)
        if pruned_by == _predicates(before.resolution, info.name):
            continue
        found = measures[place]
        found["weighed"] = found["known"] and not pruned_by
        if found["weighed"]:
            found["kept"], found["dead"] = found["energy"], found["dead_in_file"]
    measures.flags.writeable = False
    return replace(before, resolution=resolution, measures=measures)


def compute(
    statistics: LayerStatistics, wanted: Callable[[TensorInfo], bool], monitor: Monitor
) -> LayerStatistics:
    """Read parameters that are not weighed yet, small ones first.

    Args:
        statistics: what is known.
        wanted: asked about each before it is read; a no is the end.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    waiting = np.flatnonzero(~statistics.measures["weighed"])
    sizes = statistics.sizes[waiting]
    measures = statistics.measures.copy()
    with monitor.plan(int(sizes.sum())):
        some: list[int] = []
        for place in waiting[np.argsort(sizes, stable=True)].tolist():
            info = statistics.infos[place]
            if not wanted(info):
                break
            if info.numel > SMALL:
                measures[place] = _weigh_one(statistics.resolution, info, monitor)
                continue
            some.append(place)
            if len(some) == TOGETHER:
                measures[some] = _weigh_small(statistics, some, monitor)
                some.clear()
        if some:
            measures[some] = _weigh_small(statistics, some, monitor)
    measures.flags.writeable = False
    return replace(statistics, measures=measures)


def _predicates(resolution: Resolution, name: str) -> list[Predicate]:
    return [layer.predicate for layer in resolution.layers.get(name, ())]


def _weigh_small(
    statistics: LayerStatistics, places: list[int], monitor: Monitor
) -> NDArray[np.void]:
    """Return the `MEASURES` of parameters that are small enough to be read together."""
    infos, resolution = [statistics.infos[place] for place in places], statistics.resolution
    monitor.advance(int(statistics.sizes[places].sum()))
    channels = np.array([channels_of(info) for info in infos])
    bounds = np.cumsum([0, *(info.numel for info in infos)])
    sums, odd = np.zeros((len(infos), 2)), np.zeros((len(infos), 2), np.int64)
    dead = np.zeros_like(odd)
    kernels.add_squares_of_each(
        values.together(statistics.checkpoint, [info.name for info in infos]),
        _kept(resolution, infos, bounds),
        bounds,
        np.diff(bounds) // np.maximum(channels, 1),
        sums,
        odd,
        dead,
    )
    found = np.zeros(len(infos), MEASURES)
    found["known"] = found["weighed"] = True
    found["energy"], found["kept"] = sums.T
    found["nan"], found["infinite"] = odd.T
    found["dead"], found["dead_in_file"] = np.where(channels > 0, dead.T, 0)
    return found


def _kept(
    resolution: Resolution, infos: list[TensorInfo], bounds: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return what is kept of parameters, one after the other; None if everything is."""
    layers = [resolution.layers.get(info.name, ()) for info in infos]
    if not any(layers):
        return None
    return stack.kept_of_each(layers, bounds)


_Part = tuple[int, NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]
"""Of a stretch: its first channel, and the sums, odd values and channels of `add_squares`."""


def _weigh_one(resolution: Resolution, info: TensorInfo, monitor: Monitor) -> tuple[object, ...]:
    """Return the `MEASURES` of one parameter."""
    layers = resolution.layers.get(info.name, ())
    read = values.reader(resolution.checkpoint, info.name)
    channels = channels_of(info)
    inner = info.numel // max(channels, 1)

    def look(span: tuple[int, int]) -> _Part:
        start, stop = span
        monitor.advance((stop - start) * info.nbytes // info.numel)
        first = start // inner
        sums, odd = np.zeros(2), np.zeros(2, np.int64)
        remaining_mask = np.zeros((2, (stop - 1) // inner - first + 1), np.bool_)
        kept = stack.kept(layers, start, stop) if layers else None
        kernels.add_squares(
            read(start, stop), kept, inner, start % inner, sums, odd, remaining_mask
        )
        return first, sums, odd, remaining_mask

    sums, odd = np.zeros(2), np.zeros(2, np.int64)
    remaining_mask = np.zeros((2, max(channels, 1)), np.bool_)
    for first, more, more_odd, more_alive in run(look, chunks(info.numel)):
        sums += more
        odd += more_odd
        remaining_mask[:, first : first + more_alive.shape[1]] |= more_alive
    dead_in_file, dead = (~remaining_mask).sum(1) if channels else (0, 0)
    return True, True, *sums, *odd, dead, dead_in_file


def channels_of(info: TensorInfo) -> int:
    """Return how many channels a parameter has along dim 0; 0 if it is a vector or a number."""
    return info.shape[0] if len(info.shape) > 1 else 0
