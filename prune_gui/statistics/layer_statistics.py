"""Statistics of all parameters: what is pruned in each, and the energy that remains.

Energy is the sum of squared weights, of the file or of a reference: the checkpoint before pruning.
Statistics that need the weights are computed incrementally, and reused after an edit for the
parameters that it does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui import parallel
from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run
from prune_gui.pruning.predicates import Predicate
from prune_gui.pruning.selection.radix_select import MAX_SMALL_ELEMENTS
from prune_gui.recipe import Resolution, stack
from prune_gui.statistics import kernels, weight_values
from prune_gui.statistics.dispatch import map_parameters
from prune_gui.statistics.losses import WeightState, loss

MAX_BATCH: Final = 1024
"""Maximum number of small parameters per call: a few milliseconds, so that Cancel is prompt."""

MEASURES: Final = np.dtype(
    [
        # Whether `energy`, `nan`, `infinite` and `dead_in_file` are computed; independent of steps.
        ("known", np.bool_),
        # Whether `kept` and `dead` are computed, too, which depend on the steps.
        ("weighed", np.bool_),
        ("energy", np.float64),
        ("kept", np.float64),
        ("nan", np.int64),
        ("infinite", np.int64),
        ("dead", np.int64),
        ("dead_in_file", np.int64),
    ]
)
"""The statistics that need the weights of a parameter; see `Rows` for the fields."""


@dataclass(frozen=True, eq=False, slots=True)
class LayerStatistics:
    """The statistics of every prunable parameter, in file order. The arrays are read-only.

    `sizes` are bytes; `measures` are zeros where not computed yet. The energies are those of the
    weights in the `reference`, and zero without one, for parameters that it does not have, and for
    tensors that are no weights (see `TensorInfo.kind`): running statistics may be large numbers.
    They are infinite for parameters of other shapes whose values are not slices of the larger one.
    """

    resolution: Resolution
    reference: Checkpoint | None
    infos: tuple[TensorInfo, ...]
    sizes: NDArray[np.int64]
    measures: NDArray[np.void]
    is_fetched: bool

    @property
    def checkpoint(self) -> Checkpoint:
        return self.resolution.checkpoint

    @property
    def is_complete(self) -> bool:
        return bool(self.measures["weighed"].all())

    @property
    def is_pending(self) -> bool:
        """Whether `compute` has something left to do, without fetching a remote checkpoint."""
        return not self.is_complete and self.is_fetched

    @property
    def covers_reference(self) -> bool:
        """Whether the file has all weights of the reference, or slices of them."""
        reference = self.reference
        return reference is not None and reference.weight_names <= self.checkpoint.tensors.keys()

    @property
    def progress(self) -> float:
        """The share of bytes for which statistics are computed, in [0, 1]."""
        return float(self.sizes[self.measures["weighed"]].sum() / max(1, self.sizes.sum()))


def empty_statistics(
    resolution: Resolution,
    before: LayerStatistics | None = None,
    *,
    reference: Checkpoint | Literal["own"] | None = "own",
) -> LayerStatistics:
    """Return the statistics of all parameters without reading weights.

    Of earlier statistics of the same open file, those of the weights are reused, and those of the
    kept weights for parameters whose applied steps are equal. The file is its own reference, unless
    another one is given.
    """
    own = resolution.checkpoint
    if reference == "own":
        reference = own
    if before is None or before.checkpoint is not own or before.reference is not reference:
        infos = tuple(own.tensors[name] for name in resolution.counts)
        measures = np.zeros(len(infos), MEASURES)
        measures.flags.writeable = False
        sizes = np.array([info.nbytes for info in infos], np.int64)
        is_fetched = all(one.is_fetched for one in (own, reference) if one is not None)
        return LayerStatistics(resolution, reference, infos, sizes, measures, is_fetched)
    if before.resolution is resolution:
        return before
    measures = before.measures.copy()
    for index, info in enumerate(before.infos):
        pruned_by = _predicates(resolution, info.name)
        if pruned_by == _predicates(before.resolution, info.name):
            continue
        row = measures[index]
        row["weighed"] = row["known"] and not pruned_by and reference is own
        if row["weighed"]:
            row["kept"], row["dead"] = row["energy"], row["dead_in_file"]
    measures.flags.writeable = False
    return replace(before, resolution=resolution, measures=measures)


def compute(
    statistics: LayerStatistics, wanted: Callable[[TensorInfo], bool], monitor: Monitor
) -> LayerStatistics:
    """Return statistics with parameters added that are not computed yet, smallest first.

    `wanted` is called before each is read, or before all on an executor; False stops.
    """
    waiting = np.flatnonzero(~statistics.measures["weighed"])
    sizes = statistics.sizes[waiting]
    measures = statistics.measures.copy()
    nbytes = int(sizes.sum())
    smallest_first = waiting[np.argsort(sizes, stable=True)].tolist()
    tasks = _tasks(statistics, smallest_first, wanted)
    with monitor.plan(nbytes):
        for indices, own in map_parameters(_measure, tasks, nbytes, monitor):
            measures[indices] = own
    measures.flags.writeable = False
    return replace(statistics, measures=measures)


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The task to measure one parameter, or several small ones at once."""

    indices: list[int]
    checkpoint: Checkpoint
    infos: list[TensorInfo]
    stacks: list[tuple[stack.AppliedStep, ...]]
    reference: Checkpoint | None


