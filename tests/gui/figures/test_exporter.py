"""Export of pictures and tables by the actions of the window."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree as ET

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QMenu

from prune_gui.gui.dialogs import questions
from prune_gui.gui.figures import exporter
from prune_gui.gui.figures.data import MAX_NAME_CHARS, file_name
from prune_gui.raster.colours import DARK


@pytest.fixture
def failures(workbench):
    found = []
    workbench.failed.disconnect()
    workbench.failed.connect(lambda tried, error: found.append((tried, str(error))))
    return found


@pytest.fixture
def dark(pruned):
    pruned.commands.preferences.change("theme", "dark")
    QGuiApplication.clipboard().clear()
    yield pruned
    pruned.commands.preferences.change("theme", "light")


def test_a_view_is_copied_in_its_colours_as_an_image_and_as_svg(dark, look_at, qtbot):
    look_at(dark.views.view("mask"))
    dark.menu_actions["copy_picture"].trigger()
    qtbot.waitUntil(lambda: dark.status._note.text() == "Copied the picture")
    mime = QGuiApplication.clipboard().mimeData()
    assert QImage(mime.imageData()).pixelColor(1, 1) == QColor(DARK.background)
    assert ET.fromstring(bytes(mime.data("image/svg+xml").data())) is not None


def read(text, separator=","):
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))


def saved_table(window, tmp_path, monkeypatch, action="save_table"):
    path = tmp_path / "table.csv"
    monkeypatch.setattr(questions, "ask_target", lambda *_: path)
    window.menu_actions[action].trigger()
    return read(path.read_bytes().decode())


def test_the_bins_are_saved_exactly(pruned, look_at, tmp_path, monkeypatch):
    view = look_at(pruned.views.view("distribution"))
    found = view._data
    lines = saved_table(pruned, tmp_path, monkeypatch)
    assert [float(line["from"]) for line in lines] == found.edges[:-1].tolist()
    assert [float(line["to"]) for line in lines] == found.edges[1:].tolist()
    counts = [[int(line[title]) for line in lines] for title in list(lines[0])[2:]]
    assert counts == found.counts.tolist()
    assert list(lines[0])[2:] == ["kept", "step 1: L1 unstructured"]


def test_the_channels_are_saved_in_the_shown_order(pruned, look_at, tmp_path, monkeypatch):
    view = look_at(pruned.views.view("norms"))
    view._sorted.click()
    look_at(view)
    lines = saved_table(pruned, tmp_path, monkeypatch)
    norms = [float(line["2-norm"]) for line in lines]
    assert norms == sorted(view._row.measured.norms.tolist())
    assert [int(line["channel"]) for line in lines] == view._row.order.tolist()
    assert {line["dead"] for line in lines} == {"False"}


def test_the_shown_parameters_of_the_tree_are_saved(pruned, tmp_path, monkeypatch):
    pruned.tree.filter.setText("conv")
    lines = saved_table(pruned, tmp_path, monkeypatch, "save_modules")
    assert [line["name"] for line in lines] == [f"features.conv{i}.weight" for i in (1, 2, 3)]
    counts = pruned.workbench.shown.counts
    for line in lines:
        assert (int(line["pruned"]), int(line["entries"])) == counts[line["name"]]
    assert lines[0]["shape"] == "16 x 1 x 3 x 3"
    pruned.tree.filter.clear()
    assert len(list(pruned.tree.table().rows)) == 22


def test_a_table_is_copied_as_cells_and_as_csv(pruned, look_at):
    view = look_at(pruned.views.view("layers"))
    pruned.menu_actions["copy_table"].trigger()
    mime = QGuiApplication.clipboard().mimeData()
    cells = read(mime.text(), "\t")
    assert cells == read(bytes(mime.data("text/csv").data()).decode())
    assert len(cells) == len(list(view.table().rows))
    assert pruned.status._note.text() == "Copied the table"


def test_export_actions_are_disabled_without_a_picture_or_table(window, pruned, look_at):
    look_at(pruned.views.view("mask"))
    assert pruned.menu_actions["copy_picture"].isEnabled()
    assert not pruned.menu_actions["save_table"].isEnabled()
    look_at(pruned.views.view("norms"))
    assert pruned.menu_actions["save_table"].isEnabled()
    pruned.workbench.choose("features.bn1.num_batches_tracked")
    assert not pruned.menu_actions["copy_picture"].isEnabled()
    assert not pruned.menu_actions["save_table"].isEnabled()


def test_every_view_and_the_tree_have_a_context_menu_with_the_export_actions(pruned, qtbot):
    for view in pruned.views._views.values():
        assert view.contextMenuPolicy() == Qt.ContextMenuPolicy.ActionsContextMenu
        assert pruned.menu_actions["copy_picture"] in view.actions()
        assert pruned.menu_actions["save_table"] in view.actions()
    pruned.tree.tree.clearSelection()
    pruned.tree._show_menu(QPoint(5, 5))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    assert pruned.menu_actions["save_modules"] in menu.actions()
    menu.close()


def test_a_failed_write_is_one_clear_message(pruned, look_at, failures, tmp_path, monkeypatch):
    look_at(pruned.views.view("norms"))
    nowhere = tmp_path / "no folder"
    monkeypatch.setattr(questions, "ask_target", lambda *_: nowhere / "a.csv")
    pruned.menu_actions["save_table"].trigger()
    assert [tried for tried, _ in failures] == ["Saving the table"]
    assert all(str(nowhere) in text for _, text in failures)


def test_nothing_is_written_if_the_file_dialog_is_cancelled(pruned, look_at, monkeypatch):
    look_at(pruned.views.view("norms"))
    monkeypatch.setattr(questions, "ask_target", lambda *_: None)
    monkeypatch.setattr(exporter, "write_documents", lambda *_: pytest.fail("written"))
    pruned.menu_actions["save_table"].trigger()


def test_special_characters_in_a_file_name_are_replaced():
    assert file_name("a/b\\c: d.weight mask") == "a_b_c__d.weight_mask"
    assert len(file_name("x" * 500)) == MAX_NAME_CHARS
