"""What a distribution shows: which numbers, of which parameters, and how they fall. No Qt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.panels.draft.amount_from_cut import as_one
from prune_gui.gui.views.subject import Subject
from prune_gui.language import later, tr
from prune_gui.pruning.methods.base import ScoredMethod
from prune_gui.pruning.methods.n_m import NM

if TYPE_CHECKING:
    from prune_gui.audit.statistics.cumulative import Curve
    from prune_gui.audit.statistics.histogram import Histogram
    from prune_gui.audit.statistics.score_histogram import ScoreHistogram
    from prune_gui.audit.statistics.scores import Kind, Scored
    from prune_gui.audit.table import Table
    from prune_gui.monitor import Monitor
    from prune_gui.session.score_histogram_cache import ScoreHistogramCache

Of = int | Literal["weights", "absolute"]
"""Weights with their signs, absolute weights, or the scores of the step of that number."""

BINS: Final = (32, 1024)
"""The fewest and the most; in between there are as many as the root of the number of weights."""
MORE: Final = 4
"""So many times as many may there be for several targets: outliers of one stretch the axis of all.
"""
FINE: Final = 1000
"""Points of a curve."""
SCORES: Final = 256
"""Bins of scores; they end where groups do, and stay much wider than those."""


@dataclass(frozen=True, slots=True)
class DistributionRequest:
    """What the user wants to see.

    Attributes:
        of: which numbers.
        cumulative: what a cut would prune, and not how the numbers fall.
        log: whether the numbers lie on a logarithmic axis; not for weights with their signs.
        symmetric: whether the axis reaches as far below zero as above; only for those.
        together: all targets of the step that cuts them as one.
    """

    of: Of
    cumulative: bool = False
    log: bool = False
    symmetric: bool = True
    together: bool = False

    @property
    def signed(self) -> bool:
        """Whether numbers have their signs."""
        return self.of == "weights" and not self.cumulative


@dataclass(frozen=True, slots=True, eq=False)
class DistributionData:
    """How numbers fall into bins, or what a cut through them would do.

    Attributes:
        subject: the parameter, and what is pruned of it.
        wish: what it is a picture of.
        names: the parameters that it is about.
        edges: of the bins; of a curve, the ends of its axis.
        codes: what each row of the counts is about.
        counts: int64 (codes, bins), of the parameter itself.
        others: likewise, of the other targets.
        cuts: up to which number each step prunes the parameter.
        left_out: how many are zero, and so not on a logarithmic axis.
        nan: how many are in no bin.
        infinite: likewise.
        curve: what a cut would do.
        histograms: by parameter, to begin from next time.
        reaches: by parameter, the least and the greatest weight.
    """

    subject: Subject
    wish: DistributionRequest
    names: tuple[str, ...]
    edges: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    others: NDArray[np.int64]
    cuts: Mapping[int, float]
    left_out: int = 0
    nan: int = 0
    infinite: int = 0
    curve: Curve | None = None
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    reaches: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def same_axis(self, other: DistributionData | None) -> bool:
        """Tell whether both have one axis, so that a zoom into one fits the other."""
        return (
            other is not None
            and self.wish.log == other.wish.log
            and np.array_equal(self.edges, other.edges)
        )


def shared_step(subject: Subject, of: Of) -> int | None:
    """Return the step that cuts the parameter as one with others: that of the scores, or the last.

    None if there is none, or if it has no other target.
    """
    resolution = subject.resolution
    steps = [of] if isinstance(of, int) else range(len(resolution.outcomes), 0, -1)
    for number in steps:
        pruned = resolution.outcomes[number - 1].pruned
        method = resolution.recipe.steps[number - 1].method
        if subject.name in pruned and len(pruned) > 1 and as_one(method):
            return number
    return None


def offers(subject: Subject) -> dict[int, Kind]:
    """Return the steps that rank the entries of a parameter by other than absolute weights."""
    from prune_gui.audit.statistics.scores import scored_steps

    found = scored_steps(subject.resolution, subject.name)
    return {step: kind for step, kind in found.items() if kind != "weights"}


def pictured(
    subject: Subject,
    wish: DistributionRequest,
    score_histograms: ScoreHistogramCache,
    before: DistributionData | None,
    monitor: Monitor,
) -> DistributionData:
    """Return the picture that is wished for.

    Args:
        subject: the parameter, and what is pruned of it.
        wish: what is to be seen.
        score_histograms: counts again only what has changed.
        before: of the same open file, or None.
        monitor: told of the work.

    Raises:
        Cancelled: the monitor said so.
    """
    step = shared_step(subject, wish.of) if wish.together else None
    names = tuple(subject.resolution.outcomes[step - 1].pruned) if step else (subject.name,)
    if wish.signed:
        return _weights(subject, wish, names, before, monitor)
    return _scores(subject, wish, names, score_histograms, monitor)


def _weights(
    subject: Subject,
    wish: DistributionRequest,
    names: tuple[str, ...],
    before: DistributionData | None,
    monitor: Monitor,
) -> DistributionData:
    from prune_gui.audit.statistics.histogram import bin_edges, histogram, value_range

    resolution, tensors = subject.resolution, subject.resolution.checkpoint.tensors
    known = before.reaches if before else {}
    new = {n: value_range(resolution.checkpoint, n, monitor) for n in names if n not in known}
    reaches = {**known, **new}
    low = min(reaches[name][0] for name in names)
    high = max(reaches[name][1] for name in names)
    entries = sum(tensors[name].numel for name in names)
    fewest, most = BINS[0], BINS[1] * (MORE if len(names) > 1 else 1)
    bins = 2 * round(float(np.clip(math.sqrt(entries), fewest, most)) / 2)
    edges = bin_edges(low, high, bins, symmetric=wish.symmetric)
    earlier = before.histograms if before else {}
    found = {name: histogram(resolution, name, edges, monitor, earlier.get(name)) for name in names}
    own = found[subject.name]
    counts = {name: dict(zip(one.codes, one.counts, strict=True)) for name, one in found.items()}
    codes, own_counts, others = _stacked(counts, subject.name, len(edges) - 1)
    return DistributionData(
        subject,
        wish,
        names,
        edges,
        codes,
        own_counts,
        others,
        own.cuts,
        nan=sum(one.nan for one in found.values()),
        infinite=sum(one.infinite for one in found.values()),
        histograms=found,
        reaches=reaches,
    )


def _scores(
    subject: Subject,
    wish: DistributionRequest,
    names: tuple[str, ...],
    score_histograms: ScoreHistogramCache,
    monitor: Monitor,
) -> DistributionData:
    from prune_gui.audit.statistics.cumulative import cumulative, thinned
    from prune_gui.audit.statistics.histogram import cuts
    from prune_gui.audit.statistics.score_histogram import binned, common_edges
    from prune_gui.audit.statistics.scores import scores_of, weights_of

    resolution, of = subject.resolution, wish.of
    scored: dict[str, Scored] = {}
    for name in names:
        one = (
            scores_of(resolution, name, of) if isinstance(of, int) else weights_of(resolution, name)
        )
        if one is not None:
            scored[name] = one
    found = {name: score_histograms.found(name, one, monitor) for name, one in scored.items()}
    own = found[subject.name]
    bins = FINE if wish.cumulative else SCORES
    edges = common_edges(list(found.values()), bins, log=wish.log)
    if isinstance(of, int):
        cut = _cut(scored[subject.name], own)
        lines = {} if cut is None else {of: cut}
    else:
        lines = cuts(resolution, subject.name)
    left = {name: score_histograms.left(name, one, monitor) for name, one in scored.items()}
    counts = {
        name: dict(zip(one.codes, binned(one, edges), strict=True)) for name, one in left.items()
    }
    codes, own_counts, others = _stacked(counts, subject.name, len(edges) - 1)
    every = sum(int(one.counts.sum()) for one in left.values())
    return DistributionData(
        subject,
        wish,
        names,
        edges,
        codes,
        own_counts,
        others,
        lines,
        left_out=every - int(own_counts.sum() + others.sum()),
        nan=sum(int(one.odd.sum()) for one in left.values()),
        curve=thinned(cumulative(list(found.values())), edges) if wish.cumulative else None,
    )


def table_of(picture: DistributionData) -> Table:
    """Return the numbers behind a picture: the points of a curve, or the bins and their counts."""
    from prune_gui.audit.table import Table

    name, curve = tr("{name} distribution", name=picture.subject.name), picture.curve
    if curve is not None:
        return Table(
            name,
            {
                tr("cut"): curve.scores,
                tr("share pruned"): curve.pruned,
                tr("energy kept"): curve.energy,
            },
        )
    columns = {tr("from"): picture.edges[:-1], tr("to"): picture.edges[1:]}
    titles = [picture.subject.title(code) for code in picture.codes]
    columns |= dict(zip(titles, picture.counts, strict=True))
    if picture.others.any():
        columns |= {
            tr("other targets: {what}", what=title): counts
            for title, counts in zip(titles, picture.others, strict=True)
        }
    return Table(name, columns)


def _cut(scored: Scored, found: ScoreHistogram) -> float | None:
    """Return up to which score a step prunes."""
    if scored.cut is None:
        return None
    value = scored.keys.value(scored.cut)
    if scored.kind == "lamp":
        return found.score_at(value)
    return value if math.isfinite(value) else None


def _stacked(
    counts: Mapping[str, Mapping[int, NDArray[np.int64]]], own: str, bins: int
) -> tuple[tuple[int, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Return all codes, and the counts of one parameter and of all others by them."""
    codes = tuple(sorted({code for rows in counts.values() for code in rows}))
    nothing = np.zeros(bins, np.int64)

    def total(names: Sequence[str]) -> NDArray[np.int64]:
        rows = [[counts[name].get(code, nothing) for code in codes] for name in names]
        summed: NDArray[np.int64] = np.array(rows, np.int64).reshape(-1, len(codes), bins).sum(0)
        return summed

    return codes, total([own]), total([name for name in counts if name != own])


WHOLE: Final = {
    "channel": later("The draft cuts no single entries but channels: see Norms"),
    "block": later("The draft cuts no single entries but blocks"),
}
"""What is said of a draft that cuts units of several entries."""


def remark(picture: DistributionData) -> str:
    """Say why the draft has no cut in a picture; "" if it has one, or if there is no draft."""
    subject = picture.subject
    if subject.draft is None or subject.draft in picture.cuts:
        return ""
    resolution = subject.resolution
    if subject.name not in resolution.outcomes[subject.draft - 1].predicates:
        return ""
    method = resolution.recipe.steps[subject.draft - 1].method
    if method.unit != "entry":
        return tr(WHOLE[method.unit])
    if getattr(method, "scope", "") == "row":
        return tr("The draft cuts each row by itself: set its amount in the form")
    if isinstance(method, NM):
        return tr("The draft cuts each group by itself")
    if picture.wish.of in ("weights", "absolute") and subject.draft in offers(subject):
        if isinstance(method, ScoredMethod):
            return tr("The draft ranks by other scores: choose them above to see and drag its cut")
        return tr("The draft ranks by random draws: choose them above to see and drag its cut")
    return ""
