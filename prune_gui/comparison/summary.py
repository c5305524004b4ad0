"""What two states prune of a parameter and of all parameters, and the energy that they keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from prune_gui.checkpoint import TensorInfo
from prune_gui.comparison.mask_overlap import Overlap, comparable, overlaps
from prune_gui.monitor import Monitor
from prune_gui.recipe import Resolution
from prune_gui.statistics.layer_statistics import LayerStatistics, compute, empty_statistics


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is pruned of a parameter, or of all parameters.

    Attributes:
        kept_energy: share of the energy of the open checkpoint's weights that is kept, in [0, 1];
            None while it is not computed, NaN if there is no energy or it is infinite.
    """

    pruned: int
    total: int
    kept_energy: float | None

    @property
    def sparsity(self) -> float:
        """The pruned share, in [0, 1]."""
        return self.pruned / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SideSummary:
    """One of the states; the statistics are those of all its parameters, as far as computed.

    Attributes:
        worst: the parameter that keeps the smallest share of its energy, and that share; None while
            the statistics are not complete, or if nothing with energy is pruned.
    """

    statistics: LayerStatistics
    parameter: Extent | None
    everything: Extent
    worst: tuple[str, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Two states, and a chosen parameter; its overlap is None if it cannot be compared."""

    name: str
    left: SideSummary
    right: SideSummary
    overlap: Overlap | None

    @property
    def is_complete(self) -> bool:
        """Whether all energies are computed."""
        return self.left.statistics.is_complete and self.right.statistics.is_complete

    @property
    def is_pending(self) -> bool:
        """Whether energies are left to compute; see `LayerStatistics.is_pending`."""
        return self.left.statistics.is_pending or self.right.statistics.is_pending


def summarize(
    name: str,
    left: Resolution,
    right: Resolution,
    reference: Resolution,
    before: Summary | None,
    wanted: Callable[[TensorInfo], bool],
    monitor: Monitor,
) -> Summary:
    """Return the summary of two states, with energies for as many parameters as `wanted` allows.

    The energies of both states are those of the same weights, of `reference`. The pruned weights of
    another checkpoint are zeros, whose own energy would say nothing about what was lost.

    Args:
        reference: a resolution of the open checkpoint. Only those of its parameters are summarized
            that can be compared on both sides.
        before: an earlier summary, whose statistics are reused as far as they apply.
    """
    names = [
        one
        for one in reference.counts
        if comparable(left, reference, one) and comparable(right, reference, one)
    ]
    left, right = (_measured_on(reference, side, names) for side in (left, right))
    earlier = [] if before is None else [before.left.statistics, before.right.statistics]
    left_statistics = compute(_start(left, earlier), wanted, monitor)
    right_statistics = compute(_start(right, [*earlier, left_statistics]), wanted, monitor)
    overlap = None
    if name in left.counts:
        [overlap] = overlaps(left, right, [name], monitor)
    return Summary(name, _side(name, left_statistics), _side(name, right_statistics), overlap)


def _measured_on(reference: Resolution, resolution: Resolution, names: list[str]) -> Resolution:
    """Return a resolution of some parameters, with its masks for the weights of the open file."""
    if resolution.checkpoint is reference.checkpoint and len(names) == len(resolution.counts):
        return resolution
    return replace(
        resolution,
        checkpoint=reference.checkpoint,
        layers={name: resolution.layers[name] for name in names if name in resolution.layers},
        counts={name: resolution.counts[name] for name in names},
    )


def _start(resolution: Resolution, earlier: list[LayerStatistics]) -> LayerStatistics:
    """Return statistics that reuse those earlier ones of the same file that are furthest."""
    candidates = [
        before if before.resolution is resolution else empty_statistics(resolution, before)
        for before in earlier
        if before.checkpoint is resolution.checkpoint
        and before.resolution.counts.keys() == resolution.counts.keys()
    ]
    if not candidates:
        return empty_statistics(resolution)
    return max(candidates, key=lambda statistics: int(statistics.measures["weighed"].sum()))


def _side(name: str, statistics: LayerStatistics) -> SideSummary:
    counts, measures = statistics.resolution.counts, statistics.measures
    parameter = None
    if name in counts:
        row = measures[[info.name for info in statistics.infos].index(name)]
        share = _share(row["kept"], row["energy"]) if row["weighed"] else None
        parameter = Extent(*counts[name], share)
    complete = statistics.is_complete
    share = _share(measures["kept"].sum(), measures["energy"].sum()) if complete else None
    everything = Extent(*statistics.resolution.total, share)
    return SideSummary(statistics, parameter, everything, _worst(statistics) if complete else None)


def _share(kept: float, energy: float) -> float:
    return float(kept / energy) if np.isfinite(energy) and energy > 0 else float("nan")


def _worst(statistics: LayerStatistics) -> tuple[str, float] | None:
    energy, kept = statistics.measures["energy"], statistics.measures["kept"]
    usable = np.isfinite(energy) & (energy > 0)
    share = np.divide(kept, energy, out=np.ones(len(energy)), where=usable)
    if not len(share) or share.min() == 1:
        return None
    place = int(share.argmin())
    return statistics.infos[place].name, float(share[place])
