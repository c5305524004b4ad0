"""How the columns of the tree share its width."""

from __future__ import annotations

import pytest

from prune_gui.gui.panels.modules.columns import MOST_FOR_NAMES
from prune_gui.gui.panels.modules.model import Column
from prune_gui.gui.panels.modules.panel import TreePanel


@pytest.fixture
def panel(workbench, open_file, demo_checkpoint, qtbot):
    panel = TreePanel(workbench)
    qtbot.addWidget(panel)
    panel.show()
    open_file(demo_checkpoint)
    return panel


@pytest.mark.parametrize("width", [240, 300, 360, 432, 500, 700, 1200])
def test_the_tree_never_scrolls_sideways_and_names_come_first(panel, qtbot, width):
    view = panel.tree
    panel.resize(width, 400)

    def fits():
        shown = [column for column in Column if not view.isColumnHidden(column)]
        room, names = view.viewport().width(), view.columnWidth(Column.NAME)
        assert shown == list(Column)[: len(shown)]
        assert sum(map(view.columnWidth, shown)) <= room
        assert names >= min(view.sizeHintForColumn(Column.NAME), int(MOST_FOR_NAMES * room))

    qtbot.waitUntil(fits)
    assert width < 700 or not view.isColumnHidden(Column.PARAMETERS)


def test_a_column_comes_back_as_wide_as_the_user_made_it(panel, qtbot):
    view = panel.tree
    panel.resize(1000, 400)
    view.header().resizeSection(Column.SHAPE, 170)
    panel.resize(260, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(Column.SHAPE))
    panel.resize(1000, 400)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == 170)


def test_names_that_are_opened_get_the_room_that_they_need(panel, qtbot):
    view = panel.tree
    panel.resize(330, 400)
    view.collapseAll()
    qtbot.waitUntil(lambda: not view.isColumnHidden(Column.SHAPE))
    view.expandAll()
    qtbot.waitUntil(lambda: view.isColumnHidden(Column.SHAPE))


def test_shapes_are_whole_where_there_is_room(panel, qtbot):
    view = panel.tree
    panel.resize(700, 400)
    needed = view.sizeHintForColumn(Column.SHAPE)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == needed)
    names = view.sizeHintForColumn(Column.NAME)
    beside = panel.width() - view.viewport().width() + view.columnWidth(Column.SPARSITY)
    panel.resize(names + beside + needed - 3, 400)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == needed - 3)
    assert view.columnWidth(Column.NAME) == names
