"""The widths of the columns of the module tree."""

from __future__ import annotations

import pytest

from prune_gui.gui.panels.modules.columns import MAX_NAME_SHARE
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
def test_the_columns_fit_the_width_and_names_have_priority(panel, qtbot, width):
    view = panel.tree
    panel.resize(width, 400)

    def fits():
        shown = [column for column in Column if not view.isColumnHidden(column)]
        room, names = view.viewport().width(), view.columnWidth(Column.NAME)
        assert shown == list(Column)[: len(shown)]
        assert sum(map(view.columnWidth, shown)) <= room
        assert names >= min(view.sizeHintForColumn(Column.NAME), int(MAX_NAME_SHARE * room))

    qtbot.waitUntil(fits)
    assert width < 700 or not view.isColumnHidden(Column.PARAMETERS)


def test_a_column_is_shown_again_with_the_width_set_by_the_user(panel, qtbot):
    view = panel.tree
    panel.resize(1000, 400)
    view.header().resizeSection(Column.SHAPE, 170)
    panel.resize(260, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(Column.SHAPE))
    panel.resize(1000, 400)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == 170)


def test_expanding_modules_widens_the_name_column(panel, qtbot):
    view = panel.tree
    panel.resize(330, 400)
    view.collapseAll()
    qtbot.waitUntil(lambda: not view.isColumnHidden(Column.SHAPE))
    view.expandAll()
    qtbot.waitUntil(lambda: view.isColumnHidden(Column.SHAPE))


def test_the_shape_column_widens_for_long_shapes_if_there_is_space(panel, qtbot):
    view = panel.tree
    panel.resize(700, 400)
    needed = view.sizeHintForColumn(Column.SHAPE)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == needed)
    names = view.sizeHintForColumn(Column.NAME)
    beside = panel.width() - view.viewport().width() + view.columnWidth(Column.SPARSITY)
    panel.resize(names + beside + needed - 3, 400)
    qtbot.waitUntil(lambda: view.columnWidth(Column.SHAPE) == needed - 3)
    assert view.columnWidth(Column.NAME) == names
