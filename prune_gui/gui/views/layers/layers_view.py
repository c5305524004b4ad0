"""All parameters in one picture, above a table of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QLabel,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from prune_gui.audit.view_data.layer_columns import columns_of, describe_node, describe_row
from prune_gui.audit.view_data.model_subject import ModelSubject
from prune_gui.audit.view_data.zero_columns import zero_columns
from prune_gui.gui.views.layers.amount_editor import AmountEditor
from prune_gui.gui.views.layers.layer_bars import MAX_BARS, LayerBars
from prune_gui.gui.views.layers.treemap_picture import TreemapData, TreemapPicture, make_treemap
from prune_gui.gui.views.view import SETTLE_MS, View
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel
from prune_gui.gui.widgets.table_widgets import SortableModel, TableView
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.language import tr
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.recipe.target_amounts import amount_for_share, takes_own_amount
from prune_gui.session.draft_request import AmountRequest
from prune_gui.session.settings import Settings
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.checkpoint import ModuleNode
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.session.changes import Changes
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics
    from prune_gui.table import Table

MAX_COLUMN_SHARE: Final = 0.42
"""Maximum initial width of a column of text, as a share of the table."""
FITTING: Final[Literal["fitting"]] = "fitting"
"""Stands in for a depth: the largest depth at which every row has its own bar."""


@dataclass(frozen=True, eq=False, slots=True)
class LayersData:
    """The content of the view.

    Attributes:
        subject: all parameters and their resolution.
        statistics: statistics of the parameters, as far as they are computed.
        rows: the statistics as rows.
        columns: columns of the table on the screen and in files.
        treemap: None if the treemap is not shown.
        depths: maximum depth of the modules.
    """

    subject: ModelSubject
    statistics: LayerStatistics
    rows: Rows
    columns: tuple[Column[Rows], ...]
    treemap: TreemapData | None
    depths: int


class LayersView(View[ModelSubject]):
    """Shows what is pruned of every parameter or module: bars or a treemap, and a table.

    Counts are shown at once. Statistics that need the weights follow in increments.
    """

    lane = "layers"
    spreads = True
    has_table = True

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, lambda: workbench.model_subject, parent)
        self.setAccessibleName(tr("Layers"))
        self._found: LayersData | None = None
        self._cell_under_cursor: ModuleNode | int | None = None
        self._grouping_box, self._picture_box = ElidedComboBox(), ElidedComboBox()
        self._grouping_box.setAccessibleName(tr("What a row is"))
        self._picture_box.setAccessibleName(tr("Kind of picture"))
        self._grouping_box.addItem(tr("By parameter"), None)
        self._picture_box.addItems([tr("Bars"), tr("Treemap")])
        self._small_box = QCheckBox(tr("Biases and norms"))
        self._small_box.setToolTip(
            tr("List parameters of fewer than two dimensions even if nothing of them is pruned")
        )
        self._small_box.setChecked(Settings.load().list_biases)
        self._bars, self._treemap = LayerBars(), TreemapPicture()
        self._bars.can_drag = self._can_drag
        self._amount = AmountEditor()
        self._pictures = QStackedWidget()
        self._pictures.addWidget(self._bars)
        self._pictures.addWidget(self._treemap)
        self._model: SortableModel[Any] = SortableModel((), (), self)
        self._table = self._make_table()
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self._pictures)
        splitter.addWidget(self._table)
        splitter.setSizes([400, 240])
        splitter.setChildrenCollapsible(False)
        self._pointed, self._progress = ElidedLabel(tr("Row under the cursor")), QLabel()
        self._progress.setAccessibleName(tr("Reading progress"))
        self._progress.setContentsMargins(GAP_PX, 0, 0, 0)
        # The plots keep their height when the amount appears, also during a drag.
        self._pointed.setMinimumHeight(self._amount.sizeHint().height())
        self._lay_out(
            [self._grouping_box, self._picture_box, self._small_box],
            splitter,
            [self._pointed, self._progress, self._amount],
        )
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle_timer.timeout.connect(self.refresh)
        # Continue after the new state is painted, because the engine's work would delay painting.
        self._paint_timer = QTimer(self, singleShot=True, interval=0)
        self._paint_timer.timeout.connect(self.refresh)
        self._connect()
        self._recolour()

    def picture(self) -> QWidget | None:
        """Return the bars or the treemap, without the table; None if nothing is shown."""
        shown = super().picture()
        return self._pictures.currentWidget() if shown else None

    def table(self) -> Table | None:
        """Return the rows in the order on the screen."""
        if self._found is None or self.picture() is None:
            return None
        return self._model.table(tr("{name} layers", name=self._found.subject.name))

    def _make_table(self) -> TableView:
        table = TableView(self._model, tr("Parameters"))
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        header = table.horizontalHeader()
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        table.setSortingEnabled(True)
        return table

    def _connect(self) -> None:
        self._grouping_box.currentIndexChanged.connect(self.refresh)
        self._small_box.toggled.connect(self._remember_biases)
        self._small_box.toggled.connect(self.refresh)
        self._picture_box.currentIndexChanged.connect(self._pictures.setCurrentIndex)
        self._picture_box.currentIndexChanged.connect(self._show_legend)
        self._picture_box.currentIndexChanged.connect(self.refresh)
        self._model.layoutChanged.connect(self._show_order)
        self._table.selectionModel().currentRowChanged.connect(self._choose_row)
        self._bars.pointed.connect(self._point_at)
        self._bars.clicked.connect(self._table.selectRow)
        self._bars.dragged.connect(self._drag)
        self._amount.wanted.connect(self._request_draft)
        self._treemap.pointed.connect(self._point_at)
        self._treemap.clicked.connect(lambda node: self._workbench.choose(node.tensors[0].name))
        self._treemap.resized.connect(self._settle_timer.start)
        self.pictured.connect(self._continue_reading)

    def _remember_biases(self, listed: bool) -> None:
        Settings.update(lambda settings: settings.model_copy(update={"list_biases": listed}))

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.refresh()
        elif changes.resolution or (changes.zeros and self._has_zeros()):
            self._paint_timer.start()
        if changes.selection:
            self._mark_chosen()

    def _has_zeros(self) -> bool:
        """Return whether the zeros in the file have columns."""
        session = self._workbench.session
        return session is not None and session.file_zeros.noticeable() > 0

    def _request_picture(self, subject: ModelSubject) -> None:
        before = self._found
        if before is not None and before.statistics.checkpoint is not subject.resolution.checkpoint:
            before = None
        depth = FITTING if before is None else self._grouping_box.currentData()
        size = (
            self._treemap.available_size
            if self._pictures.currentWidget() is self._treemap
            else None
        )
        biases = self._small_box.isChecked()
        self._run_picture_job(
            subject,
            lambda monitor: compute_layers(subject, before, depth, size, monitor, biases=biases),
            self._show,
        )

    def _show(self, layers_data: LayersData) -> None:
        before, self._found = self._found, layers_data
        checkpoint = layers_data.statistics.checkpoint
        if before is not None and before.statistics.checkpoint is not checkpoint:
            before = None
        if before is None:
            self._offer_depths(layers_data)
            self._cell_under_cursor = None
        self._model.show(layers_data.rows, layers_data.columns)
        self._small_box.setEnabled(layers_data.rows.grouping.depth is None)
        titles = [column.title for column in layers_data.columns]
        if before is None or titles[:4] != [column.title for column in before.columns[:4]]:
            self._fit_columns()
        self._show_order()
        if layers_data.treemap is not None:
            self._treemap.show_map(layers_data.treemap, self.colours())
        self._show_legend()
        self._point_at(self._cell_under_cursor)
        previous = tr(
            "kept energy: {percent:.0f} % of the weights read",
            percent=100 * layers_data.statistics.progress,
        )
        self._progress.setText("" if layers_data.statistics.is_complete else previous)

    def _fit_columns(self) -> None:
        """Fit the columns of numbers to their texts, beside columns of texts that leave space."""
        for section, column in enumerate(self._model.columns):
            if column.width_px is None:
                self._table.resizeColumnToContents(section)
            else:
                limit_px = round(MAX_COLUMN_SHARE * self._table.viewport().width())
                self._table.setColumnWidth(section, min(column.width_px, limit_px))

    def _continue_reading(self) -> None:
        """Continue reading weights."""
        layers_data = self._found
        if (
            self.picture() is not None
            and layers_data is not None
            and layers_data.statistics.is_pending
        ):
            self._settle_timer.start()

    def _offer_depths(self, layers_data: LayersData) -> None:
        with QSignalBlocker(self._grouping_box):
            while self._grouping_box.count() > 1:
                self._grouping_box.removeItem(1)
            for depth in range(1, layers_data.depths + 1):
                self._grouping_box.addItem(tr("By module, depth {depth}", depth=depth), depth)
            self._grouping_box.setCurrentIndex(
                self._grouping_box.findData(layers_data.rows.grouping.depth)
            )

    def _show_order(self) -> None:
        """Show the bars in the order of the table."""
        layers_data = self._found
        if layers_data is not None:
            draft = layers_data.subject.draft
            self._bars.show_rows(layers_data.rows, self._model.order, draft, self.colours())
            self._mark_chosen()

    def _show_legend(self) -> None:
        """Show the colours of the bars; the treemap has its own scale."""
        layers_data, bars = self._found, self._pictures.currentWidget() is self._bars
        self._legend.setVisible(bars)
        if layers_data is not None and bars:
            self._legend.show_subject(layers_data.subject, self.colours())
        else:
            self._legend.clear()

    def _mark_chosen(self) -> None:
        """Mark the chosen parameter in the table and in the pictures."""
        row = self._chosen_row()
        self._treemap.choose(self._workbench.chosen)
        self._bars.choose(None if row is None else self._model.position_of(row))
        subject = self._found.subject if self._found is not None else None
        self._amount.show_parameter(subject, self._workbench.chosen)
        if row is None:
            self._table.clearSelection()
        else:
            self._table.selectRow(self._model.position_of(row))

    def _chosen_row(self) -> int | None:
        layers_data, name = self._found, self._workbench.chosen
        if (
            layers_data is None
            or name is None
            or name not in layers_data.statistics.resolution.counts
        ):
            return None
        place = list(layers_data.statistics.resolution.counts).index(name)
        row = int(layers_data.rows.grouping.places[place])
        return row if row >= 0 else None

    def _choose_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if self._found is None or not current.isValid():
            return
        row = int(self._model.order[current.row()])
        if row != self._chosen_row():
            self._workbench.choose(self._found.rows.infos[row].name)

    def _point_at(self, cell: ModuleNode | int | None) -> None:
        """Describe what is under the cursor: a treemap cell, or a position among the bars."""
        self._cell_under_cursor = cell
        layers_data = self._found
        if layers_data is None or cell is None:
            self._pointed.say("")
        elif not isinstance(cell, int):
            self._pointed.say(describe_node(cell, layers_data.subject.resolution))
        elif 0 <= cell < len(self._model.order):
            row = int(self._model.order[cell])
            self._pointed.say(describe_row(layers_data.rows, row, layers_data.subject.title))
        else:
            self._pointed.say("")

    def _can_drag(self, row: int, code: int) -> bool:
        """Return whether the end of a segment sets the amount of one parameter in a step."""
        found = self._found
        if found is None or found.rows.size[row] > 1 or code == IN_FILE:
            return False
        return takes_own_amount(found.subject.resolution, code, found.rows.infos[row].name)

    def _drag(self, row: int, code: int, share: float) -> None:
        """Let the draft, or a step, which then becomes the draft, prune a share of a parameter."""
        assert self._found is not None
        subject, name = self._found.subject, self._found.rows.infos[row].name
        self._workbench.choose(name)
        amount = amount_for_share(subject.resolution, code, name, share)
        step = None if code == subject.draft else code
        self._request_draft(AmountRequest(name, amount, step))

    def _recolour(self) -> None:
        self._bars.recolour(self.colours())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timers."""
        super().hideEvent(event)
        self._settle_timer.stop()
        self._paint_timer.stop()


