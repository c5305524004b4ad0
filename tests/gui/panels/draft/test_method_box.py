"""The box to choose a pruning method."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon

from prune_gui.gui.panels.draft.method_box import MethodBox, method_icon
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.fields import GROUPS


@pytest.fixture
def box(qtbot):
    made = MethodBox()
    qtbot.addWidget(made)
    return made


def test_every_method_is_below_the_title_of_its_group(box):
    titles = {str(title): group for group, title in GROUPS.items()}
    group, listed = None, {}
    for index in range(box.count()):
        if (name := box.itemData(index)) is None:
            group = titles[box.itemText(index)]
        else:
            listed[name] = group
    assert listed == {name: method.method_group for name, method in METHODS.items()}


def test_keys_skip_the_titles_of_groups(box, qtbot):
    chosen = []
    for _ in range(len(METHODS)):
        chosen.append(box.currentData())
        qtbot.keyClick(box, Qt.Key.Key_Down)
    assert chosen[0] == next(iter(METHODS))
    assert set(chosen) == set(METHODS)


def test_every_method_has_an_icon_of_its_own(qapp):
    def pixels(icon: QIcon) -> bytes:
        return icon.pixmap(32).toImage().constBits().tobytes()

    icons = {pixels(method_icon(method)) for method in METHODS.values()}
    assert len(icons) == len(METHODS)
