"""What is lost from one state to another: all parameters as a list, then the pictures of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from prune_gui import comparison, statistics
from prune_gui.comparison.state_losses import StateLosses
from prune_gui.gui.views.compare.control_bars import SidesBar
from prune_gui.gui.views.compare.picture_view import ComparePictures
from prune_gui.gui.views.compare.text import (
    ERROR,
    LOSS_COLUMNS,
    LOST,
    UNDEFINED,
    UNKNOWN,
    LossScale,
    headline,
    total_text,
)
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.grid_painter import Cell, CellOf
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import LINKS
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.language import tr
from prune_gui.number_formats import sparsity_share
from prune_gui.raster.colours import Colours
from prune_gui.session.draft_request import TargetsRequest
from prune_gui.session.subjects import ComparedState, ModelSubject
from prune_gui.table import Table

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.session.changes import Changes

WIDTHS_PX: Final = (510, 290)  # of the table and of the grid, at first
HEIGHTS_PX: Final = (100, 180)  # of the table, which scrolls, and of the grid, which shows all
MIN_WIDTH_BESIDE_PX: Final = 900
"""Minimum width of the view for the grid beside the table; else it is below, as wide as both."""
MARGINS_PX: Final = (GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)


@dataclass(frozen=True, slots=True, eq=False)
class RankedLosses:
    """What every parameter loses between two states, and where its block is."""

    sides: tuple[ComparedState, ComparedState]
    losses: StateLosses
    arrangement: Arrangement

    @property
    def is_pending(self) -> bool:
        """Whether there are weights left to read, without fetching a remote checkpoint."""
        is_fetched = all(side.base.checkpoint.is_fetched for side in self.sides)
        return is_fetched and not self.losses.is_complete


class CompareView(View[ModelSubject]):
    """Ranks all parameters by what they lose; the pictures of one are the second level."""

    lane = "compare.list"
    has_table = True

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        super().__init__(workbench, lambda: workbench.model_subject, tr("Compare"))
        self._ranking: RankedLosses | None = None
        self.sides = SidesBar(workbench)
        self.pictures = ComparePictures(workbench, viewport)
        self.table_widget = LossTable()
        self.grid = BlockGrid(tr("Energy lost by block and role"))
        label = QLabel(textFormat=Qt.TextFormat.RichText, wordWrap=True)
        self.headline = layouts.described(label, tr("The parameter that lost most"))
        self.headline.setFont(bold(self.headline.font()))
        self.headline.setTextInteractionFlags(LINKS)
        name = tr("All parameters that can be compared")
        self.total = layouts.described(layouts.remark(), name)
        self._list = QWidget()
        self._levels = layouts.pages(self._list, self.pictures)
        self._fill()
        self._paint_timer = self._timer(0, self.refresh)
        self._connect()
        self._mark()

    def _fill(self) -> None:
        tip = tr("Show both sides of the chosen parameter (Enter in the table)")
        open_button = layouts.button(tr("Show the weights"), self.show_pictures, tip)
        self._halves = layouts.split(self.table_widget, self.grid, sizes=WIDTHS_PX)
        above = layouts.row((self.headline, 1), open_button, margin=MARGINS_PX)
        self.total.setContentsMargins(*MARGINS_PX)
        parts = above, (self._halves, 1), self.total, self._legend
        layouts.column(*parts, of=self._list, margin=0, gap=0)
        layouts.column(self.sides, (self._levels, 1), of=self._picture_page, margin=0, gap=0)
        self._shown = self._halves
        self._complete = True

    def _connect(self) -> None:
        self.headline.linkActivated.connect(self._workbench.choose)
        self.table_widget.chosen.connect(self._workbench.choose)
        self.table_widget.activated.connect(self.show_pictures)
        self.grid.chosen.connect(self._workbench.choose)
        self.grid.opened.connect(self._open)
        self.grid.picked.connect(self._target)
        self.table_widget.doubleClicked.connect(self.show_pictures)
        self.pictures.list_wanted.connect(self.show_list)
        self.pictures.pictured.connect(self.pictured)
        self.pictures.mode_changed.connect(self._show_sides)
        self.pictured.connect(self._continue)

    def show_pictures(self) -> None:
        self._show_level(self.pictures, self.pictures.pair.visible_plot)

    def show_list(self) -> None:
        self._show_level(self._list, self.table_widget)

    def _show_level(self, level: QWidget, focused: QWidget) -> None:
        self._levels.setCurrentWidget(level)
        self._show_sides()
        focused.setFocus()
        self.pictured.emit()

    def _open(self, name: str) -> None:
        """Choose a parameter, or show the pictures of the chosen one."""
        if name == self._workbench.chosen:
            self.show_pictures()
        else:
            self._workbench.choose(name)

    def _target(self, names: tuple[str, ...]) -> None:
        self._request_draft(TargetsRequest(frozenset(names)))

    @property
    def _shows_list(self) -> bool:
        return self._levels.currentWidget() is self._list

    def _show_sides(self) -> None:
        """Hide the sides during a film, which is about the steps."""
        self.sides.setVisible(self._shows_list or self.pictures.mode != "film")

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._ranking = None
            self.show_list()
        if changes.resolution or changes.comparison or changes.recipe or changes.zeros:
            self.refresh()
        if changes.selection:
            self._mark()

    def _mark(self) -> None:
        self.table_widget.mark(lambda name: name == self._workbench.chosen)
        self.grid.choose(self._workbench.chosen)

    def _request_picture(self, subject: ModelSubject) -> None:
        self.sides.offer()
        chosen, before = self._workbench.comparison, self._ranking
        left, right = chosen.state("left"), chosen.state("right")
        if left is None or right is None:
            self._show_message(tr("Computing the masks…"))
            return
        known = before is not None and before.sides == (left, right)
        first = self._workbench.chosen or ""
        if not known:
            self.pictures.take_losses(None)
        elif before is not None and before.losses.is_complete:
            self._show_result(subject, before, self._show)
            return

        def work(monitor: Monitor) -> RankedLosses:
            ranking = before
            if ranking is None or not known:
                earlier = ranking.losses if ranking is not None else None
                resolutions = left.resolution(), right.resolution()
                losses = comparison.state_losses.empty_losses(*resolutions, earlier)
                if ranking is not None and ranking.losses.infos == losses.infos:
                    arrangement = ranking.arrangement
                else:
                    arrangement = Arrangement.of(losses.right.checkpoint.tensors, losses)
                ranking = RankedLosses((left, right), losses, arrangement)
            if not ranking.is_pending:
                return ranking
            budget = statistics.dispatch.read_budget(counted=known)
            losses = comparison.state_losses.compute_losses(ranking.losses, budget, monitor, first)
            return replace(ranking, losses=losses)

        self._run_picture_job(subject, work, self._show)

    def _show(self, ranking: RankedLosses) -> None:
        is_new = self._ranking is None or self._ranking.sides != ranking.sides
        self._ranking = ranking
        losses = ranking.losses
        self.table_widget.show_rows(losses.listed)
        if is_new:
            self.table_widget.scrollToTop()
        self.pictures.take_losses(losses)
        self._recolour()
        self.grid.choose(self._workbench.chosen)
        self.total.setText(total_text(losses))

    def _continue(self) -> None:
        if self.isVisible() and self._ranking is not None and self._ranking.is_pending:
            self._paint_timer.start()

    def picture(self) -> QWidget | None:
        if super().picture() is None:
            return None
        return self.grid if self._shows_list else self.pictures.picture()

    def is_drawn(self) -> bool:
        is_read = self._ranking is not None and not self._ranking.is_pending
        return super().is_drawn() and is_read if self._shows_list else self.pictures.is_drawn()

    def show_selection(self, *, on: bool) -> None:
        self.pictures.show_selection(on=on)

    def caption(self) -> tuple[str, str]:
        if not self._shows_list:
            return self.pictures.caption()
        name, what = super().caption()
        return name, self._workbench.comparison.captioned(what)

    def legend(self) -> str:
        return super().legend() if self._shows_list else self.pictures.legend()

    def table(self) -> Table | None:
        ranking = self._ranking
        if ranking is None or self.picture() is None:
            return None
        name = ranking.losses.right.checkpoint.path.name
        return self.table_widget.as_table(tr("{name} compared", name=name))

    def limit_memory(self, nbytes: int) -> None:
        self.pictures.limit_memory(nbytes)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        is_wide = event.size().width() >= MIN_WIDTH_BESIDE_PX
        directions = Qt.Orientation
        direction = directions.Horizontal if is_wide else directions.Vertical
        if direction != self._halves.orientation():
            self._halves.setOrientation(direction)
            self._halves.setSizes(WIDTHS_PX if is_wide else HEIGHTS_PX)

    def _recolour(self) -> None:
        if self._ranking is not None:
            losses, colours = self._ranking.losses, self.colours()
            arrangement = self._ranking.arrangement
            loss_scale = LossScale.of(losses, arrangement.positions)
            self.grid.show_cells(arrangement, loss_cells(losses, loss_scale, colours), colours)
            self._legend.setText(loss_scale.legend(colours))
            colour = QApplication.palette().link().color().name()
            has_reference = self._workbench.comparison.reference is not None
            self.headline.setText(headline(losses, colour, has_reference=has_reference))


MIN_COLUMN_WIDTH_PX: Final = 48
MIN_NAME_WIDTH_PX: Final = 176
"""Minimum width of the names. Wider tables scroll."""


def loss_cells(losses: StateLosses, loss_scale: LossScale, colours: Colours) -> CellOf:
    """Return a function from names to cells."""
    rows = {name: row for row, name in enumerate(losses)}

    def cell_of(name: str) -> Cell:
        row = rows[name]
        share = float(losses.lost[row])
        if math.isnan(share):
            return Cell(UNDEFINED if losses.measures["known"][row] else UNKNOWN, is_faint=True)
        return Cell(sparsity_share(share), loss_scale.colour(share, colours), is_faint=not share)

    return cell_of


class LossTable(ParameterTable[str]):
    """Shows what every parameter loses, the largest loss first."""

    def __init__(self) -> None:
        widths = {"min_name_px": MIN_NAME_WIDTH_PX, "min_column_px": MIN_COLUMN_WIDTH_PX}
        super().__init__(LOSS_COLUMNS, tr("What every parameter loses"), str, **widths)
        self.horizontalHeader().setSortIndicatorClearable(False)
        self.horizontalHeader().sortIndicatorChanged.connect(self.scrollToTop)

    def show_rows(self, rows: Sequence[str], marked: Callable[[str], bool] | None = None) -> None:
        """Show rows without scrolling: the order changes while weights are read."""
        before = self.verticalScrollBar().value()
        super().show_rows(rows, marked)
        self.verticalScrollBar().setValue(before)
        assert isinstance(rows, StateLosses)
        self.setColumnHidden(ERROR, bool(np.isnan(rows.errors).all()))
        if self.horizontalHeader().sortIndicatorSection() < 0:
            self.sortByColumn(LOST, Qt.SortOrder.DescendingOrder)

    def as_table(self, title: str) -> Table:
        table = self._model.table(title)
        hidden = tr(LOSS_COLUMNS[ERROR].file_title) if self.isColumnHidden(ERROR) else None
        return Table(title, {head: each for head, each in table.columns.items() if head != hidden})

    def _follow_order(self) -> None:
        """Do not scroll, see `show_rows`."""
