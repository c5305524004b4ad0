"""Pixels of the numbers of a parameter. No Qt: they are computed on the engine's thread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from prune_gui import raster, statistics
from prune_gui.checkpoint.base import UNASKED_FETCH_BYTES
from prune_gui.errors import PruneGuiError
from prune_gui.gui.views.bars.data import inner_limit
from prune_gui.gui.views.maps.text import Texts, texts
from prune_gui.gui.views.maps.tiles import RasterBlock, TileRegion
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.selection.histogram_cache import LRUCache
from prune_gui.raster.colours import Colours, Ramp, ramp, rgb
from prune_gui.raster.parameter_layouts import flat_span
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.parameter_layouts import ParameterLayout
    from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
    from prune_gui.statistics.element_values import Measure


Quantity = Literal["value", "size", "score", "margin", "correction", "difference"]
VALUES: Final[frozenset[Quantity]] = frozenset({"value", "size", "correction"})
"""The quantities that follow from the values that steps correct."""
SPANNED: Final[frozenset[Quantity]] = frozenset({"value", "size"})
"""The quantities of an element that follow from its value alone."""
REACH_CACHE_BYTES: Final = 64 * 8  # of the reaches of 64 pictures
SAMPLED_SPANS: Final = 256
SPAN_ELEMENTS: Final = 1 << 10
"""A larger parameter is sampled in equally distant spans: to read all of it would delay the
picture, and the end of a colour scale need not be exact.
"""
FEW_SPANS: Final = 8
FEW_SPAN_ELEMENTS: Final = 1 << 15  # fewer and longer spans, of parameters that are not fetched yet


@dataclass(frozen=True, slots=True)
class QuantityStyle:
    """How a quantity is shown: its title, and what its profiles average along rows and columns.

    A cell of several elements shows their mean if it is averaged; else it shows the number that is
    farthest from zero, which a mean would hide.
    """

    title: str
    profile: str
    signed: bool = False
    averaged: bool = False
    of_step: bool = False

    @property
    def reduced(self) -> str:
        what = tr(self.title)
        if self.averaged:
            return tr("{quantity}: a cell shows the mean of its values", quantity=what)
        return tr("{quantity}: a cell shows its value farthest from zero", quantity=what)


_MAGNITUDE: Final = deferred("Mean |w|")
_MARGIN: Final = deferred("Mean margin")
_CHANGE: Final = deferred("Mean |change|")
_DIFFERENCE: Final = deferred("Mean |difference|")
QUANTITIES: Final[dict[Quantity, QuantityStyle]] = {
    "value": QuantityStyle(deferred("Value"), _MAGNITUDE, signed=True),
    "size": QuantityStyle(deferred("Size |w|"), _MAGNITUDE, averaged=True),
    "score": QuantityStyle(deferred("Score"), deferred("Mean score"), averaged=True, of_step=True),
    "margin": QuantityStyle(
        deferred("Margin to the cut"), _MARGIN, signed=True, averaged=True, of_step=True
    ),
    "correction": QuantityStyle(deferred("Change by corrections"), _CHANGE, signed=True),
    "difference": QuantityStyle(deferred("Difference to a file"), _DIFFERENCE, signed=True),
}


@dataclass(frozen=True, slots=True, eq=False)
class WeightsPainter:
    """Paints one number per element.

    Attributes:
        reach_cache: the largest finite distances from zero of the numbers in pictures. To compute
            one reads all numbers.
        full_range: whether the colours range up to the number farthest from zero; else a few
            outliers have the colour of the end.
        is_part: whether only a part of a remote parameter is shown, and no more of it is to be
            fetched. The end of the colours then follows from a few samples. See `shows_part`.
    """

    subject: Subject
    colours: Colours
    quantity: Quantity
    step: int  # of the score or margin; 0 for other quantities
    path: str  # of the other file for a difference; else ""
    files: AuxiliaryFiles
    reach_cache: LRUCache[np.float64]
    full_range: bool = False
    is_part: bool = False

    def shows_part(self) -> WeightsPainter:
        """Return the painter of a part, if the rest of the parameter would have to be fetched."""
        subject = self.subject
        is_part = (
            self.quantity in SPANNED
            and not self.full_range
            and subject.resolution.checkpoint.url is not None
            and subject.info.nbytes > UNASKED_FETCH_BYTES
            and not subject.resolution.is_corrected(subject.name)
            and self.reach_cache.get(self.numbers_key) is None
        )
        return replace(self, is_part=is_part)

    @property
    def style(self) -> QuantityStyle:
        return QUANTITIES[self.quantity]

    @property
    def ramp(self) -> Ramp:
        return ramp(self.colours, signed=self.style.signed)

    @property
    def numbers_key(self) -> Hashable:
        """A key that is equal for equal numbers."""
        checkpoint, name, steps = self.subject.mask_key
        of_step = (steps, self.step) if self.style.of_step else ()
        of_values = self.quantity in VALUES
        corrected = self.subject.resolution.values_key(self.subject.name) if of_values else ()
        return checkpoint, name, self.quantity, of_step, corrected, self.path

    @property
    def key(self) -> Hashable:
        return self.numbers_key, self.colours, self.full_range, self.is_part

    @property
    def limits(self) -> tuple[float, float]:
        """The magnitude at which the colours end, and the largest; 0.0 before the first picture."""
        limit = self.reach_cache.get(self._limit_key) or 0.0
        highest = limit if self.is_part else self.reach_cache.get(self.numbers_key) or 0.0
        return highest if self.full_range else limit, highest

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle. Rare cells are those with a non-finite number."""
        reach = self._colour_limit(monitor)
        measure = self._measure(flat_span(layout, part.rows, part.columns))
        grid = raster.cell_grid.CellGrid.over(layout, part.cells, part.rows, part.columns)
        cells = raster.cell_statistics.cell_statistics(measure, grid, monitor)
        numbers = cells.mean if self.style.averaged else cells.farthest
        pixels = self.ramp.table()[self.ramp.indices(numbers, reach)]
        pixels[np.isnan(numbers), :3] = rgb(self.colours.grid)
        pixels[cells.non_finite, :3] = rgb(self.colours.warning)
        return RasterBlock(pixels, (cells.non_finite,))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        measure = self._measure(flat_span(layout, rows, columns))
        return texts(measure, layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        return self.numbers_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Average each row and column; of absolute values, unless cells show means too."""
        measure = self._measure()
        if not self.style.averaged:
            measure = statistics.element_values.absolute(measure)
        return raster.cell_statistics.means(measure, layout, monitor)

    def _measure(self, span: tuple[int, int] | None = None) -> Measure:
        """Return a reader of the numbers, of which only a span of flat indices may be read."""
        element_values = statistics.element_values
        resolution, name = self.subject.resolution, self.subject.name
        if self.style.of_step:
            if not self.step:
                raise PruneGuiError(
                    "No step ranks {name} by a score.\nAdd or preview one that does.", name=name
                )
            is_score = self.quantity == "score"
            of_step = element_values.scores if is_score else element_values.margins
            return of_step(resolution, name, self.step)
        if self.quantity == "correction":
            if not resolution.is_corrected(name):
                raise PruneGuiError(
                    "No step corrects {name}.\nAdd or preview one that does.", name=name
                )
            return element_values.corrections(resolution, name)
        if self.quantity == "difference":
            if not self.path:
                raise PruneGuiError("Choose a checkpoint to compare with.")
            return element_values.difference(resolution, name, self.files, self.path)
        of_value = element_values.sizes if self.quantity == "size" else element_values.weights
        return of_value(resolution, name, span)

    def _colour_limit(self, monitor: Monitor) -> float:
        sampled = statistics.element_values.sampled_weights
        subject, is_part = self.subject, self.is_part
        reach = math.inf if is_part else self._reach(monitor)
        if self.full_range:
            return reach
        limit: float | None = self.reach_cache.get(self._limit_key)
        if limit is None:
            samples = sampled(subject.resolution, subject.name) if is_part else None
            measure, size = samples or self._measure(), subject.info.numel
            limit = min(reach, colour_limit(measure, size, monitor, few_spans=is_part))
            self.reach_cache.put(self._limit_key, np.float64(limit))
        return limit

    @property
    def _limit_key(self) -> Hashable:
        return self.numbers_key, "limit", self.is_part

    def _reach(self, monitor: Monitor) -> float:
        """Return the largest finite distance from zero of the whole parameter's numbers."""
        reach: float | None = self.reach_cache.get(self.numbers_key)
        if reach is None:
            cells, subject = raster.cell_statistics, self.subject
            if self.quantity in SPANNED:
                reach = cells.max_weight_magnitude(subject.resolution, subject.name, monitor)
            else:
                reach = cells.reach_of(self._measure(), subject.info.numel, monitor)
            self.reach_cache.put(self.numbers_key, np.float64(reach))
        return reach


def colour_limit(
    measure: Measure, size: int, monitor: Monitor, *, few_spans: bool = False
) -> float:
    """Return the magnitude at which a colour scale ends: that of about 99.9 % of the numbers."""
    samples = []
    spans = (FEW_SPANS, FEW_SPAN_ELEMENTS) if few_spans else (SAMPLED_SPANS, SPAN_ELEMENTS)
    for start, stop in _spans(size, *spans):
        monitor.advance(0)
        numbers, is_defined = measure(start, stop)
        defined = numbers[is_defined] if is_defined.size else numbers
        magnitudes = np.abs(defined.astype(np.float64))
        samples.append(magnitudes[np.isfinite(magnitudes)])
    return inner_limit(np.concatenate(samples)) if samples else 0.0


def _spans(size: int, count: int, length: int) -> Iterator[tuple[int, int]]:
    if size <= count * length:
        starts = np.arange(0, size, length)
    else:
        starts = np.linspace(0, size - length, count).astype(np.int64)
    for start in starts.tolist():
        yield start, min(start + length, size)
