"""The rows of a table of all parameters, or of the modules they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.statistics.layers import LayerStatistics, channels_of
from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree
from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.recipe.resolution import NEARLY_EMPTY


@dataclass(frozen=True, eq=False, slots=True)
class Grouping:
    """Which row each parameter belongs to.

    Attributes:
        depth: of the modules that are rows; None if every parameter is a row of its own.
        names: of the rows: dotted paths.
        places: for each parameter, in file order, the place of its row.
        first: for each row, the place of the first parameter in it.
    """

    depth: int | None
    names: tuple[str, ...]
    places: NDArray[np.intp]
    first: NDArray[np.intp]


@gc_paused()
def grouping(infos: tuple[TensorInfo, ...], depth: int | None) -> Grouping:
    """Return the rows of parameters, or of the modules at a depth.

    Args:
        infos: the parameters, in file order.
        depth: from 1; parameters that lie higher are rows of their own. Rows are in the order of
            the tree then, in file order for None.
    """
    if depth is None:
        every = np.arange(len(infos))
        return Grouping(None, tuple(info.name for info in infos), every, every)
    place_of = {info.name: place for place, info in enumerate(infos)}
    names, first = [], []
    places = np.zeros(len(infos), np.intp)
    for row, (name, tensors) in enumerate(_groups(module_tree(infos), depth)):
        here = [place_of[tensor.name] for tensor in tensors]
        places[here] = row
        names.append(name)
        first.append(min(here))
    return Grouping(depth, tuple(names), places, np.array(first, np.intp))


def _groups(root: ModuleNode, depth: int) -> Iterable[tuple[str, tuple[TensorInfo, ...]]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.depth == depth:
            yield node.path, node.tensors
            continue
        if node.tensor is not None:
            yield node.path, (node.tensor,)
        waiting.extend(reversed(node.children))


def deepest(infos: Iterable[TensorInfo]) -> int:
    """Return the greatest depth at which there are modules."""
    return max((info.name.count(".") for info in infos), default=0)


def fitting(infos: Sequence[TensorInfo], most: int) -> int | None:
    """Return the depth at which there are the most rows, but no more than `most`.

    None, for one per parameter, if those are no more; or if at every depth there are more, or one.
    """
    if len(infos) <= most:
        return None
    paths = [info.name.split(".") for info in infos]
    for depth in range(deepest(infos), 0, -1):
        if 1 < len({".".join(path[:depth]) for path in paths}) <= most:
            return depth
    return None


@dataclass(frozen=True, eq=False)
class Rows:
    """What is pruned of some parameters, or modules. The arrays have an element per row.

    Attributes:
        grouping: what the rows are.
        infos: the first parameter of each row; the only one where `size` is 1.
        shapes: of those.
        tied: boolean, whether those have other names too.
        size: int64, how many parameters.
        total: int64, entries.
        codes: what each row of `counts` is about: steps that pruned something, then 255, in the
            file; as in `Resolution.pruned_by`.
        counts: int64 (codes, rows), how many entries.
        energy: float64, the sum of the squares of all finite weights, NaN while not known. It is
            infinite where that exceeds a float64.
        kept: float64, likewise of those that are kept.
        nan: int64, how many weights are not a number; 0 while not known, as all that follow.
        infinite: int64, how many are infinite.
        channels: int64, along dim 0 of the parameters that have more dimensions than one.
        dead: int64, of those, how many keep nothing but zeros.
        dead_in_file: int64, how many hold nothing else in the file.
        nearly_empty: int64, how many parameters have next to nothing left.
    """

    grouping: Grouping
    infos: tuple[TensorInfo, ...]
    shapes: tuple[tuple[int, ...], ...]
    tied: NDArray[np.bool_]
    size: NDArray[np.int64]
    total: NDArray[np.int64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    energy: NDArray[np.float64]
    kept: NDArray[np.float64]
    nan: NDArray[np.int64]
    infinite: NDArray[np.int64]
    channels: NDArray[np.int64]
    dead: NDArray[np.int64]
    dead_in_file: NDArray[np.int64]
    nearly_empty: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.total)

    @property
    def names(self) -> tuple[str, ...]:
        """Dotted paths."""
        return self.grouping.names

    @cached_property
    def pruned(self) -> NDArray[np.int64]:
        """How many entries of each row are pruned."""
        pruned: NDArray[np.int64] = self.counts.sum(0)
        return pruned

    @property
    def share(self) -> NDArray[np.float64]:
        """Which share of each row is pruned."""
        return self.pruned / self.total

    @cached_property
    def kept_share(self) -> NDArray[np.float64]:
        """Which share of the energy is kept; NaN if it is not known, zero or infinite."""
        share = np.full(len(self), np.nan)
        np.divide(self.kept, self.energy, out=share, where=_can_divide(self.energy))
        return share


def rows_of(statistics: LayerStatistics, groups: Grouping) -> Rows:
    """Return a survey as rows."""
    resolution = statistics.resolution
    number = len(groups.names)

    def gather(values: NDArray[Any]) -> NDArray[Any]:
        return _added(values, groups.places, number)

    pruned, total = np.array(list(resolution.counts.values()), np.int64).reshape(-1, 2).T
    codes, by_step = _by_step(resolution, statistics.infos, pruned)
    infos = tuple(statistics.infos[place] for place in groups.first)
    unknown, none = np.full(number, np.nan), np.zeros(number, np.int64)
    rows = Rows(
        groups,
        infos,
        tuple(info.shape for info in infos),
        np.array([bool(info.aliases) for info in infos]),
        gather(np.ones(len(total), np.int64)),
        gather(total),
        codes,
        np.array([gather(counts) for counts in by_step], np.int64).reshape(-1, number),
        energy=unknown,
        kept=unknown,
        nan=none,
        infinite=none,
        channels=gather(np.array([channels_of(info) for info in statistics.infos], np.int64)),
        dead=none,
        dead_in_file=none,
        nearly_empty=gather((pruned >= NEARLY_EMPTY * total).astype(np.int64)),
    )
    return measured_anew(rows, statistics)


def measured_anew(rows: Rows, statistics: LayerStatistics) -> Rows:
    """Return rows with what is known by now of the same parameters, of which as much is pruned."""
    measures, places = statistics.measures, rows.grouping.places

    def gather(values: NDArray[Any]) -> NDArray[Any]:
        return _added(values, places, len(rows))

    unknown = np.where(measures["weighed"], 0.0, np.nan)
    return replace(
        rows,
        energy=gather(measures["energy"] + unknown),
        kept=gather(measures["kept"] + unknown),
        nan=gather(measures["nan"]),
        infinite=gather(measures["infinite"]),
        dead=gather(np.where(measures["weighed"], measures["dead"], 0)),
        dead_in_file=gather(np.where(measures["weighed"], measures["dead_in_file"], 0)),
    )


def _by_step(
    resolution: Resolution, infos: tuple[TensorInfo, ...], pruned: NDArray[np.int64]
) -> tuple[tuple[int, ...], list[NDArray[np.int64]]]:
    """Return the codes that occur, and how many entries of each parameter have each."""
    place_of = {info.name: place for place, info in enumerate(infos)}
    codes, found = [], []
    in_file = pruned.copy()
    for number, outcome in enumerate(resolution.outcomes, start=1):
        counts = np.zeros_like(pruned)
        counts[[place_of[name] for name in outcome.pruned]] = list(outcome.pruned.values())
        in_file -= counts
        if counts.any():
            codes.append(number)
            found.append(counts)
    if in_file.any():
        codes.append(IN_FILE)
        found.append(in_file)
    return tuple(codes), found


def _added(values: NDArray[Any], places: NDArray[np.intp], number: int) -> NDArray[Any]:
    added = np.zeros(number, values.dtype)
    np.add.at(added, places, values)
    added.flags.writeable = False
    return added


def _can_divide(energy: NDArray[np.float64]) -> NDArray[np.bool_]:
    usable: NDArray[np.bool_] = np.isfinite(energy) & (energy > 0)
    return usable
