"""The log dock."""

from __future__ import annotations

import logging

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication
from view_page import cells

from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.runtime.log_feed import MAX_ENTRIES, LogEntry
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import LIGHT

FAULT = LogEntry("16:20:03", logging.ERROR, "Resolving failed", "Traceback\nZeroDivisionError")
WARNED = LogEntry("16:20:02", logging.WARNING, "Opening: no such file")
NOTE = LogEntry("16:20:01", logging.INFO, "Saved\nit all")


@pytest.fixture
def panel(qtbot, tmp_path):
    made = LogPanel(tmp_path / "prune-gui.log")
    qtbot.addWidget(made)
    made.resize(600, 300)
    made.show()
    return made


def select(panel, row):
    flags = QItemSelectionModel.SelectionFlag
    panel.table.selectionModel().select(
        panel.model.index(row, 0), flags.ClearAndSelect | flags.Rows
    )


def test_the_selected_entry_is_shown_completely_and_can_be_copied(panel, qtbot):
    panel.add((NOTE, FAULT))
    assert not panel.details.isVisible()
    select(panel, 1)
    assert panel.details.isVisible()
    assert panel.details.toPlainText() == FAULT.whole
    panel.table.setFocus()
    panel.activateWindow()
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == FAULT.whole
    panel.table.clearSelection()
    assert not panel.details.isVisible()


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [("All", [NOTE, WARNED, FAULT]), ("Warnings and errors", [WARNED, FAULT]), ("Errors", [FAULT])],
)
def test_only_entries_of_the_chosen_level_are_shown_and_copied(panel, chosen, shown):
    panel.add((NOTE, WARNED))
    panel.level.setCurrentText(chosen)
    panel.add((FAULT,))
    assert cells(panel.table) == [[one.when, one.level_name, one.line] for one in shown]
    panel.copy.click()
    assert QGuiApplication.clipboard().text() == "\n".join(one.whole for one in shown)
    select(panel, 0)
    assert panel.details.toPlainText() == shown[0].whole


def test_the_list_can_be_cleared_and_filled_again(panel):
    panel.add((NOTE, FAULT))
    select(panel, 1)
    panel.clear.click()
    assert cells(panel.table) == []
    assert not panel.details.isVisible()
    panel.add((NOTE,))
    assert cells(panel.table) == [["16:20:01", "Info", NOTE.line]]


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 300, 5 * MAX_ENTRIES])
def test_only_the_last_entries_are_kept(panel, batch):
    entries = [LogEntry("", logging.INFO, str(i)) for i in range(5 * MAX_ENTRIES)]
    for start in range(0, len(entries), batch):
        panel.add(entries[start : start + batch])
    assert list(panel.model.rows) == entries[-MAX_ENTRIES:]
    assert panel.model.rowCount() == MAX_ENTRIES


def test_an_entry_stays_selected_while_others_are_added_and_removed(panel):
    panel.add([NOTE] * (MAX_ENTRIES - 1))
    panel.add([FAULT])
    select(panel, MAX_ENTRIES - 1)
    panel.add([NOTE] * 10)
    assert panel._selected() == [FAULT]


def test_the_list_follows_new_entries_unless_the_user_scrolled_up(panel, qtbot):
    bar = panel.table.verticalScrollBar()
    panel.add([NOTE] * 100)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == bar.maximum()
    bar.setValue(5)
    panel.add([NOTE] * 100)
    assert bar.value() == 5


def test_warnings_have_the_warning_colour_of_the_theme(panel):
    theme = Theme(QApplication.instance(), "light")
    panel.add((NOTE, FAULT))
    role = Qt.ItemDataRole.ForegroundRole
    assert panel.model.index(0, 0).data(role) is None
    assert panel.model.index(1, 0).data(role).name() == LIGHT.warning
    theme.use("dark")
    assert panel.model.index(1, 0).data(role).name() != LIGHT.warning
    theme.deleteLater()


def test_the_log_file_is_named_and_can_be_opened(panel, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    panel.open.click()
    assert opened == [QUrl.fromLocalFile(tmp_path / "prune-gui.log")]
    assert panel.open.toolTip() == str(tmp_path / "prune-gui.log")


def test_the_list_is_scrolled_to_the_end_when_it_is_first_shown(qtbot, tmp_path):
    panel = LogPanel(tmp_path / "prune-gui.log")
    qtbot.addWidget(panel)
    panel.add((NOTE,) * 100)
    panel.resize(600, 300)
    panel.show()
    last = panel.model.index(99, 0)
    assert panel.table.viewport().rect().contains(panel.table.visualRect(last))
