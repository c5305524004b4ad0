"""What a distribution says in words: a bin, a cut, what is in no bin. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.gui.panels.wording import sparsity
from prune_gui.gui.theme import Colours
from prune_gui.gui.views.pictured import Picture

if TYPE_CHECKING:
    from prune_gui.audit.cumulative import Curve


def describe_bin(picture: Picture, place: int) -> str:
    """Say what a bin holds: "0.012 to 0.013: 1,204 entries; kept 1,000; step 1: ... 204"."""
    subject, shared = picture.subject, len(picture.names) > 1
    own, others = picture.counts[:, place].tolist(), picture.others[:, place].tolist()
    parts = [
        f"{subject.title(code)} {mine + other:,}"
        for code, mine, other in zip(picture.codes, own, others, strict=True)
        if mine + other
    ]
    if shared:
        parts.append(f"{sum(own):,} of this parameter")
    low, high = picture.edges[place], picture.edges[place + 1]
    return "; ".join([f"{low:.4g} to {high:.4g}: {sum(own) + sum(others):,} entries", *parts])


def describe_cut(curve: Curve, value: float) -> str:
    """Say what a cut would do: "a cut at 0.012 prunes 40.1 % of 1,204 entries, keeps ..."."""
    pruned, energy = curve.at(value)
    return (
        f"a cut at {value:.4g} prunes {100 * pruned:.2f} % of {curve.remaining:,} entries and "
        f"keeps {100 * energy:.2f} % of their energy"
    )


def curve_legend(curve: Curve, colours: Colours) -> str:
    """Return the legend of a curve as rich text."""
    parts = (
        (colours.draft, f"amount: share pruned, of the {curve.remaining:,} entries still there"),
        (colours.steps[1], "energy kept: share of the sum of their squared weights"),
    )
    return " &nbsp; &nbsp; ".join(
        f'<span style="color: {colour}">■</span>&nbsp;{text}' for colour, text in parts
    )


def odd_numbers(picture: Picture) -> str:
    """Say how many numbers lie in no bin; "" if all do."""
    parts = [(picture.nan, "NaN"), (picture.infinite, "infinite")]
    if not picture.wish.signed:
        parts = [(picture.nan, "NaN or infinite")]
    said = " and ".join(f"{count:,} {what}" for count, what in parts if count)
    odd = [f"⚠ {said} (in no bin)"] if said else []
    if picture.left_out:
        every = int(picture.counts.sum() + picture.others.sum()) + picture.left_out
        share = sparsity(picture.left_out, every)
        odd.append(f"{picture.left_out:,} ({share}) at zero, not on this axis")
    return "; ".join(odd)
