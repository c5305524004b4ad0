"""Texts about a distribution: a bin, a cut, and the numbers in no bin. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.gui.views.distribution.data import DistributionData
from prune_gui.gui.views.legend_text import SEPARATOR
from prune_gui.language import format_number, tr, trn
from prune_gui.number_formats import sparsity
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.statistics.cumulative import Curve


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
    parts = ((colours.draft, pruned), (colours.steps[1], kept))
    return SEPARATOR.join(
        f'<span style="color: {colour}">■</span>&nbsp;{text}' for colour, text in parts
    )


def describe_excluded(picture: DistributionData) -> str:
    """Describe how many numbers are in no bin; return "" if all are in one."""
    notes = [non_finite] if (non_finite := _in_no_bin(picture)) else []
    if zeros := picture.left_out:
        total = int(picture.counts.sum() + picture.others.sum()) + zeros
        share = sparsity(zeros, total)
        notes.append(tr("{count:,} ({share}) at zero, not on this axis", count=zeros, share=share))
    return tr("; ").join(notes)


def _in_no_bin(picture: DistributionData) -> str:
    """Describe how many numbers are non-finite; return "" if none is."""
    nan, infinite = picture.nan, picture.infinite
    if nan and not picture.request.signed:
        return tr("⚠ {count:,} NaN or infinite (in no bin)", count=nan)
    if nan and infinite:
        return tr("⚠ {nan:,} NaN and {infinite:,} infinite (in no bin)", nan=nan, infinite=infinite)
    if nan:
        return tr("⚠ {count:,} NaN (in no bin)", count=nan)
    return tr("⚠ {count:,} infinite (in no bin)", count=infinite) if infinite else ""
