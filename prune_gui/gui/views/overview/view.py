"""All parameters as thumbnails: a row per block of the network, a column per role in it."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.controls import Choice, switch
from prune_gui.gui.views.legend_text import SEPARATOR, legend, swatch
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.card_panel import CardPanel
from prune_gui.gui.views.overview.data import (
    OverviewData,
    OverviewRequest,
    compute_overview,
    parameter_subject,
)
from prune_gui.gui.views.overview.grid_painter import Cell
from prune_gui.gui.views.overview.text import badge
from prune_gui.gui.views.overview.thumbnail import MAX_CELLS, Shading, magnitude_marks, proportions
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.workbench import Workbench
from prune_gui.language import format_number, tr
from prune_gui.monitor import Monitor
from prune_gui.number_formats import percent, sparsity
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import StepRequest, TargetsRequest, dead_units
from prune_gui.session.subjects import ModelSubject

BYTES_PER_THUMBNAIL: Final = 9 * MAX_CELLS**2
"""Share and step of each cell, and its pixel."""
DEFAULT_LIMIT: Final = 10_000
"""Number of thumbnails in memory before `limit_memory` is called."""
SCALE_STEPS: Final = 6


class OverviewView(View[ModelSubject]):
    """Shows a thumbnail of every parameter. They are computed progressively, visible ones first."""

    lane = "overview"
    spreads = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, lambda: workbench.model_subject, tr("Overview"))
        self._data: OverviewData | None = None
        self._limit = DEFAULT_LIMIT
        self._chose_shading = False
        self._shading_box = Choice(
            tr("What the colours show"),
            [
                (tr("Weight magnitude"), Shading.MAGNITUDE),
                (tr("Sparsity by step"), Shading.STEP),
                (tr("Sparsity"), Shading.DENSITY),
                (tr("Pruned energy"), Shading.ENERGY),
            ],
            self._choose_shading,
        )
        tip = tr("Also show parameters with less than two dimensions")
        self._vectors_box = switch(tr("Biases and norms"), tip, self.refresh)
        self._grid, self._card = BlockGrid(tr("Thumbnails of the parameters")), CardPanel()
        page = QWidget()
        layouts.column(self._card, (self._grid, 1), of=page, margin=0, gap=0)
        self._pointed = ElidedLabel(tr("Parameter under the cursor"))
        self._lay_out([self._shading_box, self._vectors_box], page, [self._pointed])
        # Continue after the new state is painted, because the engine's work would delay painting.
        self._paint_timer = self._timer(0, self.refresh)
        self._grid.chosen.connect(workbench.choose)
        self._grid.opened.connect(self._open)
        self._grid.pointed.connect(lambda name: self._pointed.say(one_line(name)))
        self._grid.moved.connect(self._on_moved)
        self._card.opened.connect(self._follow)
        self._card.removal_wanted.connect(self._remove_dead)
        self._card.pointed.connect(self._grid.mark)
        self._grid.picked.connect(self._pick)
        self.pictured.connect(self._continue)

    def picture(self) -> QWidget | None:
        return self._grid if super().picture() else None

    def show_selection(self, *, on: bool) -> None:
        self._grid.choose(self._workbench.chosen if on else None)

    def limit_memory(self, nbytes: int) -> None:
        self._limit = max(1, nbytes // BYTES_PER_THUMBNAIL)

    @property
    def _shading(self) -> Shading:
        return Shading(self._shading_box.value)

    def _choose_shading(self) -> None:
        self._chose_shading = True
        self.refresh()

    def _follow_sparsity(self, subject: ModelSubject) -> None:
        """Show magnitudes while nothing is pruned, then sparsity; unless the user chose."""
        pruned = subject.resolution.total[0] or self._workbench.unpruned_zeros
        is_near = subject.resolution.checkpoint.is_fetched  # nothing is fetched for a picture
        if not self._chose_shading:
            self._shading_box.choose(Shading.STEP if pruned or not is_near else Shading.MAGNITUDE)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.refresh()
        elif changes.resolution or changes.zeros or changes.comparison:
            self._paint_timer.start()
        if changes.selection:
            self._grid.choose(self._workbench.chosen)

    def _request_picture(self, subject: ModelSubject) -> None:
        self._follow_sparsity(subject)
        before, visible = self._data, self._grid.visible_names()
        vectors = self._vectors_box.isChecked()
        request = OverviewRequest(self._shading, vectors, self.colours(), visible, self._limit)

        def work(monitor: Monitor) -> OverviewData:
            return compute_overview(subject, before, request, monitor)

        self._run_picture_job(subject, work, self._show)

    def _show(self, data: OverviewData) -> None:
        before, self._data = self._data, data
        self._grid.show_cells(data.arrangement, self._cell_of, self.colours())
        self._grid.tip_of = data.describe
        self._grid.choose(self._workbench.chosen)
        if before is None or before.card is not data.card:
            self._card.show_card(data.card, self.colours())
        self._show_legend(data)

    def _cell_of(self, name: str) -> Cell:
        assert self._data is not None
        resolution, picture = self._data.subject.resolution, self._data.pictures.get(name)
        pruned, total = resolution.counts[name]
        cell = Cell(
            proportions=proportions(resolution.checkpoint.tensors[name].shape),
            outline=self.colours().draft if name in self._data.targets else "",
            is_locked=name in resolution.protected,
            badge=badge(parameter_subject(self._data.subject, name)),
        )
        if picture is None:
            return cell
        if picture.style.shading is Shading.MAGNITUDE:
            text = format_number(picture.thumbnail.rms, "#.2g")
            return cell._replace(text=text, pixels=picture.pixels)
        zeros = max(pruned, picture.zeros or 0)
        text = sparsity(zeros, total)
        return cell._replace(text=text, pixels=picture.pixels, is_faint=not zeros)

    def _show_legend(self, data: OverviewData) -> None:
        colours = self.colours()
        if self._shading is Shading.STEP:
            self._legend.setText(
                legend(data.subject, colours, zeros=data.subject.zeros, is_dense=True)
            )
            return
        shares = [index / (SCALE_STEPS - 1) for index in range(SCALE_STEPS)]
        marks = [(colours.share(share), percent(share)) for share in shares]
        what = tr("pruned share of the energy")
        if self._shading is Shading.DENSITY:
            what = tr("sparsity")
        elif self._shading is Shading.MAGNITUDE:
            what = tr("RMS of the weights, relative to the matrix")
            marks = magnitude_marks(colours)
        self._legend.setText(SEPARATOR.join([what, *(swatch(*mark) for mark in marks)]))

    def _continue(self) -> None:
        if self.picture() is not None and self._data is not None and not self._data.is_complete:
            self._paint_timer.start()

    def _on_moved(self) -> None:
        if self._data is not None and len(self._data.pictures) >= self._limit:
            self._settle_timer.start()

    def _open(self, name: str) -> None:
        self._workbench.choose(name)
        self.view_wanted.emit("mask")

    def _follow(self, names: tuple[str, ...]) -> None:
        """Open a parameter, or choose the first of several, all of which are marked."""
        (self._workbench.choose if names[1:] else self._open)(names[0])

    def _pick(self, names: tuple[str, ...], adds: bool) -> None:
        """Choose targets; if they are added and all are targets already, remove them."""
        picked = frozenset(names)
        before = frozenset(self._data.targets if self._data and adds else ())
        if targets := before - picked if picked <= before else before | picked:
            self._request_draft(TargetsRequest(targets))

    def _remove_dead(self) -> None:
        if self.subject is not None:
            checkpoint = self.subject.resolution.checkpoint
            self._request_draft(StepRequest(dead_units(None, checkpoint)))

    def _recolour(self) -> None:
        if self._data is not None:
            self._card.show_card(self._data.card, self.colours())
