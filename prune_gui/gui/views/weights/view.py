"""The numbers of a parameter of any size: its values, its scores, or a difference of two files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from prune_gui import statistics
from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.views.controls import Choice, switch
from prune_gui.gui.views.legend_text import SEPARATOR, coloured_text, marked, unbroken
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.weights.data import (
    QUANTITIES,
    REACH_CACHE_BYTES,
    QuantityStyle,
    WeightsPainter,
)
from prune_gui.gui.widgets import layouts
from prune_gui.language import deferred, format_number, tr
from prune_gui.pruning.selection.histogram_cache import LRUCache
from prune_gui.raster.colours import Ramp, between
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
    from prune_gui.session.changes import Changes


SWATCHES: Final = 12  # number of colours of the ramp in the legend
CHOOSE: Final = deferred("Choose the checkpoint to compare with")
FILE_NAME_WIDTH_PX: Final = 80  # maximum width of a file name on its button


class WeightsView(MapView):
    """Shows a number per element as a colour: value, size, score, margin, or difference."""

    lane = "weights"

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        tip = tr("Show the mean of the finite values in each row and column")
        super().__init__(workbench, viewport, tr("Weights"), tr("Picture of the weights"), tip)
        titles = {quantity: tr(style.title) for quantity, style in QUANTITIES.items()}
        titles["difference"] += "…"
        items = [(title, quantity) for quantity, title in titles.items()]
        self._quantity = Choice(tr("Colour by"), items, tip=tr("Meaning of the colours"))
        self._step = Choice(tr("Step"), changed=self.refresh, tip=tr("Step of the scores"))
        self._choose_file = layouts.button(tr("File…"), self._ask_for_file, tr(CHOOSE))
        tip = tr("Scale the colours up to the outermost number; else to 99.9 % of the numbers")
        self._full_range = switch(tr("Full range"), tip, self.refresh)
        self._other = ""
        self._files: AuxiliaryFiles | None = None
        self._reach_cache = LRUCache[np.float64](REACH_CACHE_BYTES)
        self._is_whole = True
        self._step.hide()
        self._choose_file.hide()
        self._quantity.activated.connect(self._choose)
        self._lay_out_map(
            [self._quantity, self._step, self._choose_file], [self._full_range, QWidget()]
        )

    def compare_with(self, path: Path) -> None:
        self._other = str(path.absolute())
        metrics = self._choose_file.fontMetrics()
        name = metrics.elidedText(
            escape_mnemonics(path.name), Qt.TextElideMode.ElideMiddle, FILE_NAME_WIDTH_PX
        )
        self._choose_file.setText(name.replace("&", "&&"))
        self._choose_file.setToolTip("\n".join((one_line(path.name), tr(CHOOSE))))
        self._quantity.choose("difference")
        self.refresh()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._reach_cache, self._files = LRUCache(REACH_CACHE_BYTES), None
        super()._on_changed(changes)

    @property
    def _style(self) -> QuantityStyle:
        return QUANTITIES[self._quantity.value]

    def _choose(self) -> None:
        if self._quantity.value == "difference" and not self._other:
            self._ask_for_file()
        self.refresh()

    def _ask_for_file(self) -> None:
        folder = self._workbench.opened.checkpoint.path.parent
        path = ask_checkpoint(self.window(), folder)
        if path is not None:
            self.compare_with(path)

    def _painter(self, subject: Subject) -> WeightsPainter:
        from prune_gui.recipe.auxiliary_files import AuxiliaryFiles  # torch: slow to import

        if self._files is None:  # keeps the other file open as long as the current file is
            self._files = AuxiliaryFiles()
        painter = WeightsPainter(
            subject,
            self.colours(),
            self._quantity.value,
            self._step.value or 0 if self._style.of_step else 0,
            self._other if self._quantity.value == "difference" else "",
            self._files,
            self._reach_cache,
            self._full_range.isChecked(),
        )
        return painter if self._is_whole else painter.shows_part()

    def _prepare(self, subject: Subject, *, is_whole: bool) -> None:
        """Offer the steps that rank the parameter; select the last unless another was chosen."""
        ranking_steps = statistics.element_values.ranking_steps
        self._is_whole = is_whole
        self._choose_file.setVisible(self._quantity.value == "difference")
        steps = ranking_steps(subject.resolution, subject.name) if self._style.of_step else ()
        self._step.setVisible(bool(steps))
        last = steps[-1] if steps else None
        self._step.offer([(subject.title(step), step) for step in steps], last)

    def _picture_legend(self, subject: Subject, rendered: RenderedView) -> str:
        painter, colours = self._painter(subject), self.colours()
        style, (limit, highest) = painter.style, painter.limits
        title = tr("{quantity} of each weight", quantity=tr(style.title))
        parts = [_ramp_text(painter.ramp, limit)]
        parts.append(title if rendered.tile_grid.cell == (1, 1) else style.reduced)
        if highest > limit:
            parts.append(unbroken(tr("end colours: numbers up to {value:.3g}", value=highest)))
        [non_finite] = rendered.painted.rare
        if non_finite is None or len(non_finite):
            parts.append(marked(colours.warning, tr("NaN or infinite")))
        if len(rendered.painted.marks):
            parts.append(unbroken(tr("○ marks single cells of this kind")))
        if style.of_step:
            parts.append(marked(colours.grid, tr("not ranked")))
        return SEPARATOR.join(parts)

    def _profile_titles(self, _subject: Subject) -> Titles:
        mean = tr(self._style.profile)
        return Titles(tr("{mean} of each column", mean=mean), tr("{mean} of each row", mean=mean))


def _ramp_text(ramp: Ramp, limit: float) -> str:
    """Return a ramp between the numbers at its ends as rich text."""
    shades = (between(ramp.stops, step / (SWATCHES - 1)) for step in range(SWATCHES))
    squares = "".join(coloured_text("■", shade) for shade in shades)
    low = 0.0 - limit if ramp.signed else 0.0  # avoids "-0"
    ends = (unbroken(format_number(end, ".3g")) for end in (low, limit))
    return f"&nbsp;{squares}&nbsp;".join(ends)
