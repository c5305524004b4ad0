"""The treemap on the screen."""

from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPoint, Qt

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.views.layers.treemap_picture import TreemapPicture, make_map
from prune_gui.gui.widgets.theme import LIGHT

INFOS = [
    TensorInfo("encoder.query.weight", (60, 10), "float32"),
    TensorInfo("encoder.key.weight", (20, 10), "float32"),
    TensorInfo("head", (20, 10), "float32"),
]


PRUNED = SimpleNamespace(
    counts={"encoder.query.weight": (600, 600), "encoder.key.weight": (100, 200), "head": (0, 200)}
)


@pytest.fixture
def picture(qtbot, shown):
    made = shown(TreemapPicture())
    made.show_map(make_map(INFOS, PRUNED, made.room), LIGHT)
    return made


def middle(picture, name):
    [rect] = [rect for rect, cell, _ in picture._closed if cell.node.path == name]
    return (rect.center() + picture._room().topLeft()).toPoint()


def test_cells_have_the_colour_of_their_sparsity_and_an_area_like_their_size(picture, share_of):
    room = picture.room[0] * picture.room[1] / (picture.width() * picture.height())
    for share, size in ((1.0, 0.6), (0.5, 0.2), (0.0, 0.2)):
        assert share_of(picture, LIGHT.share(share)) == pytest.approx(size * room, rel=0.15)


def test_a_module_is_as_sparse_as_its_parameters_together():
    small = make_map(INFOS, PRUNED, (8.0, 6.0))
    shares = {cell.node.path: share for cell, share in zip(small.cells, small.shares, strict=True)}
    assert shares == {"encoder": 700 / 800, "head": 0.0}


def test_cells_are_laid_out_anew_only_for_another_size():
    made = make_map(INFOS, PRUNED, (300.0, 200.0))
    none = SimpleNamespace(counts={name: (0, total) for name, (_, total) in PRUNED.counts.items()})
    again = make_map(INFOS, none, (300.0, 200.0), made)
    assert again.cells is made.cells
    assert set(again.shares) == {0.0}
    assert make_map(INFOS, none, (200.0, 300.0), made).cells[0].rect != made.cells[0].rect


def test_a_cell_is_pointed_at_and_clicked(picture, qtbot):
    said, clicked = [], []
    picture.pointed.connect(said.append)
    picture.clicked.connect(clicked.append)
    qtbot.mouseMove(picture, middle(picture, "head"))
    assert said[-1].path == "head"
    qtbot.mouseClick(picture, Qt.MouseButton.LeftButton, pos=middle(picture, "encoder.key.weight"))
    assert [node.path for node in clicked] == ["encoder.key.weight"]
    qtbot.mouseClick(picture, Qt.MouseButton.RightButton, pos=middle(picture, "head"))
    qtbot.mouseClick(picture, Qt.MouseButton.LeftButton, pos=QPoint(2, 2))
    assert len(clicked) == 1


def test_the_chosen_parameter_has_an_outline(picture, share_of):
    before = share_of(picture, LIGHT.foreground)
    picture.choose("head")
    assert share_of(picture, LIGHT.foreground) > before + 0.001
    picture.choose(None)
    assert share_of(picture, LIGHT.foreground) == before


def test_until_a_new_one_is_made_a_treemap_is_stretched(picture, share_of, qtbot):
    asked = []
    picture.resized.connect(lambda: asked.append(1))
    picture.resize(500, 900)
    assert asked
    room = picture.room[0] * picture.room[1] / (500 * 900)
    assert share_of(picture, LIGHT.share(1.0)) == pytest.approx(0.6 * room, rel=0.15)
    qtbot.mouseMove(picture, QPoint(490, 860))
