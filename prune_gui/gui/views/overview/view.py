"""All parameters as thumbnails: a row per block of the network, a column per role in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.controls import Choice, switch
from prune_gui.gui.views.legend_text import SEPARATOR, legend, scale, share_scale, unbroken
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.data import (
    OverviewData,
    OverviewRequest,
    compute_overview,
    parameter_subject,
)
from prune_gui.gui.views.overview.grid_painter import Cell, CellOf, error_cells
from prune_gui.gui.views.overview.text import badge
from prune_gui.gui.views.overview.thumbnail import MAX_CELLS, Shading, magnitude_marks, proportions
from prune_gui.gui.views.view import Legend, View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import LINKS
from prune_gui.gui.workbench import Workbench
from prune_gui.language import format_number, tr
from prune_gui.number_formats import sparsity
from prune_gui.recipe.recipe import reconstruction_errors
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import StepRequest, TargetsRequest, dead_units
from prune_gui.session.subjects import ModelSubject

if TYPE_CHECKING:
    from prune_gui.gui.views.overview.text import CardRow, FileCard, Findings
    from prune_gui.raster.colours import Colours


BYTES_PER_THUMBNAIL: Final = 9 * MAX_CELLS**2  # share and step of each cell, and its pixel
DEFAULT_LIMIT: Final = 10_000  # number of thumbnails in memory before `limit_memory` is called


class OverviewView(View[ModelSubject]):
    """Shows a thumbnail of every parameter. They are computed progressively, visible ones first."""

    lane = "overview"
    spreads = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, lambda: workbench.model_subject, tr("Overview"))
        self._data: OverviewData | None = None
        self._limit = DEFAULT_LIMIT
        self._chose_shading = False
        self._shadings = [
            (tr("Weight magnitude"), Shading.MAGNITUDE),
            (tr("Sparsity by step"), Shading.STEP),
            (tr("Sparsity"), Shading.DENSITY),
            (tr("Pruned energy"), Shading.ENERGY),
        ]
        self._shading_box = Choice(
            tr("What the colours show"), self._shadings, self._choose_shading
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

    def is_drawn(self) -> bool:
        return super().is_drawn() and self._data is not None and self._data.is_drawn

    def limit_memory(self, nbytes: int) -> None:
        self._limit = max(1, nbytes // BYTES_PER_THUMBNAIL)

    @property
    def _shading(self) -> Shading:
        return Shading(self._shading_box.value)

    def _choose_shading(self) -> None:
        self._chose_shading = True
        self.refresh()

    def _follow_sparsity(self, subject: ModelSubject) -> None:
        """Show magnitudes while nothing is pruned, then sparsity; unless the user chose.

        Errors are offered for a file that was reconstructed.
        """
        error = (tr("Error of the reconstruction"), Shading.ERROR)
        errors = [error] if _errors_of(subject) else []
        self._shading_box.offer([*self._shadings, *errors], Shading.STEP)
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
        work = partial(compute_overview, subject, before, request)
        self._run_picture_job(subject, work, self._show)

    def _show(self, data: OverviewData) -> None:
        before, self._data, colours = self._data, data, self.colours()
        cell_of = _cell_of(data, colours)
        if self._shading is Shading.ERROR:
            cell_of = error_cells(_errors_of(data.subject), colours)
        self._grid.show_cells(data.arrangement, cell_of, colours)
        self._grid.tip_of = data.describe
        self._grid.choose(self._workbench.chosen)
        if before is None or before.card is not data.card:
            self._card.show_card(data.card, colours)
        self._legend.setText(self._legend_of(data.subject, colours))

    def _legend_of(self, subject: ModelSubject, colours: Colours) -> str:
        match self._shading:
            case Shading.STEP:
                return legend(subject, colours, zeros=subject.zeros, is_dense=True)
            case Shading.MAGNITUDE:
                what = tr("RMS of the weights, relative to the matrix")
                return scale(what, magnitude_marks(colours))
            case Shading.DENSITY:
                return share_scale(tr("sparsity"), colours)
            case Shading.ERROR:
                largest = max(_errors_of(subject).values())
                return share_scale(tr("error of the layer"), colours, largest)
            case Shading.ENERGY:
                return share_scale(tr("pruned share of the energy"), colours)

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


def _errors_of(subject: ModelSubject) -> Mapping[str, float]:
    return reconstruction_errors(subject.resolution.checkpoint.metadata)


def _cell_of(data: OverviewData, colours: Colours) -> CellOf:
    resolution, targets = data.subject.resolution, data.targets

    def cell_of(name: str) -> Cell:
        picture = data.pictures.get(name)
        pruned, total = resolution.counts[name]
        cell = Cell(
            proportions=proportions(resolution.checkpoint.tensors[name].shape),
            outline=colours.draft if name in targets else "",
            is_locked=name in resolution.protected,
            badge=badge(parameter_subject(data.subject, name)),
        )
        if picture is None:
            return cell
        if picture.thumbnail.measure is Shading.MAGNITUDE:
            text = format_number(picture.thumbnail.rms, "#.2g")
            return cell._replace(text=text, pixels=picture.pixels)
        zeros = max(pruned, picture.zeros or 0)
        text = sparsity(zeros, total)
        return cell._replace(text=text, pixels=picture.pixels, is_faint=not zeros)

    return cell_of


REMOVAL: Final = "removal"
MAX_LINES: Final = 7
MAX_NAME_PX: Final = 220


class CardPanel(Legend):
    """Shows a card in some lines; it scrolls if there are more."""

    opened = Signal(object)  # (names) the user clicked a row that leads to parameters
    pointed = Signal(object)  # (names) the cursor is over such a row; empty if it is over none
    removal_wanted = Signal()  # the user wants to prune what remains of dead units

    def __init__(self) -> None:
        super().__init__(tr("The file in numbers"), MAX_LINES)
        self._targets: list[tuple[str, ...]] = []
        self._label.setTextInteractionFlags(LINKS)
        self._label.linkActivated.connect(self._follow)
        self._label.linkHovered.connect(lambda link: self.pointed.emit(self._target(link)))

    def show_card(self, card: FileCard, colours: Colours) -> None:
        self._targets.clear()
        name = unbroken(tr("Patterns"))
        patterns = self._list(f"<b>{name}</b>", card.patterns)
        lines = self._facts(card), self._warnings(card, colours), patterns
        self.setText("<br>".join(filter(None, lines)))

    def _facts(self, card: FileCard) -> str:
        faint = QApplication.palette().placeholderText().color().name()
        return SEPARATOR.join(
            f'<span style="color: {faint}">{unbroken(row.label)}</span>&nbsp;'
            f"{self._link(row, unbroken(row.text))}"
            for row in card.facts
        )

    def _warnings(self, card: FileCard, colours: Colours) -> str:
        name = unbroken(tr("Warnings"))
        heading = f'<b style="color: {colours.warning}">{name}</b>'
        listed = self._list(heading, card.warnings)
        if listed and card.has_dead:
            removal = unbroken(tr("Prune what remains of dead units"))
            listed += f'{SEPARATOR}<a href="{REMOVAL}">{removal}</a>'
        return listed

    def _list(self, heading: str, found: Findings) -> str:
        if not found.total:
            return ""
        rows = (
            f"{self._link(row, unbroken(self._elided(row.label)))}: {escape(one_line(row.text))}"
            for row in found.rows
        )
        more = unbroken(tr("{count:,} more: see Layers", count=found.total - len(found.rows)))
        rest = [more] if found.total > len(found.rows) else []
        return SEPARATOR.join((heading, *rows, *rest))

    def _link(self, row: CardRow, text: str) -> str:
        if not row.parameters:
            return text
        self._targets.append(row.parameters)
        return f'<a href="{len(self._targets) - 1}">{text}</a>'

    def _follow(self, link: str) -> None:
        if link == REMOVAL:
            self.removal_wanted.emit()
        else:
            self.opened.emit(self._target(link))

    def _target(self, link: str) -> tuple[str, ...]:
        return self._targets[int(link)] if link not in ("", REMOVAL) else ()

    def _elided(self, name: str) -> str:
        metrics, middle = self._label.fontMetrics(), Qt.TextElideMode.ElideMiddle
        return metrics.elidedText(one_line(name), middle, MAX_NAME_PX)