def compute_layers(
    subject: ModelSubject,
    before: LayersData | None,
    depth: int | Literal["fitting"] | None,
    size: tuple[float, float] | None,
    monitor: Monitor,
    *,
    biases: bool,
) -> LayersData:
    """Compute the content of the view, as far as the read budget allows.

    Args:
        size: width and height of the treemap in pixels; None for no treemap.
        monitor: receives the number of bytes read.
    """
    from prune_gui.statistics.dispatch import read_budget
    from prune_gui.statistics.layer_rows import (  # torch: slow to import
        deepest,
        fitting,
        grouping,
        listed_parameters,
        rows_of,
        updated_rows,
    )
    from prune_gui.statistics.layer_statistics import (  # torch: slow to import
        compute,
        empty_statistics,
    )

    resolution = subject.resolution
    previous = before.statistics if before else None
    counted = previous is not None and previous.resolution is resolution
    statistics = (
        previous if previous is not None and counted else empty_statistics(resolution, previous)
    )
    if statistics.is_pending:
        statistics = compute(statistics, read_budget(counted=counted), monitor)
    infos = statistics.infos
    included = np.full(len(infos), fill_value=True)
    if not biases:
        included = listed_parameters(infos, resolution)
    if depth == FITTING:
        depth = fitting([infos[place] for place in np.flatnonzero(included)], MAX_BARS)
    groups = before.rows.grouping if before else None
    if (
        groups is None
        or groups.depth != depth
        or (depth is None and not np.array_equal(groups.places >= 0, included))
    ):
        groups = grouping(infos, depth, included)
    if before is not None and counted and before.rows.grouping is groups:
        rows = updated_rows(before.rows, statistics)
    else:
        rows = rows_of(statistics, groups)
    return LayersData(
        subject,
        statistics,
        rows,
        columns_of(rows, subject.draft, zero_columns(subject.file_zeros, rows, statistics.infos)),
        make_treemap(statistics.infos, resolution, size, before.treemap if before else None)
        if size
        else None,
        before.depths if before else deepest(statistics.infos),
    )