def _tasks(
    statistics: LayerStatistics, indices: Iterable[int], wanted: Callable[[TensorInfo], bool]
) -> Iterator[_Parameters]:
    """Yield the tasks for some parameters.

    Those that are not (out, in) count as large, since their channels are not consecutive.
    """
    checkpoint, layers = statistics.checkpoint, statistics.resolution.layers

    def task(indices: list[int]) -> _Parameters:
        infos = [statistics.infos[index] for index in indices]
        stacks = [layers.get(info.name, ()) for info in infos]
        return _Parameters(indices, checkpoint, infos, stacks, statistics.reference)

    batch: list[int] = []
    for index in indices:
        info = statistics.infos[index]
        if not wanted(info):
            break
        if info.numel > MAX_SMALL_ELEMENTS or not weight_layout(checkpoint, info.name).is_usual:
            yield task([index])
            continue
        batch.append(index)
        if len(batch) == MAX_BATCH:
            yield task(batch)
            batch = []
    if batch:
        yield task(batch)


def _predicates(resolution: Resolution, name: str) -> list[Predicate]:
    return [applied.predicate for applied in resolution.layers.get(name, ())]


def _measure(task: _Parameters, monitor: Monitor) -> tuple[list[int], NDArray[np.void]]:
    if len(task.infos) > 1:
        measures = _measure_small(task, monitor)
    else:
        measures = np.zeros(1, MEASURES)
        measures[0] = _measure_one(task.checkpoint, task.infos[0], task.stacks[0], monitor)
    if task.reference is not task.checkpoint:
        for row, info, applied in zip(measures, task.infos, task.stacks, strict=True):
            row["energy"], row["kept"] = energies(
                task.reference, task.checkpoint, info, applied, monitor
            )
    measures[["energy", "kept"]][[info.kind is not None for info in task.infos]] = 0
    return task.indices, measures


def energies(
    reference: Checkpoint | None,
    checkpoint: Checkpoint,
    info: TensorInfo,
    applied: Sequence[stack.AppliedStep],
    monitor: Monitor,
) -> tuple[float, float]:
    """Return the energy of a parameter in the reference, and of the elements that are not zero."""
    name = info.name
    before = reference.tensors.get(name) if reference is not None else None
    if reference is None or before is None or before.not_prunable:
        return 0.0, 0.0
    original = WeightState.in_file(reference, name)
    now = WeightState.in_file(checkpoint, name, applied)
    found = loss(original, now, max(before, info, key=attrgetter("numel")), monitor)
    reference.check()  # values of a file that changed meanwhile are invalid
    if found is None:
        return math.inf, math.inf
    energy, lost = float(found["energy"]), float(found["lost"])
    return energy, energy - lost


