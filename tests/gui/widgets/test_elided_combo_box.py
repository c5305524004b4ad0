import pytest
from PySide6.QtWidgets import QComboBox

from prune_gui.gui.widgets.eliding import ElidedComboBox

TEXT = "step 3: L1 unstructured"


@pytest.fixture
def boxes(qtbot):
    """Return a narrow elided box, and a plain one of the same size."""
    made = ElidedComboBox(), QComboBox()
    for box in made:
        qtbot.addWidget(box)
        box.addItem(TEXT)
        box.resize(100, 24)
    return made


def test_a_text_that_does_not_fit_ends_in_an_ellipsis(boxes):
    narrow, plain = boxes
    start, end = narrow.shown().split("…")
    assert TEXT.startswith(start)
    assert start
    assert not end
    plain.setItemText(0, narrow.shown())
    assert narrow.grab().toImage() == plain.grab().toImage()


def test_a_wide_box_looks_like_a_plain_one(boxes):
    narrow, plain = boxes
    for box in boxes:
        box.resize(narrow.sizeHint())
    assert narrow.shown() == TEXT
    assert narrow.grab().toImage() == plain.grab().toImage()
