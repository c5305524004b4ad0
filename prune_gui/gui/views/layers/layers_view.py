"""All parameters in one picture, beside a table of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLabel,
    QSplitter,
    QStackedWidget,
    QTableView,
    QWidget,
)

from prune_gui.gui.views.layers.columns import (
    ENERGY,
    NAME,
    PARAMETERS,
    SPARSITY,
    WARNINGS,
    Column,
    columns_of,
    describe_node,
    describe_row,
    table_of,
)
from prune_gui.gui.views.layers.layer_bars import MOST_BARS, LayerBars
from prune_gui.gui.views.layers.model import CellDelegate, LayersModel
from prune_gui.gui.views.layers.model_subject import ModelSubject, model_subject
from prune_gui.gui.views.layers.treemap_picture import Map, TreemapPicture, make_map
from prune_gui.gui.views.view import SETTLE, ViewOf
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.statistics.layer_rows import Rows
    from prune_gui.audit.statistics.layers import LayerStatistics
    from prune_gui.audit.table import Table
    from prune_gui.checkpoint import ModuleNode, TensorInfo
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

TURN: Final = 0.15
"""Seconds of reading before the picture is brought up to date, and others have their turn."""
SMALL: Final = 1 << 24
"""Bytes of the largest parameter that may be read before the counts are shown."""
WIDTHS: Final = {NAME: 280, SPARSITY: 72, ENERGY: 96, PARAMETERS: 92, WARNINGS: 180}
"""In pixels."""
FITTING: Final[Literal["fitting"]] = "fitting"
"""In place of a depth: the deepest at which there is a bar for every row."""


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What is shown.

    Attributes:
        subject: what it was found of.
        statistics: what is known of the parameters.
        rows: the same as rows.
        columns: of the table.
        treemap: None if it is not looked at.
        depths: how deep the modules go.
    """

    subject: ModelSubject
    statistics: LayerStatistics
    rows: Rows
    columns: tuple[Column, ...]
    treemap: Map | None
    depths: int


