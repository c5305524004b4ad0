import shutil

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QComboBox, QSlider, QTabWidget
from view_page import options

from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.maps.canvas import extent
from prune_gui.gui.views.maps.viewport import LayoutChooser, Viewport
from prune_gui.gui.views.plot import SHAPE_SEPARATOR
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout

SIGHT = QRectF(1, 2, 3, 4)


@pytest.fixture
def tabs(bench, checkpoint, shown):
    made = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    made.bring_forward("mask")
    bench.until_idle()
    return made


@pytest.fixture
def show(tabs, bench):
    def bring(view):
        tabs.findChild(QTabWidget).setCurrentWidget(view)
        bench.until_idle()
        return view

    return bring


def _corners(rect):
    return pytest.approx(rect.getCoords())


def _pinned(view):
    texts = view._elements.inspector.texts
    return texts if texts[3] == "pinned (Esc)" else None


def test_the_pin_stays_in_layouts_of_the_same_size():
    viewport, layout = Viewport(), SliceLayout.flattened((8, 6))
    viewport.look(layout, SIGHT)
    viewport.pin((2, 3))
    viewport.look(SliceLayout.flattened((8, 2, 3)), SIGHT.translated(1, 1))
    assert viewport.within(layout).pinned == (2, 3)
    viewport.look(SliceLayout.flattened((8, 7)), SIGHT)
    assert viewport.within(layout) is None
    assert viewport.view_state.pinned is None


def test_another_checkpoint_is_shown_whole_and_the_same_one_as_before(
    tabs, show, bench, checkpoint, tmp_path
):
    mask, weights = tabs.view("mask"), tabs.view("weights")
    mask._square.click()
    whole = mask.canvas.sight
    show(weights)
    show(mask).canvas.setRange(SIGHT, padding=0)
    bench.until_idle()
    other = shutil.copy(checkpoint, tmp_path / "other.safetensors")
    for path, sight in ((checkpoint, SIGHT), (other, whole)):
        bench.open_and_choose(path, "fc.weight")
        assert show(mask).canvas.sight.getCoords() == _corners(sight)
        assert show(weights).canvas.sight.getCoords() == _corners(sight)


def test_all_views_of_a_parameter_share_the_visible_region(tabs, show, bench):
    mask, weights, compare = tabs.view("mask"), tabs.view("weights"), tabs.view("compare")
    compare.show_pictures()
    mask._square.click()
    mask.canvas.setRange(SIGHT, padding=0)
    bench.until_idle()
    assert show(weights).canvas.sight.getCoords() == _corners(SIGHT)
    weights.canvas.pan(0.5, 0.0)
    bench.until_idle()
    moved = weights.canvas.sight
    assert moved.left() > SIGHT.left()
    show(compare)
    for plot in (compare.pictures.pair.left, compare.pictures.pair.right):
        assert plot.sight.getCoords() == _corners(moved)
    assert show(mask).canvas.sight.getCoords() == _corners(moved)
    compare.pictures.pair.left.fit()  # it is not the view in front
    assert mask.canvas.sight.getCoords() == _corners(moved)


def test_a_region_of_square_cells_is_not_larger_after_views_of_other_proportions(tabs, show):
    mask, compare = tabs.view("mask"), tabs.view("compare")
    compare.show_pictures()
    assert mask._square.isChecked()
    show(mask)
    mask.canvas.zoom(0.4)
    show(compare)
    show(mask)
    before, left = mask.canvas.sight, compare.pictures.pair.left
    for _ in range(3):
        show(compare)
        assert left.sight.center().x() == pytest.approx(before.center().x(), abs=0.01)
        assert left.sight.width() < before.width()
        after = show(mask).canvas.sight
        assert after.center().x() == pytest.approx(before.center().x(), abs=0.01)
        assert after.width() == pytest.approx(before.width(), rel=0.1)
    mask.canvas.fit()
    assert show(compare).pictures.pair.left.sight.contains(extent(left.layout_shown))
    assert show(mask).canvas.sight.height() < 1.1 * left.layout_shown.rows


