"""The overview in the tabs of a window, by mouse and keyboard."""

import json

import pytest
import torch
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel
from safetensors.torch import load_file, save_file

from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.thumbnail import Shading
from prune_gui.gui.views.overview.view import CardPanel
from prune_gui.raster.colours import DARK, LIGHT

BLOCKS = 80  # too many to be all in sight
ROLES = ("attention.query", "attention.key", "output.dense")


@pytest.fixture
def checkpoint(tmp_path):
    random = torch.Generator().manual_seed(0)
    path = tmp_path / "blocks.safetensors"
    tensors = {
        f"layer.{i}.{role}.weight": torch.randn(12, 12, generator=random)
        for i in range(BLOCKS)
        for role in ROLES
    }
    save_file(tensors | {"head.weight": torch.ones(20, 4), "head.bias": torch.ones(4)}, path)
    return path


@pytest.fixture
def tabs(bench, checkpoint, shown):
    made = shown(ViewTabs(bench))
    made.resize(500, 500)
    bench.open_and_choose(checkpoint, "layer.0.attention.query.weight")
    return made


@pytest.fixture
def view(tabs):
    return tabs.view("overview")


@pytest.fixture
def grid(view):
    return view.findChild(BlockGrid)


@pytest.fixture
def prune(bench):
    def add(**fields):
        bench.add(bench.step(amount=0.5, **{"targets": ["layer.0.*"], **fields}))

    return add


def test_the_errors_of_a_reconstructed_file_can_be_shown(bench, checkpoint, view, grid, tmp_path):
    box = view.findChild(Choice)
    assert Shading.ERROR not in [value for _, value in box.items]
    name = "layer.0.attention.query.weight"
    blocks = [{"layers": [{"name": name, "error": 0.25}]}]
    metadata = {"prune_gui.version": "1", "prune_gui.reconstruction": json.dumps(blocks)}
    path = tmp_path / "reconstructed.safetensors"
    save_file(load_file(checkpoint), path, metadata)
    bench.open_and_choose(path, name)
    box.setCurrentIndex(box.count() - 1)
    assert box.value == Shading.ERROR
    bench.until_idle()
    assert grid.painter.cell_of(name).text == "25.0 %"
    assert grid.painter.cell_of("layer.1.attention.query.weight").text == ""


def dark_palette():
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Base, QColor(DARK.background))
    return palette


def at(grid, name):
    return grid.rect_of(name).center().toPoint()


def shades(grid):
    image = grid.viewport().grab().toImage()
    return {
        image.pixelColor(x, y).name()
        for x in range(0, image.width(), 2)
        for y in range(0, image.height(), 2)
    }


def test_a_checkpoint_opens_on_the_overview_of_all_its_parameters(tabs, view, grid):
    assert tabs.current is view
    assert view._data.pictures.keys() == tabs._workbench.session.checkpoint.tensors.keys() - {
        "head.bias"
    }
    assert len(grid.painter.arrangement.sections[0].rows) == BLOCKS


def test_another_checkpoint_opens_on_the_overview_but_a_reload_keeps_the_view(
    tabs, bench, checkpoint
):
    tabs.bring_forward("norms")
    bench.until_idle()
    bench.files.reload()
    bench.until_idle()
    assert tabs.current is tabs.view("norms")
    bench.files.open(checkpoint)
    bench.until_idle()
    assert tabs.current is tabs.view("overview")


def test_a_click_opens_the_parameter_in_the_mask(tabs, bench, grid):
    name = "layer.2.output.dense.weight"
    QTest.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert tabs.current is tabs.view("overview")
    QTest.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, pos=at(grid, name))
    bench.until_idle()
    assert bench.chosen == name
    assert tabs.current is tabs.view("mask")


def test_arrows_choose_a_parameter_and_enter_opens_it(tabs, bench, grid):
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Right)
    QTest.keyClick(grid, Qt.Key.Key_Down)
    assert bench.chosen == "layer.1.attention.key.weight"
    QTest.keyClick(grid, Qt.Key.Key_End)
    assert bench.chosen == "layer.1.output.dense.weight"
    assert tabs.current is tabs.view("overview")
    QTest.keyClick(grid, Qt.Key.Key_Return)
    assert tabs.current is tabs.view("mask")
    bench.until_idle()


def test_the_chosen_parameter_scrolls_into_sight(bench, grid):
    area = grid.viewport().rect()
    for name in (f"layer.{BLOCKS - 1}.output.dense.weight", "layer.0.attention.query.weight"):
        bench.choose(name)
        assert area.contains(grid.rect_of(name).toRect())


def test_headings_stay_in_sight_when_scrolled(bench, grid):
    def heading():
        height = grid.painter.layout.placed[0].heading
        return grid.viewport().grab().toImage().copy(0, 0, 300, height - 6)

    top = heading()
    grid.verticalScrollBar().setValue(200)
    assert grid.verticalScrollBar().value() == 200
    assert heading() == top


def test_biases_and_norms_are_shown_on_request(view, bench):
    assert "head.bias" not in view._data.pictures
    view.findChild(QCheckBox).click()
    bench.until_idle()
    assert "head.bias" in view._data.pictures