def _measure_small(task: _Parameters, monitor: Monitor) -> NDArray[np.void]:
    infos = task.infos
    monitor.advance(sum(info.nbytes for info in infos))
    channels = np.array([channels_of(task.checkpoint, info) for info in infos])
    bounds = np.cumsum([0, *(info.numel for info in infos)])
    sums, non_finite = np.zeros((len(infos), 2)), np.zeros((len(infos), 2), np.int64)
    dead = np.zeros_like(non_finite)
    kernels.add_squares_of_each(
        weight_values.together(task.checkpoint, [info.name for info in infos]),
        stack.kept_of_each(task.stacks, bounds) if any(task.stacks) else None,
        bounds,
        np.diff(bounds) // np.maximum(channels, 1),
        sums,
        non_finite,
        dead,
    )
    measures = np.zeros(len(infos), MEASURES)
    measures["known"] = measures["weighed"] = True
    measures["energy"], measures["kept"] = sums.T
    measures["nan"], measures["infinite"] = non_finite.T
    measures["dead"], measures["dead_in_file"] = np.where(channels > 0, dead.T, 0)
    return measures


_ChunkSums = tuple[int, NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]
"""The first channel of a chunk, and the sums, non-finite counts and channels of `add_squares`."""


def _measure_one(
    checkpoint: Checkpoint,
    info: TensorInfo,
    applied_steps: tuple[stack.AppliedStep, ...],
    monitor: Monitor,
) -> tuple[object, ...]:
    read = weight_values.reader(checkpoint, info.name)
    channels = channels_of(checkpoint, info)
    before, _, inner = 1, 0, info.numel
    if channels:
        layout = weight_layout(checkpoint, info.name)
        before, _, inner = layout.around(layout.output_dim, info.shape)

    def add_up(span: tuple[int, int]) -> _ChunkSums:
        start, stop = span
        monitor.advance((stop - start) * info.nbytes // info.numel)
        first = start // inner % max(channels, 1)
        sums, non_finite = np.zeros(2), np.zeros(2, np.int64)
        nonzero = np.zeros((2, (stop - 1) // inner - start // inner + 1), np.bool_)
        kept = stack.kept(applied_steps, start, stop) if applied_steps else None
        kernels.add_squares(
            read(start, stop), kept, inner, start % inner, sums, non_finite, nonzero
        )
        if before > 1:  # the span has whole slabs of all channels
            nonzero = np.logical_or.reduce(nonzero.reshape(2, -1, channels), axis=1)
        return first, sums, non_finite, nonzero

    sums, non_finite = np.zeros(2), np.zeros(2, np.int64)
    nonzero = np.zeros((2, max(channels, 1)), np.bool_)
    slab = channels * inner if before > 1 else 1
    spans = chunks(info.numel, max(1, parallel.CHUNK_ELEMENTS // slab) * slab)
    for first, more, more_non_finite, more_nonzero in run(add_up, spans):
        sums += more
        non_finite += more_non_finite
        nonzero[:, first : first + more_nonzero.shape[1]] |= more_nonzero
    dead_in_file, dead = (~nonzero).sum(1) if channels else (0, 0)
    return True, True, *sums, *non_finite, dead, dead_in_file


def channels_of(checkpoint: Checkpoint, info: TensorInfo) -> int:
    """Return the number of output channels of a parameter; 0 if it is 0-d or 1-d."""
    dim = weight_layout(checkpoint, info.name).output_dim
    return info.shape[dim] if len(info.shape) > 1 else 0
