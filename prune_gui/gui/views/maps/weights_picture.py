"""From the numbers of a parameter to the pixels of a picture. No Qt: it is done on the engine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from prune_gui.errors import PruneGuiError
from prune_gui.gui.views.maps.cell_labels import Texts, texts
from prune_gui.gui.views.maps.ramps import Ramp, parts, ramp
from prune_gui.gui.views.maps.tiles import Part, RasterBlock
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import later, tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.audit.statistics.element_values import Measure
    from prune_gui.monitor import Monitor
    from prune_gui.recipe.auxiliary_files import AuxiliaryFiles

Quantity = Literal["value", "size", "score", "margin", "difference"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How a quantity is shown.

    Attributes:
        title: what to call it.
        signed: whether it lies on both sides of zero.
        averaged: whether a cell of many entries shows their mean; else the number that lies
            farthest from zero, which a mean would hide.
        profile: what is averaged along each row and column.
        of_step: whether it is about a step.
    """

    title: str
    signed: bool
    averaged: bool
    profile: str
    of_step: bool = False

    @property
    def reduced(self) -> str:
        """Say what a cell of many entries shows."""
        what = tr(self.title)
        if self.averaged:
            return tr("{quantity}: a cell shows the mean of its entries", quantity=what)
        return tr("{quantity}: a cell shows its entry farthest from zero", quantity=what)


KINDS: Final[dict[Quantity, Kind]] = {
    "value": Kind(later("Value"), signed=True, averaged=False, profile=later("Mean |w|")),
    "size": Kind(later("Size |w|"), signed=False, averaged=True, profile=later("Mean |w|")),
    "score": Kind(
        later("Score"), signed=False, averaged=True, profile=later("Mean score"), of_step=True
    ),
    "margin": Kind(
        later("Margin to the cut"),
        signed=True,
        averaged=True,
        profile=later("Mean margin"),
        of_step=True,
    ),
    "difference": Kind(
        later("Difference to a file"),
        signed=True,
        averaged=False,
        profile=later("Mean |difference|"),
    ),
}


MOST_KNOWN: Final = 64
"""Pictures of which it is kept how far their numbers reach."""


class Ends:
    """How far the numbers of some pictures reach from zero, found by going through all of them.

    The engine finds it; the window reads it, and forgets all of it when another file is opened.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, float] = {}
        self._lock = Lock()

    def get(self, key: Hashable) -> float | None:
        """Return how far the numbers of a picture reach; None if nobody has kept it."""
        return self._known.get(key)

    def keep(self, key: Hashable, reach: float) -> None:
        """Keep how far the numbers of a picture reach; the oldest is forgotten for it."""
        with self._lock:
            while len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = reach

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()


@dataclass(frozen=True, slots=True, eq=False)
class WeightsPainter:
    """Paints a number per entry.

    Attributes:
        subject: the parameter, and what is pruned of it.
        colours: of the theme.
        quantity: which number.
        step: of which it is the score or the margin; 0 for other quantities.
        path: of the other file, if it is a difference.
        files: opens that.
        ends: of the numbers of this painter and others.
    """

    subject: Subject
    colours: Colours
    quantity: Quantity
    step: int
    path: str
    files: AuxiliaryFiles
    ends: Ends

    @property
    def kind(self) -> Kind:
        """How the quantity is shown."""
        return KINDS[self.quantity]

    @property
    def ramp(self) -> Ramp:
        """Its colours."""
        return ramp(self.colours, signed=self.kind.signed)

    @property
    def numbers_key(self) -> Hashable:
        """What the numbers follow from."""
        checkpoint, name, layers = self.subject.mask_key
        of_step = (layers, self.step) if self.kind.of_step else ()
        return checkpoint, name, self.quantity, of_step, self.path

    @property
    def key(self) -> Hashable:
        """What the pictures follow from."""
        return self.numbers_key, self.colours

    def paint(self, layout: ParameterLayout, part: Part, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle; rare are cells in which a number is NaN or infinite."""
        from prune_gui.audit.raster.cell_statistics import cell_statistics

        measure, reach = self._measure(), self._reach(monitor)
        found = cell_statistics(measure, layout, part.rows, part.columns, part.cells, monitor)
        numbers = found.mean if self.kind.averaged else found.farthest
        pixels = self.ramp.table()[self.ramp.places(numbers, reach)]
        pixels[np.isnan(numbers), :3] = parts(self.colours.grid)
        pixels[found.odd, :3] = parts(self.colours.warning)
        return RasterBlock(pixels, (found.odd,))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return the numbers."""
        return texts(self._measure(), layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        """What the profiles follow from."""
        return self.numbers_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Average each row and column: distances from zero, where both sides of it are alike."""
        from prune_gui.audit.raster.profiles import means
        from prune_gui.audit.statistics.element_values import absolute

        measure = self._measure()
        return means(measure if self.kind.averaged else absolute(measure), layout, monitor)

    def _measure(self) -> Measure:
        from prune_gui.audit.statistics import element_values

        resolution, name = self.subject.resolution, self.subject.name
        if self.kind.of_step and not self.step:
            raise PruneGuiError(
                tr("No step ranks {name} by a score.\nAdd or preview one that does.", name=name)
            )
        if self.quantity == "difference" and not self.path:
            raise PruneGuiError(tr("Choose a checkpoint to compare with."))
        if self.quantity == "score":
            return element_values.scores(resolution, name, self.step)
        if self.quantity == "margin":
            return element_values.margins(resolution, name, self.step)
        if self.quantity == "difference":
            return element_values.difference(resolution, name, self.files, self.path)
        return (
            element_values.sizes(resolution, name)
            if self.quantity == "size"
            else element_values.weights(resolution, name)
        )

    def _reach(self, monitor: Monitor) -> float:
        """Return how far the numbers of the whole parameter reach from zero."""
        from prune_gui.audit.raster.cell_statistics import reach_of, reach_of_weights

        reach, subject = self.ends.get(self.numbers_key), self.subject
        if reach is None:
            if self.quantity in ("value", "size"):
                reach = reach_of_weights(subject.resolution.checkpoint, subject.name, monitor)
            else:
                reach = reach_of(self._measure(), subject.info.numel, monitor)
            self.ends.keep(self.numbers_key, reach)
        return reach
