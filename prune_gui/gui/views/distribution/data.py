"""The content of a distribution plot: numbers, parameters, bins and cuts. No Qt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.bars.data import drawable, inner_range
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import ScoreKind
    from prune_gui.statistics.element_scores import StepCut
    from prune_gui.statistics.histogram import Histogram
    from prune_gui.statistics.score_histogram import Curve, ScoreHistogramCache

Of = int | Literal["weights", "absolute"]
"""Signed weights, absolute weights, or the scores of the step with that number."""

BINS: Final = (32, 1024)
"""Minimum and maximum number of bins; in between it is the square root of the number of weights."""
MAX_REFINEMENT: Final = 16
"""Maximum factor for the number of bins where outliers widen the axis: bins of the other weights
stay narrow.
"""
CURVE_POINTS: Final = 1000
SCORE_BINS: Final = 256
"""Number of bins of scores. Bins end where groups of keys end, and stay much wider than those
groups."""


@dataclass(frozen=True, slots=True)
class DistributionRequest:
    """What the user wants to see: of which numbers, the counts or what a cut would prune."""

    of: Of
    cumulative: bool = False
    log: bool = False  # whether the axis is logarithmic; never for signed weights
    symmetric: bool = True  # whether the axis is symmetric about zero; for signed weights only
    together: bool = False  # whether to show all targets of the step that cuts them as one group

    @property
    def signed(self) -> bool:
        return self.of == "weights" and not self.cumulative


@dataclass(frozen=True, slots=True, eq=False)
class DistributionData:
    """A histogram of numbers, or the curve of what a cut through them would prune.

    Attributes:
        edges: float64 (bins + 1,); for a curve, the first and the last bound the axis.
        counts, others: int64 (codes, bins), of the parameter itself, and of the other targets.
        nan: number of NaN, which are in no bin; with unsigned numbers, of all non-finite ones.
        histograms: by parameter; the next computation starts from them.
    """

    subject: Subject
    request: DistributionRequest
    names: tuple[str, ...]
    edges: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    others: NDArray[np.int64]
    cuts: Mapping[int, StepCut]  # by step, the cut of the step in the parameter
    left_out: int = 0  # number of zeros, which a logarithmic axis cannot show
    nan: int = 0
    infinite: int = 0
    curve: Curve | None = None
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    value_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def positions(self) -> NDArray[np.float64]:
        """The ends of the bins along the axis: the edges, or their decimal logarithms."""
        return np.log10(self.edges) if self.request.log else drawable(self.edges)

    @property
    def sums(self) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = (self.counts + self.others).sum(0)
        return sums

    @property
    def extremes(self) -> tuple[float, float]:
        if not self.request.signed:
            return float(self.edges[0]), float(self.edges[-1])
        lows, highs = zip(*(self.value_ranges[name] for name in self.names), strict=True)
        return min(lows), max(highs)

    def same_axis(self, other: DistributionData | None) -> bool:
        return (
            other is not None
            and self.request.log == other.request.log
            and np.array_equal(self.edges, other.edges)
        )


def shared_step(subject: Subject, of: Of) -> int | None:
    """Return the step that cuts the parameter and others as one group: `of` itself, or the last."""
    resolution = subject.resolution
    steps = [of] if isinstance(of, int) else range(len(resolution.outcomes), 0, -1)
    for number in steps:
        pruned = resolution.outcomes[number - 1].pruned
        method = resolution.recipe.steps[number - 1].method
        if subject.name in pruned and len(pruned) > 1 and method.ranking_scope == "global":
            return number
    return None


def steps_with_own_scores(subject: Subject) -> dict[int, ScoreKind]:
    """Return the steps that rank the elements of a parameter by scores other than |weight|."""
    from prune_gui.statistics.element_scores import scored_steps  # torch: slow to import

    kinds = scored_steps(subject.resolution, subject.name)
    return {step: kind for step, kind in kinds.items() if kind != "weights"}


def compute_distribution(
    subject: Subject,
    request: DistributionRequest,
    score_histograms: ScoreHistogramCache,
    before: DistributionData | None,
    monitor: Monitor,
) -> DistributionData:
    """Compute what a request asks for; only what has changed since `before` is counted again."""
    step = shared_step(subject, request.of) if request.together else None
    names = tuple(subject.resolution.outcomes[step - 1].pruned) if step else (subject.name,)
    if request.signed:
        return _weights(subject, request, names, before, monitor)
    return _scores(subject, request, names, score_histograms, monitor)


def _weights(
    subject: Subject,
    request: DistributionRequest,
    names: tuple[str, ...],
    before: DistributionData | None,
    monitor: Monitor,
) -> DistributionData:
    import torch  # slow to import

    from prune_gui.statistics.histogram import aligned_edges, bin_edges, histogram, value_range

    resolution, tensors = subject.resolution, subject.resolution.checkpoint.tensors
    if before is not None and any(
        resolution.values_key(name) != before.subject.resolution.values_key(name) for name in names
    ):
        before = None
    known_ranges = before.value_ranges if before else {}
    new_ranges = {n: value_range(resolution, n, monitor) for n in names if n not in known_ranges}
    value_ranges = {**known_ranges, **new_ranges}
    low = min(value_ranges[name][0] for name in names)
    high = max(value_ranges[name][1] for name in names)

    earlier = before.histograms if before else {}

    def histograms_of(edges: NDArray[np.float64]) -> dict[str, Histogram]:
        return {n: histogram(resolution, n, edges, monitor, earlier.get(n)) for n in names}

    if before is not None and before.request == request and before.names == names:
        histograms = histograms_of(edges := before.edges)
    else:
        elements = sum(tensors[name].numel for name in names)
        bins = 2 * round(float(np.clip(math.sqrt(elements), *BINS)) / 2)
        dtypes = [getattr(torch, tensors[name].dtype) for name in names]

        def edges_of(bins: int, reach: float) -> NDArray[np.float64]:
            edges = bin_edges(low, high, bins, symmetric=request.symmetric)
            return aligned_edges(edges, reach, dtypes)

        edges = edges_of(bins, max(abs(low), abs(high)))
        histograms = histograms_of(edges)
        sums = sum(one.counts.sum(0) for one in histograms.values())
        drawn = drawable(edges)
        inner = inner_range(drawn, np.asarray(sums), symmetric=request.symmetric)
        # The bins of most numbers stay narrow.
        length = float(drawn[-1]) - float(drawn[0])
        refinement = min(MAX_REFINEMENT, int(length / (inner[1] - inner[0])))
        refined = edges_of(bins * max(1, refinement), max(map(abs, inner)))
        if not np.array_equal(refined, edges):
            edges, histograms = refined, histograms_of(refined)
    tables = {name: (one.codes, one.counts) for name, one in histograms.items()}
    return DistributionData(
        subject,
        request,
        names,
        edges,
        *_stacked(tables, subject.name),
        histograms[subject.name].cuts,
        nan=sum(one.nan for one in histograms.values()),
        infinite=sum(one.infinite for one in histograms.values()),
        histograms=histograms,
        value_ranges=value_ranges,
    )


def _scores(
    subject: Subject,
    request: DistributionRequest,
    names: tuple[str, ...],
    score_histograms: ScoreHistogramCache,
    monitor: Monitor,
) -> DistributionData:
    from prune_gui.statistics.element_scores import score_cut, scores_of, weight_cuts, weights_of
    from prune_gui.statistics.score_histogram import (  # torch: slow to import
        binned,
        common_edges,
        cumulative,
        thinned,
    )

    resolution, of = subject.resolution, request.of
    found = {
        name: scores_of(resolution, name, of)
        if isinstance(of, int)
        else weights_of(resolution, name)
        for name in names
    }
    scored = {name: one for name, one in found.items() if one is not None}
    histograms = {name: score_histograms.found(name, one, monitor) for name, one in scored.items()}
    own = histograms[subject.name]
    bins = CURVE_POINTS if request.cumulative else SCORE_BINS
    edges = common_edges(list(histograms.values()), bins, log=request.log)
    if isinstance(of, int):
        cut = score_cut(resolution, subject.name, of, own.score_at)
        step_cuts = {} if cut is None else {of: cut}
    else:
        step_cuts = weight_cuts(resolution, subject.name)
    remaining = {name: score_histograms.left(name, one, monitor) for name, one in scored.items()}
    tables = {name: (one.codes, binned(one, edges)) for name, one in remaining.items()}
    codes, own_counts, others = _stacked(tables, subject.name)
    total = sum(int(one.counts.sum()) for one in remaining.values())
    return DistributionData(
        subject,
        request,
        names,
        edges,
        codes,
        own_counts,
        others,
        step_cuts,
        left_out=total - int(own_counts.sum() + others.sum()),
        nan=sum(int(one.non_finite.sum()) for one in remaining.values()),
        curve=thinned(cumulative(list(histograms.values())), edges) if request.cumulative else None,
    )


def _stacked(
    tables: Mapping[str, tuple[tuple[int, ...], NDArray[np.int64]]], own: str
) -> tuple[tuple[int, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Return all codes, and the counts (codes, bins) of one parameter and of all others."""
    codes = tuple(sorted({code for found, _ in tables.values() for code in found}))
    sums = np.zeros((2, len(codes), tables[own][1].shape[1]), np.int64)
    for name, (found, counts) in tables.items():
        sums[int(name != own), [codes.index(code) for code in found]] += counts
    return codes, sums[0], sums[1]
