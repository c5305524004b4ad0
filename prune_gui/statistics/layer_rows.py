"""The rows of a table of all parameters, or of the modules that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import ModuleNode, TensorInfo, module_tree
from prune_gui.language import deferred, join_items, tr, trn
from prune_gui.memory import gc_paused
from prune_gui.recipe import Resolution
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.recipe.resolution import NEARLY_EMPTY
from prune_gui.statistics.layer_statistics import LayerStatistics, channels_of
from prune_gui.statistics.losses import energy_share

MAX_IN_ORDER: Final = 5_000


@dataclass(frozen=True, eq=False, slots=True)
class Grouping:
    """The row of each parameter, -1 for none, and the first parameter of each row.

    `depth` is that of the modules that are rows; None if every parameter is a row.
    """

    depth: int | None
    names: tuple[str, ...]
    places: NDArray[np.intp]
    first: NDArray[np.intp]


@gc_paused()
def grouping(
    infos: tuple[TensorInfo, ...], depth: int | None, included: NDArray[np.bool_] | None = None
) -> Grouping:
    """Return the grouping by parameter, or by the modules at a depth, in the order of the tree.

    More than `MAX_IN_ORDER` parameters are in file order, because ordering them takes long.
    Parameters above that depth are rows themselves. `included` says which parameters have a row of
    their own; modules include all of theirs.
    """
    index_of = {info.name: index for index, info in enumerate(infos)}
    names: list[str] = []
    firsts: list[int] = []
    places = np.full(len(infos), -1, np.intp)
    if depth is None and len(infos) > MAX_IN_ORDER:
        groups: Iterable[tuple[str, tuple[TensorInfo, ...]]] = ((one.name, (one,)) for one in infos)
    else:
        groups = _groups(module_tree(infos), depth)
    for name, tensors in groups:
        members = [index_of[tensor.name] for tensor in tensors]
        if depth is None and included is not None and not included[members[0]]:
            continue
        places[members] = len(names)
        names.append(name)
        firsts.append(min(members))
    return Grouping(depth, tuple(names), places, np.array(firsts, np.intp))


def _groups(root: ModuleNode, depth: int | None) -> Iterable[tuple[str, tuple[TensorInfo, ...]]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.depth == depth:
            yield node.path, node.tensors
            continue
        if node.tensor is not None:
            yield node.path, (node.tensor,)
        waiting.extend(reversed(node.children))


def listed_parameters(infos: Sequence[TensorInfo], resolution: Resolution) -> NDArray[np.bool_]:
    """Return for each parameter whether to list it even if biases and norms are not listed.

    These have fewer than two dimensions, or are no weights (see `TensorInfo.kind`). They are listed
    if a weight of them is pruned, or if there are no other parameters.
    """
    is_matrix = np.array([len(info.shape) > 1 and not info.kind for info in infos], np.bool_)
    if not is_matrix.any():
        return ~is_matrix
    return is_matrix | np.array([resolution.counts[info.name][0] > 0 for info in infos], np.bool_)


def deepest(infos: Iterable[TensorInfo]) -> int:
    """Return the maximum depth of the modules."""
    return max((info.name.count(".") for info in infos), default=0)


def fitting(infos: Sequence[TensorInfo], most: int) -> int | None:
    """Return the depth with the most rows, but at most `most` and more than one; else None."""
    if len(infos) <= most:
        return None
    paths = [info.name.split(".") for info in infos]
    for depth in range(deepest(infos), 0, -1):
        if 1 < len({".".join(path[:depth]) for path in paths}) <= most:
            return depth
    return None


@dataclass(frozen=True, eq=False)
class Rows:
    """Statistics of parameters or modules. The arrays have one element per row.

    Attributes:
        infos: the first parameter of each row; the only one if `size` is 1.
        size, total: numbers of parameters and of elements.
        in_total: bool, of each parameter: whether its row counts its elements. Modules count those
            that `Resolution.counted` has, if there are any.
        codes: of each row of `counts`, int64 (codes, rows): steps that pruned something, then 255.
        energy, kept: sums of the squares of all finite weights of the reference, and of the kept
            ones; NaN while not computed, 0 without a reference or weights, infinite if they
            overflow float64, or if what is kept of the reference cannot be found.
        nan, infinite: numbers of such weights; 0 while not computed.
        channels: number of channels along dim 0 of the parameters with at least two dims.
        dead: number of channels that keep only zeros; 0 while not computed.
        dead_in_file: the same of zeros in the file.
        nearly_empty: number of parameters of which at least `NEARLY_EMPTY` is pruned.
    """

    grouping: Grouping
    infos: tuple[TensorInfo, ...]
    shapes: tuple[tuple[int, ...], ...]
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
    in_total: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.total)

    @property
    def names(self) -> tuple[str, ...]:
        """The dotted path of each row."""
        return self.grouping.names

    @cached_property
    def pruned(self) -> NDArray[np.int64]:
        pruned: NDArray[np.int64] = self.counts.sum(0)
        return pruned

    @property
    def share(self) -> NDArray[np.float64]:
        return self.pruned / self.total

    @cached_property
    def kept_share(self) -> NDArray[np.float64]:
        """The kept share of the energy; NaN if the energy is not computed, zero or infinite."""
        return energy_share(self.kept, self.energy)

    def warnings(self, row: int, *, was_pruned: bool = True) -> list[str]:
        """Return the problems of a row, for the user; one is that pruning left it nearly empty."""
        texts = self.faults(row, was_pruned=was_pruned)
        if self.dead[row]:
            texts.append(self.dead_channels([row]))
        if self.size[row] == 1 and self.infos[row].aliases:
            texts.append(tr("tied with {names}", names=join_items(self.infos[row].aliases)))
        return texts

    def dead_channels(self, rows: Sequence[int]) -> str:
        """Describe the dead channels of each row if their numbers are equal, else of all."""
        numbers = np.stack([self.dead, self.dead_in_file, self.channels])[:, rows]
        if (numbers == numbers[:, :1]).all():
            return _dead(*numbers[:, 0].tolist())
        return tr("{text} in all of them", text=_dead(*numbers.sum(1).tolist()))

    def faults(self, row: int, *, was_pruned: bool = True) -> list[str]:
        """Return the problems of the weights of a row, as in `warnings`."""
        texts, total = [], int(self.total[row])
        if was_pruned and (empty := int(self.nearly_empty[row])):
            text = tr("no weights remain")
            if self.size[row] > 1:
                text = trn(
                    "{count:,} parameter nearly empty", "{count:,} parameters nearly empty", empty
                )
            elif kept := total - int(self.pruned[row]):
                text = tr("only {left:,} of {total:,} remain", left=kept, total=total)
            texts.append(text)
        if nan := int(self.nan[row]):
            texts.append(tr("{count:,} NaN", count=nan))
        if infinite := int(self.infinite[row]):
            texts.append(tr("{count:,} infinite", count=infinite))
        return texts


def rows_of(statistics: LayerStatistics, groups: Grouping) -> Rows:
    """Return statistics as rows."""
    resolution = statistics.resolution
    number = len(groups.names)

    def gather(values: NDArray[Any]) -> NDArray[Any]:
        return summed_by_row(values, groups.places, number)

    pruned, total = np.array(list(resolution.counts.values()), np.int64).reshape(-1, 2).T
    is_counted = np.array([info.name in resolution.counted for info in statistics.infos], np.bool_)
    in_total = is_counted | (gather(is_counted.astype(np.int64))[groups.places] == 0)
    by_step = _by_step(resolution, statistics.infos, pruned)
    infos = tuple(statistics.infos[place] for place in groups.first)
    channels = [channels_of(statistics.checkpoint, info) for info in statistics.infos]
    return Rows(
        groups,
        infos,
        tuple(info.shape for info in infos),
        gather(np.ones(len(total), np.int64)),
        gather(total * in_total),
        tuple(by_step),
        np.array([gather(counts * in_total) for counts in by_step.values()], np.int64).reshape(
            len(by_step), number
        ),
        channels=gather(np.array(channels, np.int64)),
        nearly_empty=gather((pruned >= NEARLY_EMPTY * total).astype(np.int64)),
        in_total=in_total,
        **_measured(statistics, groups),
    )


def updated_rows(rows: Rows, statistics: LayerStatistics) -> Rows:
    """Return rows updated with newly computed statistics of the same resolution."""
    return replace(rows, **_measured(statistics, rows.grouping))


def _measured(statistics: LayerStatistics, groups: Grouping) -> dict[str, Any]:
    measures, number = statistics.measures, len(groups.names)
    is_known = measures["weighed"]
    of_each = {name: np.where(is_known, measures[name], np.nan) for name in ("energy", "kept")}
    of_each |= {name: np.where(is_known, measures[name], 0) for name in ("dead", "dead_in_file")}
    of_each |= {name: measures[name] for name in ("nan", "infinite")}
    return {name: summed_by_row(one, groups.places, number) for name, one in of_each.items()}


def _by_step(
    resolution: Resolution, infos: tuple[TensorInfo, ...], pruned: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    by_code, in_file = {}, pruned.copy()
    for number, outcome in enumerate(resolution.outcomes, start=1):
        by_code[number] = np.array([outcome.pruned.get(info.name, 0) for info in infos], np.int64)
        in_file -= by_code[number]
    by_code[IN_FILE] = in_file
    return {code: counts for code, counts in by_code.items() if counts.any()}


def summed_by_row(values: NDArray[Any], places: NDArray[np.intp], number: int) -> NDArray[Any]:
    """Return the sums of values of parameters by row; those at -1 are in none."""
    sums = np.zeros(number, values.dtype)
    has_row = places >= 0
    np.add.at(sums, places[has_row], values[has_row])
    sums.flags.writeable = False
    return sums


def _dead(dead: int, before: int, channels: int) -> str:
    """Describe how many channels are dead, and how many of them are dead in the file."""
    if not before:
        message = deferred("{dead:,} of {channels:,} output channels dead")
    elif before == dead:
        message = deferred("{dead:,} of {channels:,} output channels dead (all in the file)")
    else:
        message = deferred("{dead:,} of {channels:,} output channels dead ({before:,} in the file)")
    return tr(message, dead=dead, channels=channels, before=before)
