import pytest
from PySide6.QtWidgets import QComboBox, QSlider

from prune_gui.audit.plane import Plane
from prune_gui.gui.views.plane_chooser import PlaneChooser


@pytest.fixture
def chooser(qtbot):
    made = PlaneChooser()
    qtbot.addWidget(made)
    return made


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
    assert chooser.plane == Plane.flattened(shape)


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
    assert chooser.plane == Plane.section((4, 3, 5, 2), 1, 2, (2, 0, 0, 1))


def test_dimensions_of_one_entry_are_no_choice(chooser):
    chooser.set_shape((4, 3, 5, 1))
    combo = chooser.findChild(QComboBox)
    assert combo.count() == 4
    _pick(chooser, "dim 0")
    assert len(chooser.findChildren(QSlider)) == 1


def test_the_choice_stays_with_the_shape(chooser):
    chooser.set_shape((4, 3, 5))
    _pick(chooser, "dim 0")
    chooser.set_shape((4, 3, 5))
    assert chooser.dims == (0, 1)
    chooser.set_shape((4, 3, 6))
    assert chooser.dims is None
