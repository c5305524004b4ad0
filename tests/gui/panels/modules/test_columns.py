"""The widths of the columns of the module tree."""

from __future__ import annotations

import pytest

from prune_gui.gui.panels.modules.columns import MAX_NAME_SHARE, MAX_NAME_SHARE_WITH_ZEROS
from prune_gui.gui.panels.modules.model import TreeColumn
from prune_gui.gui.panels.modules.panel import TreePanel
from prune_gui.statistics.file_zeros import FileZeros


@pytest.fixture
def panel(workbench, open_file, demo_checkpoint, qtbot):
    panel = TreePanel(workbench)
    qtbot.addWidget(panel)
    panel.show()
    open_file(demo_checkpoint)
    return panel


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("width", [240, 300, 360, 432, 500, 700, 1200])
def test_the_columns_fit_the_width_and_names_have_priority(panel, workbench, qtbot, width, zeros):
    view = panel.tree
    workbench.zero_counter.stop()
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=zeros)
    columns = [column for column in TreeColumn if zeros or column != TreeColumn.ZEROS]
    panel.resize(width, 400)

    def fits():
        shown = [column for column in TreeColumn if not view.isColumnHidden(column)]
        room, names = view.viewport().width(), view.columnWidth(TreeColumn.NAME)
        assert shown == columns[: len(shown)]
        assert sum(map(view.columnWidth, shown)) <= room
        name_share = MAX_NAME_SHARE_WITH_ZEROS if zeros else MAX_NAME_SHARE
        assert names >= min(view.sizeHintForColumn(TreeColumn.NAME), int(name_share * room))

    qtbot.waitUntil(fits)
    assert width < 700 + 100 * zeros or not view.isColumnHidden(TreeColumn.PARAMETERS)


def test_a_column_is_shown_again_with_the_width_set_by_the_user(panel, qtbot):
    view = panel.tree
    panel.resize(1000, 400)
    view.header().resizeSection(TreeColumn.SHAPE, 170)
    panel.resize(260, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
    panel.resize(1000, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == 170)


def test_expanding_modules_widens_the_name_column(panel, qtbot):
    view = panel.tree
    panel.resize(330, 400)
    view.collapseAll()
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SHAPE))
    view.expandAll()
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))


def test_the_shape_column_widens_for_long_shapes_if_there_is_space(panel, qtbot):
    view = panel.tree
    panel.resize(700, 400)
    needed = view.sizeHintForColumn(TreeColumn.SHAPE)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed)
    names = view.sizeHintForColumn(TreeColumn.NAME)
    beside = panel.width() - view.viewport().width() + view.columnWidth(TreeColumn.SPARSITY)
    panel.resize(names + beside + needed - 3, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed - 3)
    assert view.columnWidth(TreeColumn.NAME) == names


def test_in_a_narrow_tree_zeros_in_the_file_take_the_place_of_the_bars(panel, workbench, qtbot):
    view = panel.tree
    workbench.zero_counter.stop()
    panel.resize(360, 400)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SPARSITY))
    with_bar = view.columnWidth(TreeColumn.SPARSITY)
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=True)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) < with_bar
    view.model().show_zeros(FileZeros(), wanted=False)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) == with_bar
