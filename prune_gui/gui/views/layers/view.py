"""All parameters in one picture, above a table of them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QLabel, QWidget

from prune_gui.checkpoint import ModuleNode
from prune_gui.gui.draft.amount_fields import PERCENT_DECIMALS, NumberBox
from prune_gui.gui.views.controls import Choice, note, switch
from prune_gui.gui.views.layers.columns import WARNINGS, describe_node, describe_row
from prune_gui.gui.views.layers.data import FITTING, LayersData, compute_layers
from prune_gui.gui.views.layers.layer_bars import LayerBars
from prune_gui.gui.views.layers.treemap_picture import TreemapPicture
from prune_gui.gui.views.legend_text import legend, share_scale
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import SortableModel, TableView
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.recipe.amounts import amount_for_share, amount_of_target, takes_own_amount
from prune_gui.recipe.recipe import IN_FILE, ZERO
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import AmountRequest, SharesRequest
from prune_gui.session.settings import Settings
from prune_gui.session.subjects import ModelSubject
from prune_gui.table import Table

MAX_COLUMN_SHARE: Final = 0.42  # maximum initial width of a column of text, as a share of the table


class AmountEditor(QWidget):
    """A spin box for the amount, a button that removes it, and one that takes shares over.

    It edits the draft, or without one the last step that targets the parameter.
    """

    wanted = Signal(object)  # (DraftRequest)

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._step: int | None = None
        self._label = QLabel()
        tip = tr("How much the step prunes of the chosen parameter; or drag the end of its bar")
        self._box = layouts.described(NumberBox(), tr("Amount of the chosen parameter"), tip)
        self._box.setKeyboardTracking(False)
        self._label.setBuddy(self._box)
        self._box.valueChanged.connect(self._typed)
        tip = tr("Give the chosen parameter the amount of the step again")
        self._reset = layouts.tool_button(tr("Reset"), lambda: self._want(None), tip)
        tip = tr("Write the share that the step prunes of each parameter into it, to change them")
        self._take = layouts.tool_button(
            tr("Take these shares"), lambda: self.wanted.emit(SharesRequest(self._step)), tip
        )
        parts = (self._label, self._box, self._reset, self._take)
        layouts.row(*parts, of=self, margin=0, gap=GAP_PX)
        self.show_parameter(None, None)

    def show_parameter(self, subject: ModelSubject | None, name: str | None) -> None:
        number = _number_of_step(subject, name) if subject is not None and name else None
        self.setVisible(number is not None)
        if subject is None or name is None or number is None:
            return
        resolution, drafted = subject.resolution, number == subject.draft
        own = takes_own_amount(resolution, number, name)
        self._name, self._step = name, None if drafted else number
        self._label.setText(tr("Draft:") if drafted else tr("Step {number}:", number=number))
        self._box.setVisible(own)
        self._reset.setVisible(own)
        self._take.setVisible(not own)
        if own:
            self._reset.setEnabled(name in resolution.outcomes[number - 1].amounts)
            amount = amount_of_target(resolution, number, name)
            is_share = isinstance(amount, float)
            with QSignalBlocker(self._box):
                self._box.use_share(on=is_share)
                self._box.setValue(100 * amount if is_share else amount)

    def _typed(self, number: float) -> None:
        share = round(min(number / 100, 1.0), PERCENT_DECIMALS + 2)
        self._want(share if self._box.is_share else int(number))

    def _want(self, amount: int | float | None) -> None:
        self.wanted.emit(AmountRequest(self._name, amount, self._step))


class LayersView(View[ModelSubject]):
    """Shows what is pruned of every parameter or module: bars or a treemap, and a table.

    Counts are shown at once. Statistics that need the weights follow in increments.
    """

    lane = "layers"
    spreads = True
    has_table = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, lambda: workbench.model_subject, tr("Layers"))
        self._data: LayersData | None = None
        self._cell_under_cursor: ModuleNode | int | None = None
        self._bars, self._treemap = LayerBars(), TreemapPicture()
        self._bars.can_drag = self._can_drag
        self._pictures = layouts.pages(self._bars, self._treemap)
        self._grouping_box = Choice(tr("What a row is"), [(tr("By parameter"), None)], self.refresh)
        kinds = [(tr("Bars"), 0), (tr("Treemap"), 1)]
        self._picture_box = Choice(tr("Kind of picture"), kinds, self._choose_picture)
        tip = tr("List parameters of fewer than two dimensions even if nothing of them is pruned")
        listed = Settings.load().list_biases
        self._small_box = switch(tr("Biases and norms"), tip, self._list_biases, on=listed)
        self._amount = AmountEditor()
        self._model: SortableModel[Any] = SortableModel((), ())
        self._table = self._make_table()
        splitter = layouts.split(self._pictures, self._table, sizes=(400, 240), vertical=True)
        self._pointed = ElidedLabel(tr("Row under the cursor"))
        self._progress = note(tr("Reading progress"))
        self._progress.setContentsMargins(GAP_PX, 0, 0, 0)
        # The plots keep their height when the amount appears, also during a drag.
        self._pointed.setMinimumHeight(self._amount.sizeHint().height())
        self._lay_out(
            [self._grouping_box, self._picture_box, self._small_box],
            splitter,
            [self._pointed, self._progress, self._amount],
        )
        # Continue after the new state is painted, because the engine's work would delay painting.
        self._paint_timer = self._timer(0, self.refresh)
        self._connect()

    def picture(self) -> QWidget | None:
        return self._pictures.currentWidget() if super().picture() else None

    def table(self) -> Table | None:
        if self._data is None or self.picture() is None:
            return None
        return self._model.table(tr("{name} layers", name=self._data.subject.name))

    def _make_table(self) -> TableView:
        table = TableView(self._model, tr("Parameters"))
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        return table

    def _connect(self) -> None:
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

    def _choose_picture(self) -> None:
        self._pictures.setCurrentIndex(self._picture_box.value)
        self._show_legend()
        self.refresh()

    def _list_biases(self, listed: bool) -> None:
        Settings.update(lambda settings: settings.model_copy(update={"list_biases": listed}))
        self.refresh()

    def _on_changed(self, changes: Changes) -> None:
        session = self._workbench.session
        has_zeros = changes.zeros and session is not None and session.file_zeros.is_noticeable
        if changes.file:
            self.refresh()
        elif changes.resolution or changes.comparison or has_zeros:
            self._paint_timer.start()
        if changes.selection:
            self._mark_chosen()

    def _request_picture(self, subject: ModelSubject) -> None:
        before = self._data
        if before is not None and before.statistics.checkpoint is not subject.resolution.checkpoint:
            before = None
        depth = FITTING if before is None else self._grouping_box.value
        is_treemap = self._pictures.currentWidget() is self._treemap
        size = self._treemap.available_size if is_treemap else None
        biases = self._small_box.isChecked()
        work = partial(compute_layers, subject, before, depth, size, biases=biases)
        self._run_picture_job(subject, work, self._show)

    def _show(self, data: LayersData) -> None:
        before, self._data = self._data, data
        statistics = data.statistics
        if before is not None and before.statistics.checkpoint is not statistics.checkpoint:
            before = None
        if before is None:
            self._offer_depths(data)
            self._cell_under_cursor = None
        self._model.show(data.rows, data.columns)
        self._small_box.setEnabled(data.rows.grouping.depth is None)
        titles = [column.title for column in data.columns]
        if before is None or titles[:4] != [column.title for column in before.columns[:4]]:
            self._fit_columns()
        self._show_order()
        if data.treemap is not None:
            self._treemap.show_map(data.treemap, self.colours())
        self._show_legend()
        self._point_at(self._cell_under_cursor)
        percent = 100 * statistics.progress
        progress = tr("kept energy: {percent:.0f} % of the weights read", percent=percent)
        self._progress.setText("" if statistics.is_complete else progress)

    def _fit_columns(self) -> None:
        limit_px = round(MAX_COLUMN_SHARE * self._table.viewport().width())
        self._table.resizeColumnToContents(0)
        names_px = self._table.columnWidth(0)  # texts of other columns are known later
        for section, column in enumerate(self._model.columns):
            if column.width_px is None:
                self._table.resizeColumnToContents(section)
            else:
                self._table.setColumnWidth(section, min(column.width_px, limit_px))
        self._table.setColumnWidth(0, min(names_px, self._table.columnWidth(0)))
        header = self._table.horizontalHeader()
        room = self._table.viewport().width() - header.sectionPosition(WARNINGS)
        if header.sectionSizeHint(WARNINGS) <= room < header.sectionSize(WARNINGS):
            self._table.setColumnWidth(WARNINGS, room)

    def _continue_reading(self) -> None:
        data = self._data
        if self.picture() is not None and data is not None and data.statistics.is_pending:
            self._settle_timer.start()

    def _offer_depths(self, data: LayersData) -> None:
        depths = range(1, data.depths + 1)
        modules = [(tr("By module, depth {depth}", depth=depth), depth) for depth in depths]
        self._grouping_box.offer([(tr("By parameter"), None), *modules])
        self._grouping_box.choose(data.rows.grouping.depth)

    def _show_order(self) -> None:
        data = self._data
        if data is not None:
            order, draft = self._model.order, data.subject.draft
            self._bars.show_rows(data.bar_rows, data.names, order, draft, self.colours())
            self._mark_chosen()

    def _show_legend(self) -> None:
        if self._pictures.currentWidget() is self._treemap:
            self._legend.setText(share_scale(tr("sparsity"), self.colours()))
        elif self._data is not None:
            data = self._data
            self._legend.setText(legend(data.subject, self.colours(), zeros=data.zeros))

    def show_selection(self, *, on: bool) -> None:
        self._treemap.choose(self._workbench.chosen if on else None)
        self._bars.show_mark(on=on)

    def _mark_chosen(self) -> None:
        row = self._chosen_row()
        position = None if row is None else self._model.position_of(row)
        self._treemap.choose(self._workbench.chosen)
        self._bars.choose(position)
        subject = self._data.subject if self._data else None
        self._amount.show_parameter(subject, self._workbench.chosen)
        if position is None:
            self._table.clearSelection()
        else:
            self._table.selectRow(position)

    def _chosen_row(self) -> int | None:
        data, name = self._data, self._workbench.chosen
        names = list(data.statistics.resolution.counts) if data else []
        if data is None or name not in names:
            return None
        row = int(data.rows.grouping.places[names.index(name)])
        return row if row >= 0 else None

    def _choose_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if self._data is None or not current.isValid():
            return
        row = int(self._model.order[current.row()])
        if row != self._chosen_row():
            self._workbench.choose(self._data.rows.infos[row].name)

    def _point_at(self, cell: ModuleNode | int | None) -> None:
        self._cell_under_cursor = cell
        data, text = self._data, ""
        if data is not None and isinstance(cell, int) and 0 <= cell < len(self._model.order):
            text = describe_row(data.rows, int(self._model.order[cell]), data.subject.title)
        elif data is not None and cell is not None and not isinstance(cell, int):
            text = describe_node(cell, data.subject.resolution)
        self._pointed.say(text)

    def _can_drag(self, row: int, code: int) -> bool:
        data = self._data
        if data is None or data.rows.size[row] > 1 or code in (IN_FILE, ZERO):
            return False
        return takes_own_amount(data.subject.resolution, code, data.rows.infos[row].name)

    def _drag(self, row: int, code: int, share: float) -> None:
        assert self._data is not None
        subject, name = self._data.subject, self._data.rows.infos[row].name
        self._workbench.choose(name)
        amount = amount_for_share(subject.resolution, code, name, share)
        step = None if code == subject.draft else code
        self._request_draft(AmountRequest(name, amount, step))


def _number_of_step(subject: ModelSubject, name: str) -> int | None:
    outcomes = subject.resolution.outcomes
    if subject.draft is not None:
        return subject.draft if name in outcomes[subject.draft - 1].pruned else None
    numbers = (i for i in range(len(outcomes), 0, -1) if name in outcomes[i - 1].pruned)
    return next(numbers, None)
