"""The treemap widget."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QPoint, QRectF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.views.layers.treemap import Rect, make_treemap, squarify, treemap
from prune_gui.gui.views.layers.treemap_picture import PADDING_PX, TreemapPicture
from prune_gui.raster.colours import LIGHT

INFOS = [
    TensorInfo("encoder.query.weight", (60, 10), "float32"),
    TensorInfo("encoder.key.weight", (20, 10), "float32"),
    TensorInfo("head", (20, 10), "float32"),
]


def resolution(counts, counted=None):
    return SimpleNamespace(counts=counts, counted=frozenset(counted or counts))


PRUNED = resolution(
    {"encoder.query.weight": (600, 600), "encoder.key.weight": (100, 200), "head": (0, 200)}
)


@pytest.fixture
def picture(qtbot, shown):
    treemap = shown(TreemapPicture())
    treemap.show_map(make_treemap(INFOS, PRUNED, treemap.available_size), LIGHT)
    return treemap


def middle(picture, name):
    [rect] = [QRectF(*cell.rect) for cell in picture.shown.cells if cell.node.path == name]
    return (rect.center() + picture._map_rect().topLeft()).toPoint()


def test_cell_colours_show_sparsity_and_areas_show_size(picture, share_of):
    (width, height), whole = picture.available_size, picture.width() * picture.height()
    area_share = width * height / whole
    for share, size in ((1.0, 0.6), (0.5, 0.2), (0.0, 0.2)):
        assert share_of(picture, LIGHT.share(share)) == pytest.approx(size * area_share, rel=0.15)


def test_a_module_has_the_sparsity_of_all_its_parameters():
    small = make_treemap(INFOS, PRUNED, (8.0, 6.0))
    shares = {cell.node.path: share for cell, share in zip(small.cells, small.shares, strict=True)}
    assert shares == {"encoder": 700 / 800, "head": 0.0}


def test_cells_are_reused_unless_the_size_changes():
    treemap = make_treemap(INFOS, PRUNED, (300.0, 200.0))
    none = resolution({name: (0, total) for name, (_, total) in PRUNED.counts.items()})
    again = make_treemap(INFOS, none, (300.0, 200.0), treemap)
    assert again.cells is treemap.cells
    assert set(again.shares) == {0.0}
    assert make_treemap(INFOS, none, (200.0, 300.0), treemap).cells[0].rect != treemap.cells[0].rect


def test_areas_are_those_of_the_parameters_that_totals_count():
    size = (300.0, 200.0)
    weights = resolution(PRUNED.counts, {"encoder.query.weight", "head"})
    treemap = make_treemap(INFOS, weights, size)
    areas = {cell.node.path: cell.rect.area for cell in treemap.cells}
    assert areas == pytest.approx({"encoder.query.weight": 45_000, "head": 15_000})
    every = make_treemap(INFOS, PRUNED, size, treemap)  # a step prunes the third one now
    assert [cell.node.path for cell in every.cells].count("encoder.key.weight") == 1


def test_hovering_and_clicking_emit_the_cell(picture, qtbot):
    pointed, clicked = [], []
    picture.pointed.connect(pointed.append)
    picture.clicked.connect(clicked.append)
    qtbot.mouseMove(picture, middle(picture, "head"))
    assert pointed[-1].path == "head"
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


def test_a_treemap_is_scaled_until_a_new_one_is_ready(picture, share_of, qtbot):
    requests = []
    picture.resized.connect(lambda: requests.append(1))
    picture.resize(500, 900)
    assert requests
    area_share = picture.available_size[0] * picture.available_size[1] / (500 * 900)
    assert share_of(picture, LIGHT.share(1.0)) == pytest.approx(0.6 * area_share, rel=0.15)
    qtbot.mouseMove(picture, QPoint(490, 860))


def test_the_tool_tip_names_the_cell_and_its_sparsity(picture, monkeypatch):
    tips = []
    monkeypatch.setattr(QToolTip, "showText", lambda _, text, __: tips.append(text))
    at = middle(picture, "encoder.key.weight")
    event = QHelpEvent(QEvent.Type.ToolTip, at, picture.mapToGlobal(at))
    QApplication.sendEvent(picture, event)
    assert tips == ["encoder.key.weight: 50 % pruned"]


def test_a_cell_has_its_name_and_share_as_far_as_they_fit_or_upwards(picture):
    written = []
    painter = SimpleNamespace(
        setPen=lambda _: None,
        save=lambda: None,
        translate=lambda _: None,
        rotate=lambda angle: written.append(angle),
        drawText=lambda _, text: written.append(text),
        restore=lambda: None,
    )
    narrow = picture.fontMetrics().horizontalAdvance("0.query") + 2 * PADDING_PX - 2
    for width, height in ((300, 60), (300, 20), (30, 300), (narrow, 20), (12, 12)):
        picture._write(painter, QRectF(0, 0, width, height), "0.query", 0.5, "#ffffff")
    both = ["0.query", "50.0 %"]
    assert written[:9] == [0, *both, 0, *both, -90, *both]
    assert written[9] == 0
    assert "…" in written[10]
    assert len(written) == 11
    written.clear()
    for width in range(20, 90):
        picture._write(painter, QRectF(0, 0, width, 20), "16.conv.6", 0.5, "#ffffff")
    texts = {text for text in written if text != 0}
    assert any("…" in text for text in texts)
    assert all(text.startswith("16.") for text in texts - {"50.0 %"})


def test_the_names_of_cells_differ_and_are_short():
    names = [f"layer.{i}.attn.{k}_proj.weight" for i in "01" for k in "qk"]
    infos = [TensorInfo(name, (40, 40), "float32") for name in names]
    counts = resolution(dict.fromkeys(names, (0, 1600)))
    data = make_treemap(infos, counts, (400.0, 300.0))
    assert sorted(data.names) == ["0.k", "0.q", "1.k", "1.q"]


WHOLE = Rect(3.0, 5.0, 400.0, 300.0)
NAMES = st.lists(st.sampled_from("ab0"), min_size=1, max_size=4).map(".".join)
TENSORS = st.dictionaries(NAMES, st.integers(1, 10_000), min_size=1, max_size=25).map(
    lambda sizes: [TensorInfo(name, (size,), "float32") for name, size in sizes.items()]
)


def within(inner, outer):
    return QRectF(*outer).adjusted(-1e-6, -1e-6, 1e-6, 1e-6).contains(QRectF(*inner))


def overlap(a, b):
    shared = QRectF(*a).intersected(QRectF(*b))
    return shared.width() * shared.height()


@given(st.lists(st.integers(1, 1_000_000), min_size=1, max_size=30))
def test_areas_are_proportional_to_the_weights_and_do_not_overlap(weights):
    weights = sorted(weights, reverse=True)
    pieces = squarify(weights, WHOLE)
    for weight, piece in zip(weights, pieces, strict=True):
        assert piece.area == pytest.approx(WHOLE.area * weight / sum(weights), rel=1e-6)
        assert within(piece, WHOLE)
    for a, b in combinations(pieces, 2):
        assert overlap(a, b) <= 1e-6 * WHOLE.area


def test_the_example_of_the_paper_gives_its_result():
    pieces = squarify([6, 6, 4, 3, 2, 2, 1], Rect(0, 0, 6, 4))
    expected = [(0, 0, 3, 2), (0, 2, 3, 2), (3, 0, 12 / 7, 7 / 3), (33 / 7, 0, 9 / 7, 7 / 3)]
    for piece, corners in zip(pieces, expected, strict=False):
        assert piece == pytest.approx(corners)


@given(TENSORS)
def test_every_parameter_has_its_area_inside_its_modules(infos):
    cells = treemap(infos, WHOLE, min_area=0.0)
    closed = [cell for cell in cells if not cell.is_open]
    entries = sum(info.numel for info in infos)
    assert sorted(cell.node.tensor.name for cell in closed) == sorted(i.name for i in infos)
    for cell in cells:
        share = cell.node.numel / entries
        assert cell.rect.area == pytest.approx(WHOLE.area * share, rel=1e-6)
    for position, inner in enumerate(cells):
        own = set(inner.node.tensors)
        opened = (cell for cell in cells[:position] if cell.is_open)
        above = [outer for outer in opened if own <= set(outer.node.tensors)]
        assert bool(above) == (position > 0)
        assert all(within(inner.rect, outer.rect) for outer in above)


@given(TENSORS, st.integers(1, 10))
def test_no_more_cells_than_wanted_cover_the_whole(infos, most):
    closed = [cell for cell in treemap(infos, WHOLE, most, 0.0) if not cell.is_open]
    assert len(closed) <= most
    assert sum(cell.rect.area for cell in closed) == pytest.approx(WHOLE.area)
    assert sum(cell.node.numel for cell in closed) == sum(info.numel for info in infos)


def test_modules_with_too_small_parts_stay_closed():
    sizes = {"a.w": 9990, "b.c.w": 5, "b.d": 5}
    infos = [TensorInfo(name, (size,), "float32") for name, size in sizes.items()]
    cells = treemap(infos, Rect(0, 0, 100, 100), min_area=40.0)
    assert {cell.node.path for cell in cells if not cell.is_open} == {"a.w", "b"}
    assert treemap([], WHOLE) == ()


def test_no_module_is_divided_finely_while_similar_ones_stay_closed():
    layers = [f"{layer}.experts" for layer in range(40)]
    names = [f"{layer}.{expert}.w" for layer in layers for expert in range(256)]
    infos = [TensorInfo(name, (8, 8), "float32") for name in names]
    cells = treemap(infos, Rect(0, 0, 200, 200), max_cells=1000)
    assert {cell.node.path for cell in cells if not cell.is_open} == set(layers)
