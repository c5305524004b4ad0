"""The panel of the module tree, with its filter and its grouping."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPoint,
    QSignalBlocker,
    Qt,
    Signal,
)
from PySide6.QtGui import QAction, QGuiApplication, QIcon, QKeyEvent
from PySide6.QtWidgets import QLabel, QLineEdit, QMenu, QWidget

from prune_gui.checkpoint.named_code import runs_programs
from prune_gui.engine import Job
from prune_gui.errors import RecipeError, one_line
from prune_gui.gui.dialogs.questions import show_remarks
from prune_gui.gui.draft.targets_field import ConditionCompleter, conditions_help
from prune_gui.gui.formatting import wrapped
from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel, number_of
from prune_gui.gui.modules.tree_view import ModuleTree
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, icon, set_icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.selector import MAX_PATTERN_CHARS
from prune_gui.session import Session
from prune_gui.session.changes import Changes
from prune_gui.session.module_index import Outline
from prune_gui.session.space_outline import SpaceOutline
from prune_gui.table import Table

INITIAL_ROWS_LIMIT: Final = 40  # limit of the rows that are shown after opening a checkpoint
FILTERED_ROWS_LIMIT: Final = 200  # limit of the rows that are shown after filtering


class TreePanel(QWidget):
    """A filter above the module tree."""

    selected = Signal(object)  # (names) without a selection, the parameters of the whole checkpoint
    targeted = Signal(object)  # (names) the user wants these as the targets of the draft

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._model = TreeModel(self)
        self._grouping = TreeGrouping(workbench, self._model, self._arrange)
        self._selected: list[int] = []  # numbers of nodes
        self._selecting = False
        self._open_before_filter: list[int] | None = None  # numbers of nodes

        tip = tr(
            "Part of a name, or a glob for the whole name  (Ctrl+F)\n"
            "{conditions}\nEnter or Down goes to the first match.",
            conditions=conditions_help(),
        )
        line = QLineEdit(clearButtonEnabled=True, maxLength=MAX_PATTERN_CHARS)
        line.setPlaceholderText(tr("Filter: query, *.bias, type:Linear"))
        name = tr("Filter modules and parameters by name")
        self.filter = layouts.described(line, name, tip)
        self.filter.setAcceptDrops(False)  # the window handles dropped files
        leading = QLineEdit.ActionPosition.LeadingPosition
        set_icon(self.filter.addAction(QIcon(), leading), "filter")
        self.filter.textChanged.connect(self._filter)
        self.filter.returnPressed.connect(self._go_to_first_match)
        self.filter.installEventFilter(self)
        self._found = QLabel(wordWrap=True)
        self._found.setContentsMargins(TIGHT_PX, 0, TIGHT_PX, 0)
        self._found.hide()
        tip = tr("Biases, norms and embeddings are left out, unless the filter matches only such")
        self._use_found = layouts.tool_button("", self.target_matches, tip, icon="add")
        self._use_found.hide()
        self._found.setMinimumHeight(self._use_found.sizeHint().height())
        ConditionCompleter(self.filter, workbench, r"[\s!]", self._found)
        self.tree = ModuleTree(self._model)
        self.tree.selection.selectionChanged.connect(self._select)
        self.tree.customContextMenuRequested.connect(self._show_menu)
        self._remarks = layouts.tool_button("", self._show_remarks, icon="warning", flat=True)
        self._remarks.hide()

        found = layouts.row((self._found, 1), self._use_found)
        layouts.column(self.filter, found, self.tree, self._remarks, of=self, margin=GAP_PX)
        workbench.changed.connect(self._on_changed)

    def offer(self, actions: Sequence[QAction]) -> None:
        self.tree.addActions(actions)

    def group_by(self, by: GroupBy) -> None:
        self._grouping.group_by(by)

    def table(self) -> Table:
        file = self._workbench.opened.checkpoint.path.name
        return self._model.table(tr("{file} modules", file=file))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        pressed = watched is self.filter and event.type() == QEvent.Type.KeyPress
        if pressed and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Down:
            self._go_to_first_match()
            return True
        return super().eventFilter(watched, event)

    def _on_changed(self, changes: Changes) -> None:
        bench, session = self._workbench, self._workbench.session
        if changes.file:
            self._opened()
        if changes.recipe and session is not None:
            self._model.protect(session.protected)
        if changes.resolution and bench.shown is not None:
            self._model.count(bench.shown.counts)
        if (changes.zeros or changes.resolution) and session is not None:
            self._model.show_zeros(session.file_zeros, wanted=bench.unpruned_zeros > 0)
        if changes.selection:
            self._model.emphasize(self._workbench.chosen)
            if not self._selecting:
                self._reveal(self._workbench.chosen)
        self._grouping.follow(changes)

    def _opened(self) -> None:
        session = self._workbench.opened
        self._selected = []
        self._open_before_filter = None
        with QSignalBlocker(self.filter):
            self.filter.clear()
        self._found.hide()
        self._offer_matches(0)
        checkpoint, remarks = session.checkpoint, session.remarks
        self.tree.header().setToolTip(one_line(checkpoint.description))
        text = trn("{count:,} remark on this file", "{count:,} remarks on this file", len(remarks))
        if checkpoint.foreign:
            text = _opened_text(checkpoint.foreign, len(remarks) - 1)
        self._remarks.setText(text)
        self._remarks.setToolTip("\n\n".join(map(wrapped, remarks)))
        self._remarks.setVisible(bool(remarks))
        self._model.show(session.module_index)
        self._open_rows(INITIAL_ROWS_LIMIT)
        wanted = self._model.selected_parameters([QModelIndex()])
        most_targeted = session.most_targeted
        self._choose_first(wanted if most_targeted is None else frozenset({most_targeted}))
        self.selected.emit(wanted)

    def _choose_first(self, names: frozenset[str], group: CoupledGroup | None = None) -> None:
        """Choose the first of some parameters in the order of the file."""
        tensors = self._workbench.opened.checkpoint.tensors
        self._workbench.choose(next((name for name in tensors if name in names), None), group)

    def _reveal(self, name: str | None) -> None:
        """Scroll to the parameter that the views show; the selection stays."""
        if name is not None and self._model.node(self.tree.currentIndex()).path == name:
            return  # the tree may have several rows of it
        index = self._model.find(name) if name is not None else QModelIndex()
        if index.isValid():
            self.tree.selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)

    def _show_remarks(self) -> None:
        session = self._workbench.opened
        show_remarks(self, session.checkpoint.path.name, session.remarks)

    @property
    def prunable_selection(self) -> frozenset[str]:
        return self._model.prunable_below(self.tree.selection.rows())

    def toggle_protection(self) -> None:
        """Protect the selected parameters; if all of them are protected, remove the protection."""
        session, names = self._workbench.session, self.prunable_selection
        if session is not None and names:
            on = not names <= session.protected
            self._workbench.edit(lambda session: session.protect(names, on=on))

    def _filter(self, text: str) -> None:
        try:
            if not self._model.module_index.is_quick(text):
                self._filter_later(text)
                return
        except RecipeError as error:  # while a condition is being typed
            self._found.setText(str(error))
            self._found.show()
            self._offer_matches(0)
            return
        if self._open_before_filter is None:
            self._open_before_filter = list(self._open_nodes())
        selection = self.tree.selection
        selection.blockSignals(True)  # parameters that are filtered out stay selected
        shown, everything = self._model.filter(text)
        if text.strip():
            found = tr("{shown:,} of {count:,}", shown=shown, count=everything)
            self._found.setText(found)
            self._open_rows(FILTERED_ROWS_LIMIT)
        else:
            for number in self._open_before_filter:
                self.tree.expand(self._model.index_of(number))
            self._open_before_filter = None
        self._found.setVisible(bool(text.strip()))
        self._offer_matches(self._model.count_matches() if text.strip() else 0)
        self._select_rows(self._model.index_of(number) for number in self._selected)
        selection.blockSignals(False)
        self.tree.viewport().update()

    def _select_rows(self, indexes: Iterable[QModelIndex]) -> None:
        for index in indexes:
            if index.isValid():
                self.tree.selection.select(index, QItemSelectionModel.SelectionFlag.Select)

    def _arrange(self, outline: Outline) -> None:
        """Show the parameters below other nodes. Selected parameters stay selected."""
        nodes = [self._model.outline[number].node for number in self._selected]
        is_filtered = bool(self.filter.text().strip())
        self.tree.selection.blockSignals(True)
        self._model.arrange(outline)
        self._open_before_filter = [] if is_filtered else None
        self._open_rows(FILTERED_ROWS_LIMIT if is_filtered else INITIAL_ROWS_LIMIT)
        self._select_rows(self._model.find(node.path) for node in nodes if node.tensor)
        self._reveal(self._workbench.chosen)
        self.tree.selection.blockSignals(False)
        self._select()

    def _filter_later(self, text: str) -> None:
        """Filter after the engine has computed what the conditions need."""
        module_index = self._model.module_index

        def then(_: None) -> None:
            if module_index is self._model.module_index:
                self._filter(self.filter.text())

        self._workbench.bridge.run_job(
            "filter", lambda _: module_index.load_condition_values(text), then
        )

    def target_matches(self) -> None:
        self.targeted.emit(self._model.selected_parameters([QModelIndex()]))

    def _offer_matches(self, count: int) -> None:
        text = trn("Use this {count:,} as the target", "Use these {count:,} as targets", count)
        self._use_found.setText(text)
        self._use_found.setVisible(count > 0)

    def _go_to_first_match(self) -> None:
        """Give the focus to the tree, at the first parameter that it shows."""
        index = self._model.index(0, TreeColumn.NAME)
        while self._model.hasChildren(index):
            index = self._model.index(0, TreeColumn.NAME, index)
        if index.isValid():
            self.tree.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.tree.setCurrentIndex(index)

    def _select(self) -> None:
        self._selecting = True
        rows = self.tree.selection.rows()
        nodes = [self._model.node(row) for row in rows]
        self._selected = list(map(number_of, rows))
        parameters = [node.tensor for node in nodes if node.tensor and not node.below]
        group = self._grouping.group_of(number_of(self.tree.currentIndex()))
        meant = self._parameters_of(rows)
        if parameters:
            current = self._model.node(self.tree.currentIndex()).tensor
            shown = current if current in parameters else parameters[-1]
            assert shown is not None
            self._workbench.choose(shown.name, group)
        elif rows and self._workbench.chosen in meant:
            self._workbench.choose(self._workbench.chosen, group)
        elif rows:
            self._choose_first(meant, group)
        self._selecting = False
        self.selected.emit(meant)

    def _parameters_of(self, rows: list[QModelIndex]) -> frozenset[str]:
        """Return the parameters that selected rows stand for.

        No rows, or exactly all top modules, stand for all that is shown. Embeddings count only if
        they are selected alone.
        """
        tops = [row for row in rows if not row.parent().isValid() and self._model.node(row).below]
        whole = len(rows) in (0, self._model.rowCount()) and len(tops) == len(rows)
        return self._model.selected_parameters([QModelIndex()] if whole else rows)

    def _open_rows(self, limit: int) -> None:
        """Expand modules breadth-first while at most `limit` rows are shown."""
        waiting, shown = deque([QModelIndex()]), 0
        while waiting:
            module = waiting.popleft()
            rows = self._model.rowCount(module)
            shown += rows
            if module.isValid():
                if shown > limit:
                    break
                self.tree.expand(module)
            children = (self._model.index(row, TreeColumn.NAME, module) for row in range(rows))
            waiting.extend(child for child in children if self._model.hasChildren(child))

    def _open_nodes(self) -> Iterator[int]:
        waiting = deque([QModelIndex()])
        while waiting:
            module = waiting.popleft()
            for row in range(self._model.rowCount(module)):
                child = self._model.index(row, TreeColumn.NAME, module)
                if self.tree.isExpanded(child):
                    yield number_of(child)
                    waiting.append(child)

    def _show_menu(self, at: QPoint) -> None:
        menu = QMenu(self)
        if rows := self.tree.selection.rows():
            self._offer_selected(menu, rows)
            menu.addSeparator()
        menu.addActions(self.tree.actions())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.tree.viewport().mapToGlobal(at))

    def _offer_selected(self, menu: QMenu, rows: list[QModelIndex]) -> None:
        names, meant = [self._model.node(row).path for row in rows], self._parameters_of(rows)
        targets = menu.addAction(icon("add"), tr("Choose as &targets"))
        targets.setEnabled(bool(meant))
        targets.triggered.connect(lambda: self.targeted.emit(meant))
        session, chosen = self._workbench.session, self.prunable_selection
        protect = menu.addAction(icon("lock"), tr("&Protect from pruning"))
        protect.setCheckable(True)
        protect.setChecked(session is not None and bool(chosen) and chosen <= session.protected)
        protect.setEnabled(bool(chosen))
        protect.triggered.connect(self.toggle_protection)
        copy = menu.addAction(trn("&Copy name", "&Copy names", len(names)))
        copy.triggered.connect(lambda: QGuiApplication.clipboard().setText("\n".join(names)))


def _opened_text(foreign: Sequence[str], more: int) -> str:
    runs = runs_programs(foreign)
    text = tr("Names code that runs programs") if runs else tr("Opened without running its code")
    return tr("{first} (and {more:,} more)", first=text, more=more) if more else text


GroupBy = Literal["module", "space"]
PrunedUnits = dict[int, list[int]]
"""By the number of the node of a space, the number of pruned units of each of its groups."""


@dataclass(eq=False)
class TreeGrouping:
    """Groups the tree by modules or by spaces of units, and counts pruned units."""

    _workbench: Workbench
    _model: TreeModel
    _arrange: Callable[[Outline], None]
    _by: GroupBy = "module"
    _table: Path | None = None
    _ticket: int | None = None

    def group_by(self, by: GroupBy) -> None:
        if by != self._by:
            self._by = by
            self._update()

    def group_of(self, number: int) -> CoupledGroup | None:
        outline = self._model.outline
        return outline.group_of(number) if isinstance(outline, SpaceOutline) else None

    def follow(self, changes: Changes) -> None:
        session = self._workbench.session
        if session is None or self._by == "module":
            return
        if changes.file or (changes.recipe and session.recipe.table_path != self._table):
            self._update()
        elif changes.resolution:
            self._count_units()

    def _update(self) -> None:
        session = self._workbench.session
        if session is None:
            return
        if self._by == "module":
            self._show(session, session.module_index)
            return
        self._table = session.recipe.table_path
        find = partial(SpaceOutline.of, session.checkpoint, self._table, session.module_index)

        def failed(error: BaseException) -> None:
            self._show(session, session.module_index)
            self._workbench.noted.emit(str(error))

        title = deferred("Looking for units in {name}", name=session.checkpoint.path.name)
        job = Job(title, lambda _: find(), lane="tree.spaces", long=True)
        self._workbench.bridge.run(job, partial(self._show_spaces, session), failed)

    def _show_spaces(self, session: Session, found: SpaceOutline) -> None:
        if self._by == "module":
            return
        if any(space.groups for space in found.spaces):
            self._show(session, found)
            self._count_units()
        else:
            self._show(session, session.module_index)
            name = session.checkpoint.path.name
            note = tr("The tree is grouped by module: no units are known in {name}.", name=name)
            self._workbench.noted.emit(note)

    def _show(self, session: Session, outline: Outline) -> None:
        if session is self._workbench.session and outline is not self._model.outline:
            self._arrange(outline)

    def _count_units(self) -> None:
        """Count the pruned units of each group; the engine may have to read tensors for it."""
        outline, resolution = self._model.outline, self._workbench.shown
        if not isinstance(outline, SpaceOutline) or resolution is None:
            return
        spaces = enumerate(outline.spaces, start=1)
        groups_of = {n: space.groups for n, space in spaces if self._model.has_pruned(n)}

        def work(monitor: Monitor) -> PrunedUnits:
            # torch: slow to import
            from prune_gui.recipe.compaction.network import removable_units

            return {
                number: [int(one.sum()) for one in removable_units(resolution, groups, monitor)]
                for number, groups in groups_of.items()
            }

        def then(found: PrunedUnits) -> None:
            if ticket == self._ticket and outline is self._model.outline:
                self._model.show_pruned_units(_by_node(outline, found))

        title = deferred("Counting pruned units")
        job = Job(title, work, lane="tree.units", long=True)
        # A view that cannot read the file says so.
        ticket = self._ticket = self._workbench.bridge.run(job, then, lambda _: None)


def _by_node(outline: SpaceOutline, found: PrunedUnits) -> dict[int, int]:
    numbers = {}
    for space, counts in found.items():
        if any(counts):
            numbers[space] = sum(counts)
            numbers.update(zip(outline.group_numbers(space), counts, strict=True))
    return numbers
