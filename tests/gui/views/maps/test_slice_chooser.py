import pytest
from PySide6.QtWidgets import QComboBox, QSlider

from prune_gui.gui.views.axes import SHAPE_SEPARATOR
from prune_gui.gui.views.maps.viewport import LayoutChooser, Viewport
from prune_gui.raster.layouts import KernelLayout, SliceLayout


@pytest.fixture
def chooser(qtbot):
    widget = LayoutChooser(Viewport())
    qtbot.addWidget(widget)
    return widget


def _pick(chooser, text):
    combo = chooser.findChild(QComboBox)
    combo.setCurrentIndex(
        [combo.itemText(i).startswith(text) for i in range(combo.count())].index(True)
    )
    return combo


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
    combo = chooser.findChild(QComboBox)
    assert [combo.itemText(i) for i in range(combo.count())] == [
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


def test_kernels_are_shown_as_a_grid_by_default(chooser):
    chooser.set_shape((4, 3, 5, 5))
    assert chooser.layout_chosen == KernelLayout.of((4, 3, 5, 5))
    _pick(chooser, "flattened")
    assert chooser.layout_chosen == SliceLayout.flattened((4, 3, 5, 5))


def test_a_long_row_is_wrapped_by_default(chooser):
    chooser.set_shape((1024,))
    assert not chooser.isHidden()
    assert chooser.layout_chosen == SliceLayout.wrapped((1024,))
    _pick(chooser, "one row")
    assert chooser.layout_chosen == SliceLayout.flattened((1024,))
