"""Texts about a distribution: bins, cuts, axes, what it leaves out, and its table. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prune_gui.gui.views.distribution.data import DistributionData, steps_with_own_scores
from prune_gui.gui.views.legend_text import SEPARATOR, coloured_text
from prune_gui.language import deferred, format_number, tr, trn
from prune_gui.number_formats import sparsity
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.session.subjects import Subject
from prune_gui.table import Table

if TYPE_CHECKING:
    from prune_gui.statistics.score_histogram import Curve

CUT_REMARKS: Final = {
    "channel": deferred("The draft prunes channels, not single weights: see Norms"),
    "block": deferred("The draft prunes blocks, not single weights"),
    "row": deferred("The draft cuts each row by itself: set its amount in the form"),
    "group": deferred("The draft cuts each group by itself"),
}
"""Remarks about a draft that has no single cut, by its unit or by the scope of its ranking."""
STEP_REMARKS: Final = {
    "row": deferred("Step {number} cuts each row by itself, so it has no line: edit its amount"),
    "group": deferred("Step {number} cuts each group by itself, so it has no line"),
}
"""Remarks about an added step that has no single cut, by the scope of its ranking."""


def describe_bin(picture: DistributionData, position: int) -> str:
    """Describe a bin: "0.012 to 0.013: 1,204 entries; kept 1,000; step 1: ... 204"."""
    subject, shared = picture.subject, len(picture.names) > 1
    own_counts, others = picture.counts[:, position].tolist(), picture.others[:, position].tolist()
    parts = [
        f"{subject.title(code)} {format_number(mine + other)}"
        for code, mine, other in zip(picture.codes, own_counts, others, strict=True)
        if mine + other
    ]
    if shared:
        parts.append(tr("{count:,} of this parameter", count=sum(own_counts)))
    heading = trn(
        "{low:.4g} to {high:.4g}: {count:,} weight",
        "{low:.4g} to {high:.4g}: {count:,} weights",
        sum(own_counts) + sum(others),
        low=picture.edges[position],
        high=picture.edges[position + 1],
    )
    return tr("; ").join([heading, *parts])


def describe_cut(curve: Curve, value: float) -> str:
    """Describe a cut: "a cut at 0.012 prunes 40.1 % of 1,204 entries, keeps ..."."""
    pruned, energy = curve.at(value)
    return tr(
        "a cut at {value:.4g} prunes {pruned:.2f} % of {count:,} weights and keeps {energy:.2f} % "
        "of their energy",
        value=value,
        pruned=100 * pruned,
        count=curve.remaining,
        energy=100 * energy,
    )


def curve_legend(curve: Curve, colours: Colours) -> str:
    """Return the legend of a curve as rich text."""
    pruned = tr("amount: share pruned of the {count:,} remaining weights", count=curve.remaining)
    kept = tr("energy kept: share of the sum of their squared weights")
    parts = zip((pruned, kept), curve_shades(colours), strict=True)
    return SEPARATOR.join(f"{coloured_text('━━', shade)}&nbsp;{text}" for text, shade in parts)


def curve_shades(colours: Colours) -> tuple[str, str]:
    """Return the colours of the pruned share, which the draft sets, and of the kept energy."""
    return colours.draft, colours.curves[0]


def describe_excluded(picture: DistributionData) -> str:
    """Describe how many numbers are in no bin; return "" if all are in one."""
    nan, infinite = picture.nan, picture.infinite
    notes = []
    if nan and not picture.request.signed:
        notes = [tr("⚠ {count:,} NaN or infinite (in no bin)", count=nan)]
    elif nan and infinite:
        message = deferred("⚠ {nan:,} NaN and {infinite:,} infinite (in no bin)")
        notes = [tr(message, nan=nan, infinite=infinite)]
    elif nan:
        notes = [tr("⚠ {count:,} NaN (in no bin)", count=nan)]
    elif infinite:
        notes = [tr("⚠ {count:,} infinite (in no bin)", count=infinite)]
    if zeros := picture.left_out:
        total = int(picture.counts.sum() + picture.others.sum()) + zeros
        share = sparsity(zeros, total)
        notes.append(tr("{count:,} ({share}) at zero, not on this axis", count=zeros, share=share))
    return tr("; ").join(notes)


def remark(picture: DistributionData) -> str:
    """Return why the plot shows no cut of the draft or, without one, of a step; "" if it does."""
    subject = picture.subject
    if subject.draft is None:
        return _remark_on_steps(subject)
    if subject.draft in picture.cuts:
        return ""
    resolution = subject.resolution
    if subject.name not in resolution.outcomes[subject.draft - 1].predicates:
        return ""
    method = resolution.recipe.steps[subject.draft - 1].method
    for reason in (method.unit, method.ranking_scope):
        if reason in CUT_REMARKS:
            return tr(CUT_REMARKS[reason])
    of_weights = picture.request.of in ("weights", "absolute")
    if of_weights and subject.draft in steps_with_own_scores(subject):
        if method.score_kind == "random":
            return tr(
                "The draft ranks by random numbers: choose them above to see and drag its cut"
            )
        return tr("The draft ranks by other scores: choose them above to see and drag its cut")
    return ""


def _remark_on_steps(subject: Subject) -> str:
    steps = subject.resolution.recipe.steps
    for applied in reversed(subject.resolution.layers.get(subject.name, ())):
        if applied.step != IN_FILE:
            message = STEP_REMARKS.get(steps[applied.step - 1].method.ranking_scope)
            if message is not None:
                return tr(message, number=applied.step)
    return ""


def axis_labels(data: DistributionData, *, log_counts: bool) -> tuple[str, str]:
    """Return the labels of the horizontal and the vertical axis."""
    of, request = data.request.of, data.request
    what = tr("weight") if of == "weights" else tr("absolute weight")
    if isinstance(of, int):
        what = tr("score by {step}", step=data.subject.title(of))
    elif request.cumulative:
        what = tr("absolute weight at the cut")
    numbers = tr("{what}, logarithmic", what=what) if request.log else what
    if request.cumulative:
        return numbers, "%"
    counts = tr("weights per bin")
    if (targets := len(data.names)) > 1:
        counts = tr("weights per bin of {count:,} targets", count=targets)
    return numbers, tr("{what}, logarithmic", what=counts) if log_counts else counts


def table_of(picture: DistributionData) -> Table:
    """Return the numbers of the plot: the points of the curve, or the bins with their counts."""
    name, curve = tr("{name} distribution", name=picture.subject.name), picture.curve
    if curve is not None:
        headings = tr("cut"), tr("share pruned"), tr("energy kept")
        shares = curve.scores, curve.pruned, curve.energy
        return Table(name, dict(zip(headings, shares, strict=True)))
    columns = {tr("from"): picture.edges[:-1], tr("to"): picture.edges[1:]}
    titles = [picture.subject.title(code) for code in picture.codes]
    columns |= dict(zip(titles, picture.counts, strict=True))
    if picture.others.any():
        columns |= {
            tr("other targets: {what}", what=title): counts
            for title, counts in zip(titles, picture.others, strict=True)
        }
    return Table(name, columns)