class LayersView(ViewOf[ModelSubject]):
    """What is pruned of every parameter, or module: as bars or as a treemap, over a table.

    What is counted shows at once; what has to be read follows bit by bit.
    """

    lane = "layers"
    has_table = True

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName(tr("Layers"))
        self._found: Found | None = None
        self._under: ModuleNode | int | None = None
        self._by, self._kind = ElidedComboBox(), ElidedComboBox()
        self._by.setAccessibleName(tr("What a row is"))
        self._kind.setAccessibleName(tr("Kind of picture"))
        self._by.addItem(tr("By parameter"), None)
        self._kind.addItems([tr("Bars"), tr("Treemap")])
        self._bars, self._treemap = LayerBars(), TreemapPicture()
        self._pictures = QStackedWidget()
        self._pictures.addWidget(self._bars)
        self._pictures.addWidget(self._treemap)
        self._model = LayersModel(self)
        self._table = self._make_table()
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self._pictures)
        splitter.addWidget(self._table)
        splitter.setSizes([400, 240])
        splitter.setChildrenCollapsible(False)
        self._pointed, self._progress = ElidedLabel(tr("Row under the cursor")), QLabel()
        self._progress.setAccessibleName(tr("How much has been read"))
        self._progress.setContentsMargins(12, 0, 0, 0)
        self._lay_out([self._by, self._kind], splitter, [self._pointed, self._progress])
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self.refresh)
        # Behind the painting of what is new, which the engine's work would slow.
        self._painted = QTimer(self, singleShot=True, interval=0)
        self._painted.timeout.connect(self.refresh)
        self._connect()
        self._recolour()

    def picture(self) -> QWidget | None:
        """Return the bars or the treemap, without the table; None while there is nothing."""
        shown = super().picture()
        return self._pictures.currentWidget() if shown else None

    def caption(self) -> tuple[str, str]:
        """Return the name of the file, and what the picture shows of it."""
        name, what = super().caption()
        if self._found is None:
            return name, what
        return name, tr("{what}: {facts}", what=what, facts=self._found.subject.facts())

    def table(self) -> Table | None:
        """Return the rows in the order in which they are shown."""
        if self._found is None or self.picture() is None:
            return None
        title = tr("{name} layers", name=self._found.subject.name)
        return table_of(self._found.rows, self._model.order, title)

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self._model)
        table.setItemDelegate(CellDelegate(self._model))
        table.setAccessibleName(tr("Parameters"))
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setAlternatingRowColors(True)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.setTabKeyNavigation(False)
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 6)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        table.setSortingEnabled(True)
        return table

    def _connect(self) -> None:
        self._by.currentIndexChanged.connect(self.refresh)
        self._kind.currentIndexChanged.connect(self._pictures.setCurrentIndex)
        self._kind.currentIndexChanged.connect(self._show_legend)
        self._kind.currentIndexChanged.connect(self.refresh)
        self._model.layoutChanged.connect(self._show_order)
        self._table.selectionModel().currentRowChanged.connect(self._choose_row)
        self._bars.pointed.connect(self._point_at)
        self._bars.clicked.connect(self._table.selectRow)
        self._treemap.pointed.connect(self._point_at)
        self._treemap.clicked.connect(lambda node: self._workbench.choose(node.tensors[0].name))
        self._treemap.resized.connect(self._settled.start)
        self._workbench.chosen_changed.connect(self._mark_chosen)
        self.pictured.connect(self._go_on)

    def _find(self) -> ModelSubject | str:
        return model_subject(self._workbench)

    def _follow(self) -> None:
        self._painted.start()

    def _look(self, subject: ModelSubject) -> None:
        before = self._found
        if before is not None and before.statistics.checkpoint is not subject.resolution.checkpoint:
            before = None
        depth = FITTING if before is None else self._by.currentData()
        room = self._treemap.room if self._pictures.currentWidget() is self._treemap else None
        self._picture(
            subject,
            lambda monitor: find(subject, before, depth, room, monitor),
            self._show,
        )

    def _show(self, found: Found) -> None:
        before, self._found = self._found, found
        if before is None or before.statistics.checkpoint is not found.statistics.checkpoint:
            self._offer_depths(found)
            self._under = None
        self._model.show(found.rows.names, found.columns)
        if before is None:
            for column, width in WIDTHS.items():
                self._table.setColumnWidth(column, width)
        self._show_order()
        if found.treemap is not None:
            self._treemap.show_map(found.treemap, self.colours())
        self._show_legend()
        self._point_at(self._under)
        known = tr(
            "kept energy: {percent:.0f} % of the weights read",
            percent=100 * found.statistics.progress,
        )
        self._progress.setText("" if found.statistics.is_complete else known)

    def _go_on(self) -> None:
        """Have more of the weights read."""
        found = self._found
        if self.picture() is not None and found is not None and not found.statistics.is_complete:
            self._settled.start()

    def _offer_depths(self, found: Found) -> None:
        with QSignalBlocker(self._by):
            while self._by.count() > 1:
                self._by.removeItem(1)
            for depth in range(1, found.depths + 1):
                self._by.addItem(tr("By module, depth {depth}", depth=depth), depth)
            self._by.setCurrentIndex(self._by.findData(found.rows.grouping.depth))

    def _show_order(self) -> None:
        """Bring the bars into the order of the table."""
        found = self._found
        if found is not None:
            draft = found.subject.draft
            self._bars.show_rows(found.rows, self._model.order, draft, self.colours())
            self._mark_chosen()

    def _show_legend(self) -> None:
        """Name the colours of the bars; the treemap has a scale of its own."""
        found, bars = self._found, self._pictures.currentWidget() is self._bars
        self._legend.setVisible(bars)
        if found is not None and bars:
            self._legend.show_subject(found.subject, self.colours())
        else:
            self._legend.clear()

    def _mark_chosen(self) -> None:
        """Show in the table and in the pictures which parameter the other views show."""
        row = self._chosen_row()
        self._treemap.choose(self._workbench.chosen)
        self._bars.choose(None if row is None else self._model.place_of(row))
        if row is not None:
            self._table.selectRow(self._model.place_of(row))

    def _chosen_row(self) -> int | None:
        found, name = self._found, self._workbench.chosen
        if found is None or name is None or name not in found.statistics.resolution.counts:
            return None
        place = list(found.statistics.resolution.counts).index(name)
        return int(found.rows.grouping.places[place])

    def _choose_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if self._found is None or not current.isValid():
            return
        row = int(self._model.order[current.row()])
        if row != self._chosen_row():
            self._workbench.choose(self._found.rows.infos[row].name)

    def _point_at(self, under: ModuleNode | int | None) -> None:
        """Tell of what is under the cursor: a cell of the treemap, a place among the bars."""
        self._under = under
        found = self._found
        if found is None or under is None:
            self._pointed.say("")
        elif not isinstance(under, int):
            self._pointed.say(describe_node(under, found.subject.resolution))
        elif 0 <= under < len(self._model.order):
            row = int(self._model.order[under])
            self._pointed.say(describe_row(found.rows, row, found.subject.title))
        else:
            self._pointed.say("")

    def _recolour(self) -> None:
        self._bars.recolour(self.colours())

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settled.stop()
        self._painted.stop()


def a_turn(*, counted: bool) -> Callable[[TensorInfo], bool]:
    """Return what tells whether there is time to read a parameter; for one at least, if `counted`.

    Args:
        counted: whether what is counted is shown already; it is not to wait for a large parameter.
    """
    end = time.monotonic() + TURN
    return lambda info: time.monotonic() < end and (counted or info.nbytes <= SMALL)


def find(
    subject: ModelSubject,
    before: Found | None,
    depth: int | Literal["fitting"] | None,
    room: tuple[float, float] | None,
    monitor: Monitor,
) -> Found:
    """Find out what there is to show, as far as a while of reading goes.

    Args:
        subject: what is pruned.
        before: about the same file, or None.
        depth: of the modules that are rows; see `grouping`.
        room: for a treemap; None to make none.
        monitor: told of the bytes read.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.statistics.layer_rows import (
        deepest,
        fitting,
        grouping,
        measured_anew,
        rows_of,
    )
    from prune_gui.audit.statistics.layers import compute, empty_statistics

    resolution = subject.resolution
    known = before.statistics if before else None
    counted = known is not None and known.resolution is resolution
    statistics = known if known is not None and counted else empty_statistics(resolution, known)
    if not statistics.is_complete:
        statistics = compute(statistics, a_turn(counted=counted), monitor)
    if depth == FITTING:
        depth = fitting(statistics.infos, MOST_BARS)
    groups = before.rows.grouping if before else None
    if groups is None or groups.depth != depth:
        groups = grouping(statistics.infos, depth)
    if before is not None and counted and before.rows.grouping is groups:
        rows = measured_anew(before.rows, statistics)
    else:
        rows = rows_of(statistics, groups)
    return Found(
        subject,
        statistics,
        rows,
        columns_of(rows, subject.draft),
        make_map(statistics.infos, resolution, room, before.treemap if before else None)
        if room
        else None,
        before.depths if before else deepest(statistics.infos),
    )