def test_the_chosen_section_is_shared(tabs, show, bench):
    bench.show("conv.weight")
    mask, weights, compare = tabs.view("mask"), tabs.view("weights"), tabs.view("compare")
    compare.show_pictures()
    mask.findChild(QComboBox, "layout").setCurrentText(f"dim 1 {SHAPE_SEPARATOR} dim 2")
    sliders = {slider.accessibleName(): slider for slider in mask.findChildren(QSlider)}
    sliders["Index along dim 3"].setValue(1)
    bench.until_idle()
    section = SliceLayout.section((4, 3, 5, 2), 1, 2, (0, 0, 0, 1))
    shown = (show(weights).canvas, show(compare).pictures.pair.left, mask.canvas)
    assert [plot.layout_shown for plot in shown] == [section] * 3
    [slider] = [s for s in weights.findChildren(QSlider) if s.accessibleName().endswith("dim 3")]
    show(weights)
    slider.setValue(0)
    bench.until_idle()
    assert show(mask).canvas.layout_shown == SliceLayout.section((4, 3, 5, 2), 1, 2, (0, 0, 0, 0))


def test_an_element_is_pinned_in_every_view(tabs, show, bench):
    tabs.view("mask").canvas.clicked.emit((2, 3))
    bench.until_idle()
    text = _pinned(tabs.view("mask"))
    assert text[0] == "[2, 3]"
    weights = show(tabs.view("weights"))
    assert _pinned(weights) == text
    assert weights.canvas._pinned == (2, 3)
    weights.canvas.escaped.emit()
    assert _pinned(show(tabs.view("mask"))) is None
    assert tabs.view("mask").canvas._pinned is None


@pytest.fixture
def chooser(qtbot):
    widget = LayoutChooser(Viewport())
    qtbot.addWidget(widget)
    return widget


def _pick(chooser, text):
    combo = chooser.findChild(QComboBox)
    combo.setCurrentText(next(each for each in options(combo) if each.startswith(text)))


def test_a_layout_that_another_view_does_not_offer_leaves_it_unchanged(chooser, qtbot):
    other = LayoutChooser(chooser._viewport, kernel_grids=False)
    qtbot.addWidget(other)
    shape = (4, 3, 5, 2)
    for one in (chooser, other):
        one.set_shape(shape)
    _pick(chooser, "flattened")
    _pick(chooser, "grid")
    other.set_shape(shape)
    assert other.layout_chosen == SliceLayout.flattened(shape)
    assert chooser.layout_chosen == KernelLayout.of(shape)


@pytest.mark.parametrize("shape", [(), (4,), (4, 3)])
def test_there_is_nothing_to_choose_below_three_dimensions(chooser, shape):
    chooser.set_shape(shape)
    assert chooser.isHidden()
    assert chooser.layout_chosen == SliceLayout.flattened(shape)


def test_a_section_follows_its_sliders(chooser, qtbot):
    chooser.set_shape((4, 3, 5, 2))
    assert not chooser.isHidden()
    with qtbot.waitSignal(chooser.changed):
        _pick(chooser, "dim 1")
    assert chooser.dims == (1, 2)
    sliders = {s.accessibleName(): s for s in chooser.findChildren(QSlider)}
    with qtbot.waitSignal(chooser.changed):
        sliders["Index along dim 3"].setValue(1)
    sliders["Index along dim 0"].setValue(2)
    assert chooser.layout_chosen == SliceLayout.section((4, 3, 5, 2), 1, 2, (2, 0, 0, 1))


def test_dimensions_of_size_one_are_not_offered(chooser):
    chooser.set_shape((4, 3, 5, 1))
    assert options(chooser.findChild(QComboBox)) == [
        "grid of kernels",
        "flattened",
        f"dim 0 {SHAPE_SEPARATOR} dim 1",
        f"dim 0 {SHAPE_SEPARATOR} dim 2",
        f"dim 1 {SHAPE_SEPARATOR} dim 2",
    ]
    _pick(chooser, "dim 0")
    assert len(chooser.findChildren(QSlider)) == 1


def test_the_choice_stays_with_the_shape(chooser):
    chooser.set_shape((4, 3, 5))
    _pick(chooser, "dim 0")
    chooser.set_shape((4, 3, 5))
    assert chooser.dims == (0, 1)
    chooser.set_shape((4, 3, 6))
    assert chooser.dims is None


@pytest.mark.parametrize(
    ("shape", "layout", "flat"),
    [
        ((4, 3, 5, 5), KernelLayout.of((4, 3, 5, 5)), "flattened"),
        ((1024,), SliceLayout.wrapped((1024,)), "one row"),
    ],
)
def test_kernels_are_a_grid_and_a_long_row_is_wrapped_by_default(chooser, shape, layout, flat):
    chooser.set_shape(shape)
    assert not chooser.isHidden()
    assert chooser.layout_chosen == layout
    _pick(chooser, flat)
    assert chooser.layout_chosen == SliceLayout.flattened(shape)
