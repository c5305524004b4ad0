"""A comparison as texts: what every parameter loses, and the legend of its pictures. No Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from functools import partial
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.gui.views.compare.data import Shades
from prune_gui.gui.views.legend_text import (
    SCALE_STEPS,
    SEPARATOR,
    counted,
    marked,
    scale,
    swatch,
    unbroken,
)
from prune_gui.language import deferred, format_number, join_clauses, tr, trn
from prune_gui.number_formats import sparsity, sparsity_share
from prune_gui.raster.colours import Colours
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Overlap
    from prune_gui.comparison.state_losses import StateLosses

UNKNOWN: Final = "…"
UNDEFINED: Final = "–"  # noqa: RUF001
BREAK: Final = "\N{ZERO WIDTH SPACE}"
"""Where a name may continue on the next line."""
ARROW: Final = "\N{RIGHTWARDS ARROW}"
FIRST_LOSS: Final = 0.2
"""How far the colour of the smallest loss is from that of none, of the whole scale."""
LOST: Final = 1
"""The column of the lost energy, by which the table is sorted at first."""


def short_name(name: str) -> str:
    """Return the name of a parameter; of weights, that of their module."""
    return name.removesuffix(".weight")


def headline(losses: StateLosses, colour: str, *, has_reference: bool = True) -> str:
    """Return rich text with the parameter that lost most as a link, which has its name."""
    if not losses:
        return escape(tr("No parameter is on both sides."))
    if losses.worst is not None:
        (name, share), message = losses.worst, deferred("Most lost: {name}, {value}")
        value = sparsity_share(share)
        if not losses.is_complete:
            message = deferred("Most lost so far: {name}, {value}")
    elif not losses.is_complete:
        return UNKNOWN
    elif np.nan_to_num(losses.change).any():
        row = int(np.nanargmax(losses.change))
        name, value = losses[row], format_number(float(losses.change[row]), ".3g")
        message = deferred("No energy is lost. Most changed: {name}, by {value}")
    elif has_reference:
        if losses.omitted or losses.unmatched.any():
            return escape(tr("No energy is lost in the parameters of equal shapes."))
        return escape(tr("No energy is lost from left to right."))
    else:
        return escape(tr("What the file lost is known with a reference: see the menu File."))
    shown, style = escape(one_line(short_name(name))), f'style="color: {colour}"'
    shown = shown.replace(".", f".{BREAK}")
    link = f'<a {style} href="{escape(name)}">{shown}</a>'
    return tr(message, name=link, value=escape(value).replace(" ", "&nbsp;"))


class LossScale(NamedTuple):
    """The colours of losses: the palest is for none, the others from the smallest to the largest.

    So losses that differ little have different colours, too.
    """

    smallest: float
    largest: float

    @classmethod
    def of(cls, losses: StateLosses, shown: Container[str]) -> LossScale:
        """Return the scale of the losses of the parameters that are shown."""
        pairs = zip(losses, losses.lost.tolist(), strict=True)
        found = [lost for name, lost in pairs if lost > 0 and name in shown]
        return cls(min(found, default=0.0), max(found, default=0.0))

    def colour(self, lost: float, colours: Colours) -> str:
        span = self.largest - self.smallest
        above = (lost - self.smallest) / span if span else 1.0
        return colours.share(FIRST_LOSS + (1 - FIRST_LOSS) * above if lost else 0.0)

    def legend(self, colours: Colours) -> str:
        """Return some losses with their colours as rich text."""
        losses = np.linspace(self.smallest, self.largest, SCALE_STEPS - 1).tolist()
        marks = [(self.colour(one, colours), sparsity_share(one)) for one in sorted({0.0, *losses})]
        return scale(tr("energy lost"), marks)


def total_text(losses: StateLosses) -> str:
    """Describe what is lost in all parameters, and how many are left out."""
    if not losses.is_complete:
        return tr("{percent:.0f} % of the weights read", percent=100 * losses.progress)
    losses = losses.weights
    known, sentences = ~losses.unmatched, []
    if known.any():
        measures, size = losses.measures[known], int(losses.sizes[known].sum())
        before, after = (sparsity(int(measures[side].sum()), size) for side in ("left", "right"))
        clauses = [tr("sparsity {before} {arrow} {after}", before=before, arrow=ARROW, after=after)]
        energy, lost = float(measures["energy"].sum()), float(measures["lost"].sum())
        if 0 < energy < np.inf:
            clauses.append(tr("{share} of the energy lost", share=sparsity_share(lost / energy)))
        where = tr("In all") if known.all() else tr("In the parameters of equal shapes")
        sentences.append(tr("{name}: {note}", name=where, note=join_clauses(clauses)))
    if not known.all():
        remark = trn(
            "{count:,} parameter has another shape: what it lost is not known",
            "{count:,} parameters have other shapes: what they lost is not known",
            int(losses.unmatched.sum()),
        )
        sentences.append(remark)
    if losses.omitted:
        omitted = trn(
            "{count:,} parameter is not on both sides",
            "{count:,} parameters are not on both sides",
            losses.omitted,
        )
        sentences.append(omitted)
    text = ""
    for sentence in sentences:
        text = tr("{total}. {omitted}", total=text, omitted=sentence) if text else sentence
    return text


def equal_decimals(value: float, largest: float) -> str:
    """Return a number with as many decimals as all others up to the largest of a column."""
    if not 1e-4 <= largest < 1e6 or value > largest:
        return format_number(value, "#.3g")
    decimals = max(2, 2 - math.floor(math.log10(largest)))
    smallest = 10**-decimals
    if 0 < value < smallest / 2:
        return tr("< {number}", number=format_number(smallest, f".{decimals}f"))
    return format_number(value, f",.{decimals}f")


def _column(
    title: str,
    measure: str,
    text: Callable[[float], str] | None,
    tip: str,
    *,
    is_relative: bool = False,
) -> Column[Any]:
    """Return a column of numbers with a bar each, which may be relative to the largest.

    Args:
        measure: an attribute of `StateLosses`; NaN stands for what is not known.
        text: of a number; None is for `equal_decimals`.
    """
    values: Callable[[StateLosses], NDArray[np.float64]] = attrgetter(measure)

    def largest(losses: StateLosses) -> float:
        found = values(losses)
        return float(found[np.isfinite(found)].max(initial=0.0))

    def lengths(losses: StateLosses) -> NDArray[np.float64]:
        full = largest(losses) if is_relative else 1.0
        return np.minimum(values(losses) / (full or 1.0), 1.0)

    def shown(losses: StateLosses, row: int) -> str:
        if not losses.measures["known"][row]:
            return UNKNOWN
        value = float(values(losses)[row])
        if math.isnan(value):
            return UNDEFINED
        return text(value) if text is not None else equal_decimals(value, largest(losses))

    return Column(
        title=title,
        text=shown,
        values=values,
        tip=tip,
        descending_first=True,
        file_title=title,
        file_values=lambda losses: [None if np.isnan(one) else one for one in values(losses)],
        bar=lengths,
    )


LOSS_COLUMNS: Final[tuple[Column[Any], ...]] = (
    Column(
        title=deferred("Parameter"),
        text=lambda losses, row: short_name(losses[row]),
        values=tuple,
        cell_tip=lambda losses, row: one_line(losses[row]),
        is_number=False,
        file_title=deferred("Parameter"),
    ),
    _column(
        deferred("Lost"),
        "lost",
        sparsity_share,
        deferred("Lost energy: share of the sum of squares on the left that is zero on the right"),
        is_relative=True,
    ),
    _column(deferred("Before"), "before", sparsity_share, deferred("Sparsity on the left")),
    _column(deferred("After"), "after", sparsity_share, deferred("Sparsity on the right")),
    _column(
        deferred("Change"),
        "change",
        None,
        deferred("L2 norm of the difference between both sides"),
        is_relative=True,
    ),
    _column(
        deferred("IoU"),
        "iou",
        partial(format_number, spec=".3f"),
        deferred("Number of zeros on both sides, divided by number of zeros on either"),
    ),
    _column(
        deferred("Error"),
        "errors",
        sparsity_share,
        deferred("Error of the layer's outputs on the calibration data of the reconstruction"),
        is_relative=True,
    ),
)
ERROR: Final = len(LOSS_COLUMNS) - 1
"""The column that is shown only if there is a reconstruction."""


def legend(overlap: Overlap, colours: Colours, *, corrected: bool = False) -> str:
    """Return the legend of two pictures as rich text; see `ComparePainter.has_corrected`."""
    shades = Shades.of(colours)
    parts = (
        (marked, shades.both, tr("pruned in both"), overlap.both),
        (marked, shades.left, tr("pruned only on the left (revived)"), overlap.left),
        (marked, shades.right, tr("pruned only on the right"), overlap.right),
        (swatch, shades.kept, tr("kept in both"), overlap.kept),
    )
    shown = (part for part in parts if part[3])
    entries = [show(shade, counted(title, n, overlap.total)) for show, shade, title, n in shown]
    if corrected:
        entries.append(marked(shades.corrected, tr("kept in both, corrected")))
    return SEPARATOR.join([*entries, unbroken(tr("IoU {iou:.3f}", iou=overlap.iou))])