def test_magnitudes_are_shown_until_something_is_pruned_unless_the_user_chose(view, bench, prune):
    box = view.findChild(QComboBox)
    assert box.currentData() == Shading.MAGNITUDE
    assert "relative to the matrix" in view.legend()
    prune(targets=["layer.*"])
    bench.until_idle()
    assert box.currentData() == Shading.STEP
    box.setCurrentIndex(box.findData(Shading.MAGNITUDE))
    prune(targets=["layer.1.*"])
    bench.until_idle()
    assert box.currentData() == Shading.MAGNITUDE


def test_headings_and_a_dragged_rectangle_choose_the_targets_of_the_draft(view, bench, grid):
    wanted = []
    bench.draft_wanted.connect(lambda request: wanted.append(sorted(request.names)))
    heads = {head.text: head for head in grid.painter.all_heads(grid.visible)}

    def click(text, *modifiers):
        where = (heads[text].area.center() - grid.visible.topLeft()).toPoint()
        QTest.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, *modifiers, pos=where)

    click("q")
    assert wanted.pop() == sorted(f"layer.{i}.attention.query.weight" for i in range(BLOCKS))
    click("2")
    assert wanted.pop() == sorted(f"layer.2.{role}.weight" for role in ROLES)
    first, last = (at(grid, f"layer.{i}.{r}.weight") for i, r in ((1, ROLES[0]), (2, ROLES[1])))
    QTest.mousePress(grid.viewport(), Qt.MouseButton.LeftButton, pos=first)
    QTest.mouseMove(grid.viewport(), last)
    QTest.mouseRelease(grid.viewport(), Qt.MouseButton.LeftButton, pos=last)
    dragged = [f"layer.{i}.{role}.weight" for i in (1, 2) for role in sorted(ROLES[:2])]
    assert wanted.pop() == dragged
    bench.draft_step(bench.step(targets=["layer.2.*"], amount=0.5))
    click("2", Qt.KeyboardModifier.ControlModifier)
    assert not wanted  # no targets would be left
    click("3", Qt.KeyboardModifier.ControlModifier)
    assert wanted.pop() == sorted(f"layer.{i}.{role}.weight" for i in (2, 3) for role in ROLES)
    bench.choose("layer.5.output.dense.weight")
    QTest.keyClick(grid, Qt.Key.Key_Space, Qt.KeyboardModifier.ShiftModifier)
    assert wanted.pop() == sorted(f"layer.5.{role}.weight" for role in ROLES)
    assert not wanted


def test_cells_show_targets_of_the_draft_protection_and_patterns(view, bench, grid):
    bench.session.protect({"layer.1.output.dense.weight"}, on=True)
    bench.add(bench.step("n_m", targets=["layer.2.*"]))
    bench.draft_step(bench.step(targets=["layer.3.*"], amount=0.5))
    cell = grid.painter.cell_of
    assert cell("layer.1.output.dense.weight").is_locked
    assert cell("layer.2.output.dense.weight").badge == "2:4"
    assert cell("layer.3.output.dense.weight").outline == LIGHT.draft
    assert cell("layer.0.output.dense.weight")[5:] == ("", False, "")


@pytest.mark.parametrize("shading", [Shading.DENSITY, Shading.ENERGY])
def test_another_shading_has_a_scale(view, bench, prune, shading):
    prune(targets=["layer.*"])
    box = view.findChild(QComboBox)
    box.setCurrentIndex(box.findData(shading))
    bench.until_idle()
    assert LIGHT.scale[0] in view.legend()
    assert {one.style.shading for one in view._data.pictures.values()} == {shading}


def test_the_theme_applies_to_the_thumbnails(view, bench, grid):
    view.setPalette(dark_palette())
    bench.until_idle()
    assert DARK.background in shades(grid)
    assert {one.style.colours for one in view._data.pictures.values()} == {DARK}


def test_a_tool_tip_describes_a_parameter(grid):
    tip = grid.tip_of("layer.1.output.dense.weight")
    assert "layer.1.output.dense.weight" in tip
    assert "12 \N{MULTIPLICATION SIGN} 12" in tip


def test_the_card_leads_to_a_parameter(tabs, view, bench, prune):
    prune(targets=["layer.3.output.dense.weight"])
    view.findChild(CardPanel).findChild(QLabel).linkActivated.emit("0")
    assert bench.chosen == "layer.3.output.dense.weight"
    assert tabs.current is tabs.view("mask")
    bench.until_idle()


def test_with_little_memory_only_thumbnails_in_sight_are_kept(view, bench, grid):
    view.limit_memory(2_000_000)
    view._data = None
    view.refresh()
    bench.until_idle()
    kept = set(view._data.pictures)
    assert len(kept) < 100
    grid.verticalScrollBar().setValue(grid.verticalScrollBar().maximum())
    bench.until_idle()
    assert "head.weight" in view._data.pictures
    assert len(view._data.pictures) == len(kept)


def test_what_remains_of_dead_units_is_drafted_from_the_card(view, bench):
    wanted = []
    bench.draft_wanted.connect(wanted.append)
    card = view.findChild(CardPanel)
    assert "Prune&nbsp;what" not in card.text()
    bench.add(bench.step("channels", targets=["layer.3.*"], channels=[1], dim=0))
    bench.until_idle()
    assert "Prune&nbsp;what&nbsp;remains&nbsp;of&nbsp;dead&nbsp;units" in card.text()
    card.findChild(QLabel).linkHovered.emit("removal")
    card.findChild(QLabel).linkActivated.emit("removal")
    [request] = wanted
    assert (request.step.method.name, request.step.targets) == ("dead_units", ("*",))
