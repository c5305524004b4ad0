"""The dock with the log of this run of the program."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QGuiApplication,
    QKeySequence,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QTreeView,
    QWidget,
)

from prune_gui.gui.dialogs import questions
from prune_gui.gui.runtime.log_feed import MAX_ENTRIES, LogEntry
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.table_widgets import Index, RecordModel, text_column
from prune_gui.gui.widgets.theme import GAP_PX, colours
from prune_gui.language import deferred, tr
from prune_gui.table import Column, record_column

COLUMNS: Final[tuple[Column[Sequence[LogEntry]], ...]] = (
    text_column(deferred("Time"), lambda entry: entry.when),
    text_column(deferred("Level"), lambda entry: entry.level_name),
    record_column(
        deferred("Message"), lambda entry: entry.line, lambda entry: entry.whole, is_number=False
    ),
)
LEVELS: Final = {
    logging.NOTSET: deferred("All"),
    logging.WARNING: deferred("Warnings and errors"),
    logging.ERROR: deferred("Errors"),
}
"""Minimum levels that the user can choose."""


class LogModel(RecordModel[LogEntry]):
    """The entries at or above a level among the last `MAX_ENTRIES` entries, oldest first."""

    def __init__(self) -> None:
        super().__init__(COLUMNS)
        self._all_entries: deque[LogEntry] = deque(maxlen=MAX_ENTRIES)
        self._level = logging.NOTSET

    def add(self, records: Sequence[LogEntry]) -> None:
        self._all_entries.extend(records)
        added = self._of_level(records[-MAX_ENTRIES:])
        excess = len(self.rows) + len(added) - len(self._of_level(self._all_entries))
        if excess > 0:
            self.remove(0, excess)
        super().add(added)

    def show_from(self, level: int) -> None:
        self._level = level
        self.show(self._of_level(self._all_entries))

    def clear(self) -> None:
        self._all_entries.clear()
        self.show(())

    def _of_level(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        return [entry for entry in entries if entry.level >= self._level]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401
        if role != Qt.ItemDataRole.ForegroundRole:
            return super().data(index, role)
        if self.rows[index.row()].level >= logging.WARNING:
            return QColor(colours(QApplication.palette()).warning)
        return None


class LogPanel(QWidget):
    """A table of log entries; the selected ones are shown below with their details."""

    def __init__(self, log_file: Path) -> None:
        super().__init__()
        self._log_file = log_file
        self.model = LogModel()
        table = QTreeView(rootIsDecorated=False, uniformRowHeights=True)
        self.table = layouts.described(table, tr("Log of the program"))
        self.table.setModel(self.model)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.table.setAlternatingRowColors(True)
        sample = self.table.fontMetrics().horizontalAdvance("Warning")
        for section in range(len(COLUMNS) - 1):
            self.table.setColumnWidth(section, 2 * sample)
        details = QPlainTextEdit(readOnly=True, tabChangesFocus=True)
        self.details = layouts.described(details, tr("Details of the record"))
        self.details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.details.hide()
        parts = layouts.split(self.table, self.details, vertical=True)
        layouts.column((parts, 1), self._make_buttons(), of=self, margin=GAP_PX)
        self.table.selectionModel().selectionChanged.connect(self._show_details)
        # A reset clears the selection without a signal.
        self.model.modelReset.connect(self._show_details)
        keys = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.table)
        keys.setContext(Qt.ShortcutContext.WidgetShortcut)
        keys.activated.connect(self._copy)

    def add(self, entries: Sequence[LogEntry]) -> None:
        bar = self.table.verticalScrollBar()
        follows = bar.value() == bar.maximum()
        self.model.add(entries)
        if follows:
            self.table.scrollToBottom()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Scroll to the end: a hidden table does not scroll."""
        super().showEvent(event)
        self.table.scrollToBottom()

    def _make_buttons(self) -> QHBoxLayout:
        tip = tr("The complete log file, with earlier sessions")
        path = layouts.described(QLineEdit(str(self._log_file), readOnly=True), tr("Log file"), tip)
        path.setCursorPosition(0)
        name, tip = tr("Records to show"), tr("Which records to show")
        self.level = layouts.described(QComboBox(), name, tip)
        for level, title in LEVELS.items():
            self.level.addItem(tr(title), level)
        self.level.currentIndexChanged.connect(self._filter)
        self.open = layouts.button(tr("Open log file"), self._open, str(self._log_file))
        self.copy = layouts.button(
            tr("Copy"),
            self._copy,
            tr("Copy the selected records with their details, or all that are shown"),
        )
        self.clear = layouts.button(
            tr("Clear"), self.model.clear, tr("Clear the list; the log file is not changed")
        )
        return layouts.row((path, 1), self.level, self.open, self.copy, self.clear)

    def _selected(self) -> list[LogEntry]:
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return [self.model.rows[row] for row in rows]

    def _filter(self) -> None:
        self.model.show_from(self.level.currentData())
        self.table.scrollToBottom()

    def _show_details(self) -> None:
        selected = self._selected()
        self.details.setPlainText("\n\n".join(entry.whole for entry in selected))
        self.details.setVisible(bool(selected))

    def _copy(self) -> None:
        entries = self._selected() or self.model.rows
        QGuiApplication.clipboard().setText("\n".join(entry.whole for entry in entries))

    def _open(self) -> None:
        questions.open_outside(self, QUrl.fromLocalFile(self._log_file))
