"""Export of pictures and tables by the actions of the window."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import pyqtgraph as pg
import pytest
from pages import is_idle
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPalette
from PySide6.QtWidgets import QApplication, QMenu

from prune_gui.gui import export
from prune_gui.gui.dialogs import questions
from prune_gui.gui.export import MARGIN, Page, image_of, png_of, svg_of
from prune_gui.gui.views import registry
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.view import View
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.session import Settings


@pytest.fixture
def pruned(demo_window, workbench, make_step, settle, qtbot):
    """A window with the demo and one step, showing the second convolution."""
    workbench.choose("features.conv2.weight")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    settle()
    return demo_window


@pytest.fixture
def look_at(pruned, qtbot):
    """Return a function that shows a view and waits for its picture."""

    def bring(view: View) -> View:
        pruned.views._tabs.setCurrentWidget(view)
        bench = pruned.workbench
        qtbot.waitUntil(lambda: view.picture() is not None and is_idle(bench), timeout=60_000)
        return view

    return bring


@pytest.fixture
def failures(workbench):
    found = []
    workbench.failed.disconnect()
    workbench.failed.connect(lambda tried, error: found.append((tried, str(error))))
    return found


VIEWS = pytest.mark.parametrize("name", [spec.key for spec in registry.VIEWS])


@pytest.mark.slow
@VIEWS
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_every_picture_is_saved_with_its_title(
    pruned, look_at, name, suffix, tmp_path, monkeypatch
):
    view = look_at(pruned.views.view(name))
    path = tmp_path / f"picture.{suffix}"
    suggested = []
    monkeypatch.setattr(
        questions, "ask_picture_target", lambda _, wish: suggested.append(wish) or (path, 2)
    )
    pruned.menu_actions["save_picture"].trigger()
    title, what = view.caption()
    assert suggested[0].suffix == ".png"
    assert suggested[0].name.startswith(f"{title}_{what.partition(':')[0].lower()}")
    if suffix == "svg":
        assert title in "".join(ET.fromstring(path.read_bytes()).itertext())
    else:
        image = QImage(str(path))
        assert image.width() > 2 * view.picture().width()
        assert image.text("Title") == title
    assert list(tmp_path.iterdir()) == [path]


def base(view):
    return view.palette().color(QPalette.ColorRole.Base).name()


@pytest.fixture
def dark(pruned):
    pruned.commands.preferences.change("theme", "dark")
    QGuiApplication.clipboard().clear()
    yield pruned
    pruned.commands.preferences.change("theme", "light")


def test_a_picture_is_exported_on_white_in_the_dark_theme(dark, look_at, qtbot):
    view = look_at(dark.views.view("mask"))
    dark.menu_actions["copy_picture"].trigger()
    mime = QGuiApplication.clipboard().mimeData()
    assert QImage(mime.imageData()).pixelColor(1, 1) == QColor(DARK.background)
    assert ET.fromstring(bytes(mime.data("image/svg+xml").data())) is not None
    assert dark.status._note.text() == "Copied the picture"
    dark.menu_actions["white_pictures"].trigger()
    assert Settings.load().white_pictures
    QGuiApplication.clipboard().clear()
    dark.menu_actions["copy_picture"].trigger()
    qtbot.waitUntil(lambda: not QGuiApplication.clipboard().image().isNull(), timeout=60_000)
    image = QGuiApplication.clipboard().image()
    shades = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(0, 700, 5)}
    assert image.pixelColor(1, 1) == QColor(LIGHT.background)
    assert LIGHT.steps[0] in shades
    assert not {DARK.background, DARK.kept, DARK.steps[0]} & shades
    assert base(view) == DARK.background


def test_a_cancelled_export_on_white_restores_the_dark_view(dark, look_at, qtbot, monkeypatch):
    view, bridge = look_at(dark.views.view("norms")), dark.workbench.bridge
    dark.menu_actions["white_pictures"].trigger()
    submit = bridge._engine.submit

    def submit_and_cancel(job):
        ticket = submit(job)
        bridge.cancel(ticket)
        return ticket

    with monkeypatch.context() as patch:
        patch.setattr(bridge._engine, "submit", submit_and_cancel)
        dark.menu_actions["copy_picture"].trigger()
        assert base(view) == LIGHT.background
        qtbot.waitUntil(lambda: base(view) == DARK.background, timeout=60_000)
    assert QGuiApplication.clipboard().image().isNull()


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
    monkeypatch.setattr(questions, "ask_picture_target", lambda *_: (nowhere / "a.png", 1))
    pruned.menu_actions["save_table"].trigger()
    pruned.menu_actions["save_picture"].trigger()
    assert [tried for tried, _ in failures] == ["Saving the table", "Saving the picture"]
    assert all(str(nowhere) in text for _, text in failures)


def test_nothing_is_written_if_the_file_dialog_is_cancelled(pruned, look_at, monkeypatch, tmp_path):
    look_at(pruned.views.view("norms"))
    monkeypatch.setattr(questions, "ask_target", lambda *_: None)
    monkeypatch.setattr(questions, "ask_picture_target", lambda *_: None)
    monkeypatch.setattr(export, "write_documents", lambda *_: pytest.fail("written"))
    pruned.menu_actions["save_table"].trigger()
    pruned.menu_actions["save_picture"].trigger()


def test_special_characters_in_a_file_name_are_replaced():
    assert export._file_name("a/b\\c: d.weight mask") == "a_b_c__d.weight_mask"
    assert len(export._file_name("x" * 500)) == export.MAX_NAME_CHARS


BARS = "#123456"
LEGEND = '<span style="color: #d5690b">■</span> step 1: 7 &lt; 8'


@pytest.fixture
def plot(qtbot):
    made = Plot()
    made.recolour(LIGHT)
    made.addItem(pg.BarGraphItem(x0=[0, 1], x1=[0.9, 1.9], height=[1, 2], pen=None, brush=BARS))
    made.resize(400, 300)
    qtbot.addWidget(made)
    with qtbot.waitExposed(made):
        made.show()
    return made


@pytest.fixture
def page(plot):
    return Page(plot, "layer.<0>.weight", "Norms & more: 2 channels", LEGEND, LIGHT)


def share(image, colour):
    across, down = range(image.width()), range(image.height())
    pixels = [image.pixelColor(x, y).name() for x in across for y in down]
    return pixels.count(colour) / len(pixels)


def inked(image, top, bottom):
    """Return whether the rows between two heights contain anything but the background."""
    colours = {
        image.pixelColor(x, y).name() for x in range(image.width()) for y in range(top, bottom)
    }
    return colours - {LIGHT.background} != set()


def test_a_png_has_the_picture_between_title_and_legend(page, plot):
    image = QImage.fromData(png_of(page))
    assert image.size() == page.size
    assert image.width() == plot.width() + 2 * MARGIN
    assert image.height() > plot.height() + 2 * MARGIN
    head = replace(page, legend="").size.height() - plot.height() - 2 * MARGIN
    assert inked(image, MARGIN, MARGIN + head)
    assert inked(image, MARGIN + head + plot.height(), image.height() - MARGIN)
    assert not inked(image, 0, MARGIN // 2)
    assert share(image, BARS) > 0.2
    assert image.text("Title") == "layer.<0>.weight"


def test_a_scale_of_2_renders_at_twice_the_resolution(page):
    once, twice = image_of(page), QImage.fromData(png_of(page, 2))
    assert twice.size() == 2 * page.size
    assert share(twice, BARS) == pytest.approx(share(once, BARS), rel=0.05)
    assert twice != once.scaled(twice.size())


def test_an_svg_has_vector_graphics_and_text_without_images(page):
    root = ET.fromstring(svg_of(page))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    texts = "".join(root.itertext())
    assert root[0].text == "layer.<0>.weight"
    assert texts.count("layer.<0>.weight") == 2
    assert "Norms & more: 2 channels" in texts
    assert "step 1: 7 < 8" in texts
    assert "image" not in tags
    assert any(element.get("fill") == BARS for element in root.iter())
    box = [float(number) for number in root.get("viewBox").split()]
    assert QSize(int(box[2]), int(box[3])) == page.size
