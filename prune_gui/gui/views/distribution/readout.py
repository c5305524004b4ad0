"""What a distribution says in words: a bin, a cut, what is in no bin. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.gui.formatting import sparsity
from prune_gui.gui.views.distribution.distribution_data import DistributionData
from prune_gui.gui.views.legend import SPACE
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import number, tr, trn

if TYPE_CHECKING:
    from prune_gui.audit.statistics.cumulative import Curve


def describe_bin(picture: DistributionData, place: int) -> str:
    """Say what a bin holds: "0.012 to 0.013: 1,204 entries; kept 1,000; step 1: ... 204"."""
    subject, shared = picture.subject, len(picture.names) > 1
    own, others = picture.counts[:, place].tolist(), picture.others[:, place].tolist()
    parts = [
        f"{subject.title(code)} {number(mine + other)}"
        for code, mine, other in zip(picture.codes, own, others, strict=True)
        if mine + other
    ]
    if shared:
        parts.append(tr("{count:,} of this parameter", count=sum(own)))
    whole = trn(
        "{low:.4g} to {high:.4g}: {count:,} entry",
        "{low:.4g} to {high:.4g}: {count:,} entries",
        sum(own) + sum(others),
        low=picture.edges[place],
        high=picture.edges[place + 1],
    )
    return tr("; ").join([whole, *parts])


def describe_cut(curve: Curve, value: float) -> str:
    """Say what a cut would do: "a cut at 0.012 prunes 40.1 % of 1,204 entries, keeps ..."."""
    pruned, energy = curve.at(value)
    return tr(
        "a cut at {value:.4g} prunes {pruned:.2f} % of {count:,} entries and "
        "keeps {energy:.2f} % of their energy",
        value=value,
        pruned=100 * pruned,
        count=curve.remaining,
        energy=100 * energy,
    )


def curve_legend(curve: Curve, colours: Colours) -> str:
    """Return the legend of a curve as rich text."""
    pruned = tr("amount: share pruned, of the {count:,} entries still there", count=curve.remaining)
    kept = tr("energy kept: share of the sum of their squared weights")
    parts = ((colours.draft, pruned), (colours.steps[1], kept))
    return SPACE.join(
        f'<span style="color: {colour}">■</span>&nbsp;{text}' for colour, text in parts
    )


def odd_numbers(picture: DistributionData) -> str:
    """Say how many numbers lie in no bin; "" if all do."""
    odd = [said] if (said := _in_no_bin(picture)) else []
    if zeros := picture.left_out:
        every = int(picture.counts.sum() + picture.others.sum()) + zeros
        share = sparsity(zeros, every)
        odd.append(tr("{count:,} ({share}) at zero, not on this axis", count=zeros, share=share))
    return tr("; ").join(odd)


def _in_no_bin(picture: DistributionData) -> str:
    """Say how many numbers are not finite; "" if none is."""
    nan, infinite = picture.nan, picture.infinite
    if nan and not picture.wish.signed:
        return tr("⚠ {count:,} NaN or infinite (in no bin)", count=nan)
    if nan and infinite:
        return tr("⚠ {nan:,} NaN and {infinite:,} infinite (in no bin)", nan=nan, infinite=infinite)
    if nan:
        return tr("⚠ {count:,} NaN (in no bin)", count=nan)
    return tr("⚠ {count:,} infinite (in no bin)", count=infinite) if infinite else ""
