"""The content of the view Layers: rows of statistics, their bars, and the treemap. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.architecture.blocks import ShortName, short_names
from prune_gui.gui.views.layers.columns import columns_of, zero_columns
from prune_gui.gui.views.layers.treemap import TreemapData, make_treemap
from prune_gui.recipe.recipe import ZERO
from prune_gui.session.subjects import ModelSubject, with_zeros
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics

MAX_BARS: Final = 300
FITTING: Final[Literal["fitting"]] = "fitting"
"""Stands in for a depth: the largest depth at which every row has its own bar."""


@dataclass(frozen=True, eq=False)
class LayersData:
    """The content of the view. `names` are those of the rows; modules are up to `depths` deep."""

    subject: ModelSubject
    statistics: LayerStatistics
    rows: Rows
    columns: tuple[Column[Rows], ...]
    names: Sequence[ShortName]
    treemap: TreemapData | None
    depths: int

    @property
    def zeros(self) -> int:
        """The number of zeros in the file that the bars show; see `with_zeros`."""
        return with_zeros(self.subject.counts(), self.subject.zeros).get(ZERO, 0)

    @cached_property
    def bar_rows(self) -> Rows:
        """The rows, with the zeros in the file as the last segment."""
        from prune_gui.statistics.layer_rows import summed_by_row  # torch: slow to import

        if not self.zeros:
            return self.rows
        file_zeros, counts = self.subject.file_zeros.counts, self.subject.resolution.counts
        zeros = [file_zeros.get(name, 0) - pruned for name, (pruned, _) in counts.items()]
        values = np.maximum(np.array(zeros, np.int64), 0) * self.rows.in_total
        of_rows = summed_by_row(values, self.rows.grouping.places, len(self.rows))
        codes, segments = (*self.rows.codes, ZERO), np.vstack([self.rows.counts, of_rows])
        return replace(self.rows, codes=codes, counts=segments)


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Bars at adjacent positions. Each bar shows one row, or the sum of several.

    Attributes:
        edges: (bars + 1,), the first position of each bar, and the one after the last.
        tops: (codes + 1, bars), the share at which each segment ends, from the bottom; row 0 is 0.
        kept: float64 (bars,), share of the energy that is kept; NaN if it is not known.
    """

    edges: NDArray[np.intp]
    codes: tuple[int, ...]
    tops: NDArray[np.float64]
    total: NDArray[np.int64]
    kept: NDArray[np.float64]

    @property
    def max_rows(self) -> int:
        return int(np.diff(self.edges).max(initial=1))


def bars_of(rows: Rows, order: NDArray[np.intp], positions: range, max_bars: int) -> Bars:
    """Return the bars of a range of positions."""
    number = min(max_bars, len(positions))
    edges = np.linspace(0, len(positions), number + 1).astype(np.intp)
    visible_rows, starts = order[positions.start : positions.stop], edges[:-1]
    total = np.add.reduceat(rows.total[visible_rows], starts)
    counts = np.add.reduceat(rows.counts[:, visible_rows], starts, axis=1)
    tops = np.concatenate([np.zeros((1, number)), np.cumsum(counts, axis=0) / total])
    energy = np.add.reduceat(rows.energy[visible_rows], starts)
    kept_energy = np.add.reduceat(rows.kept[visible_rows], starts)
    kept = np.full(number, np.nan)
    np.divide(kept_energy, energy, out=kept, where=np.isfinite(energy) & (energy > 0))
    return Bars(edges + positions.start, rows.codes, tops, total, kept)


def compute_layers(
    subject: ModelSubject,
    before: LayersData | None,
    depth: int | Literal["fitting"] | None,
    size: tuple[float, float] | None,
    monitor: Monitor,
    *,
    biases: bool,
) -> LayersData:
    """Compute the content of the view, as far as the read budget allows.

    The treemap has the `size` in pixels; None is for no treemap.
    """
    # torch: slow to import
    from prune_gui.statistics import layer_rows
    from prune_gui.statistics.dispatch import read_budget
    from prune_gui.statistics.layer_statistics import compute, empty_statistics

    resolution = subject.resolution
    previous = before.statistics if before else None
    counted = previous is not None and previous.resolution is resolution
    statistics = empty_statistics(resolution, previous, reference=subject.reference)
    if statistics.is_pending:
        statistics = compute(statistics, read_budget(counted=counted), monitor)
    infos = statistics.infos
    included = np.full(len(infos), fill_value=True)
    if not biases:
        included = layer_rows.listed_parameters(infos, resolution)
    if depth == FITTING:
        depth = layer_rows.fitting([infos[place] for place in np.flatnonzero(included)], MAX_BARS)
    groups = before.rows.grouping if before else None
    if groups is not None and depth is None and not np.array_equal(groups.places >= 0, included):
        groups = None
    if groups is None or groups.depth != depth:
        groups = layer_rows.grouping(infos, depth, included)
    if before is not None and counted and before.rows.grouping is groups:
        rows = layer_rows.updated_rows(before.rows, statistics)
    else:
        rows = layer_rows.rows_of(statistics, groups)
    if before is not None and before.rows.grouping is groups:
        names = before.names
    else:
        names = short_names(groups.names)
    columns = columns_of(rows, subject.draft, zero_columns(subject.file_zeros, rows, infos))
    treemap = before.treemap if before else None
    treemap = make_treemap(infos, resolution, size, treemap) if size else None
    depths = before.depths if before else layer_rows.deepest(infos)
    return LayersData(subject, statistics, rows, columns, names, treemap, depths)
