"""The Qt model of the module tree."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt
from PySide6.QtGui import QPalette
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QTreeView
from safetensors.torch import save_file
from view_page import tree_names

from prune_gui.checkpoint import TensorInfo
from prune_gui.checkpoint.parameters import parameters
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel
from prune_gui.gui.modules.tree_panel import TreePanel
from prune_gui.gui.modules.tree_view import (
    MAX_NAME_SHARE,
    MAX_NAME_SHARE_WITH_ZEROS,
    RowDelegate,
    ShareBar,
)
from prune_gui.gui.widgets.theme import icon
from prune_gui.session import ModuleIndex
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns

ROOT = QModelIndex()
TENSORS = [
    TensorInfo("embed.weight", (10, 4), "float32", aliases=("head.weight",)),
    TensorInfo("embed.ids", (1, 10), "int64"),
    *(
        TensorInfo(f"layer.{i}.{part}", shape, "float32")
        for i in (10, 2, 0)
        for part, shape in {"query.weight": (4, 4), "query.bias": (4,)}.items()
    ),
    TensorInfo("layer", (2,), "float32"),
]


@pytest.fixture
def model(qtbot):
    made = TreeModel()
    tester = QAbstractItemModelTester(
        made, QAbstractItemModelTester.FailureReportingMode.Fatal, made
    )
    made.show(ModuleIndex(TENSORS))
    yield made
    del tester


def cell(model, path, column, role=Qt.ItemDataRole.DisplayRole):
    index = model.find(path)
    assert index.isValid()
    return index.siblingAtColumn(column).data(role)


def share(model, path):
    return model.row(model.find(path)).share


FULL_TREE = {
    "embed": {"weight": {}, "ids": {}},
    "layer": {number: {"query": {"weight": {}, "bias": {}}} for number in ("0", "2", "10")},
}


@pytest.mark.parametrize(
    ("text", "number", "found"),
    [
        ("QUERY.w", 3, {"layer": {n: {"query": {"weight": {}}} for n in ("0", "2", "10")}}),
        ("*.1?.*", 2, {"layer": {"10": {"query": {"weight": {}, "bias": {}}}}}),
        ("*.bias", 3, {"layer": {n: {"query": {"bias": {}}} for n in ("0", "2", "10")}}),
        ("bed.w", 1, {"embed": {"weight": {}}}),
        ("nothing like it", 0, {}),
        ("", 9, FULL_TREE),
    ],
)
def test_a_filter_shows_matches_and_the_modules_above_them(model, text, number, found):
    model.filter("weight")
    assert model.filter(text) == (number, 9)
    assert repr(tree_names(model)) == repr(found)  # in this order


def test_a_module_shows_the_sums_of_its_prunable_parameters(model):
    counts = {t.name: (0, t.numel) for t in TENSORS if not t.not_prunable}
    counts |= {"layer.0.query.weight": (8, 16), "layer.2.query.bias": (4, 4)}
    model.count(counts)
    assert cell(model, "layer.0", TreeColumn.SPARSITY) == "40.0 %"
    assert share(model, "layer.2.query.bias") == 1.0
    assert share(model, "layer.10") == 0.0
    assert cell(model, "layer", TreeColumn.PARAMETERS) == "62"
    assert cell(model, "embed.ids", TreeColumn.SPARSITY) == ""
    assert share(model, "embed") == 0.0


def test_new_counts_emit_data_changed_for_existing_rows_beside_a_change(model, qtbot):
    tree_names(model)
    model.count({"embed.weight": (1, 40)})
    changed = []
    model.dataChanged.connect(lambda first, last: changed.append((first, last)))
    model.count({"embed.weight": (40, 40)})
    assert {(first.column(), last.column()) for first, last in changed} == {(1, 1)}
    rows = sum(last.row() - first.row() + 1 for first, last in changed)
    assert rows == 2 + 2  # of the top modules, and in `embed`
    assert cell(model, "embed.weight", TreeColumn.SPARSITY) == "100.0 %"
    assert cell(model, "embed", TreeColumn.SPARSITY) == "100.0 %"
    del changed[:]
    model.count({"embed.weight": (40, 40)})
    assert changed == []


def test_a_tool_tip_names_tied_and_unprunable_parameters(model):
    tied = cell(model, "embed.weight", TreeColumn.NAME, Qt.ItemDataRole.ToolTipRole)
    assert tied == "embed.weight\n10 × 4, float32, 40 elements\ntied with head.weight"  # noqa: RUF001
    whole = cell(model, "embed.ids", TreeColumn.NAME, Qt.ItemDataRole.ToolTipRole)
    assert whole == "embed.ids\n1 × 10, int64, 10 elements\ncannot be pruned: integer"  # noqa: RUF001


def test_the_module_type_is_marked_as_inferred(model):
    assert cell(model, "layer.0.query", TreeColumn.TYPE) == "Linear?"
    assert cell(model, "layer.0", TreeColumn.TYPE) == ""
    assert cell(model, "layer.0.query.bias", TreeColumn.TYPE) == "float32"
    tip = cell(model, "layer.0.query", TreeColumn.NAME, Qt.ItemDataRole.ToolTipRole)
    assert tip.splitlines()[-1] == "Linear: inferred from names and shapes"


@pytest.mark.parametrize(
    ("shapes", "name", "kind", "lines"),
    [
        (
            {"bn.weight": "float32", "bn.running_mean": "float32", "bn.running_var": "float32"},
            "bn.running_var",
            "float32, running statistic",
            ["running statistic", "patterns such as * leave it out; its exact name prunes it"],
        ),
        (
            {"q.weight": "float8_e4m3fn", "q.weight_scale": "float32"},
            "q.weight",
            "float8_e4m3fn",
            ["shown and pruned as codes × scales of q.weight_scale"],  # noqa: RUF001
        ),
        (
            {"q.qweight": "int32", "q.qzeros": "int32", "q.scales": "float32"},
            "q.qweight",
            "int32",
            ["cannot be pruned: quantized", "codes of a quantized weight"],
        ),
    ],
)
def test_the_tree_tells_what_is_no_weight_and_what_is_scaled(qtbot, shapes, name, kind, lines):
    infos, _ = parameters({key: RawTensor((4,), dtype) for key, dtype in shapes.items()})
    model = TreeModel()
    model.show(ModuleIndex(infos.values()))
    assert cell(model, name, TreeColumn.TYPE) == kind
    tip = cell(model, name, TreeColumn.NAME, Qt.ItemDataRole.ToolTipRole)
    assert tip.splitlines()[2:] == lines
    is_off = model.row(model.find(name)).icon == "tensor-off"
    assert is_off == (shapes[name] != "float8_e4m3fn")


def test_rows_are_made_when_their_module_is_expanded(qtbot):
    model = TreeModel()
    model.show(ModuleIndex(TensorInfo(f"block.{i}.weight", (1,), "float32") for i in range(1000)))
    assert model.hasChildren(model.index(0, 0))
    made = len(model._rows)
    assert made == 1
    model.rowCount(model.index(0, 0))
    assert len(model._rows) == made + 1000


def test_the_icon_changes_when_a_parameter_becomes_pruned(model):
    changed = []
    model.dataChanged.connect(lambda first, _: changed.append(TreeColumn(first.column())))
    tree_names(model)
    whole = model.row(model.find("embed.weight")).icon
    model.count({"embed.weight": (3, 40)})
    assert set(changed) == {TreeColumn.SPARSITY, TreeColumn.NAME}
    assert model.row(model.find("embed.weight")).icon != whole
    del changed[:]
    model.count({"embed.weight": (4, 40)})
    assert set(changed) == {TreeColumn.SPARSITY}


def test_a_module_with_weights_counts_no_running_statistics(qtbot):
    model = TreeModel()
    mean = TensorInfo("norm.running_mean", (4,), "float32", kind="statistic")
    model.show(ModuleIndex([TensorInfo("norm.weight", (4,), "float32"), mean]))
    model.count({"norm.weight": (2, 4), "norm.running_mean": (0, 4)})
    assert (share(model, "norm"), share(model, "norm.running_mean")) == (0.5, 0)
    assert cell(model, "norm", TreeColumn.PARAMETERS) == "4"


def test_zeros_in_the_file_are_summed_once_all_parameters_of_a_module_are_counted(model):
    def texts():
        paths = ("layer.2.query.weight", "layer.2.query", "embed.ids")
        return tuple(cell(model, path, TreeColumn.ZEROS) for path in paths)

    assert texts() == ("", "", "")
    patterns = {"layer.2.query.weight": ZeroPatterns(8, 16, (4, 4), "2:4")}
    model.show_zeros(FileZeros({"layer.2.query.weight": 8}, patterns), wanted=True)
    assert texts() == ("50.0 %", "", "")
    counts = {"layer.2.query.weight": 8, "layer.2.query.bias": 0}
    model.show_zeros(FileZeros(counts, patterns), wanted=True)
    assert texts() == ("50.0 %", "40.0 %", "")
    assert model.row(model.find("layer.2.query")).zero_share == 0.4
    tip = cell(model, "layer.2.query.weight", TreeColumn.NAME, Qt.ItemDataRole.ToolTipRole)
    assert "zeros in the file: 2:4" in tip
    assert model.table("").columns["zero in the file"].sum() == 8


Key, Modifier = Qt.Key, Qt.KeyboardModifier
BLOCKS = 40


@pytest.fixture
def panel(workbench, open_file, tmp_path, qtbot):
    panel = TreePanel(workbench)
    qtbot.addWidget(panel)
    panel.show()
    tensors = {
        f"block.{number}.{part}": torch.ones((2,) * (2 - part.endswith(("bias", "norm.weight"))))
        for number in range(BLOCKS)
        for part in ("query.weight", "query.bias", "norm.weight", "norm.bias")
    }
    save_file(tensors, tmp_path / "model.safetensors")
    open_file(tmp_path / "model.safetensors")
    panel.tree.expandAll()
    return panel


@pytest.mark.parametrize("modifier", [Modifier.ShiftModifier, Modifier.ControlModifier])
def test_rows_are_selected_as_in_a_plain_tree_view(panel, qtbot, modifier):
    plain = QTreeView()
    qtbot.addWidget(plain)
    plain.setModel(panel._model)
    plain.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    plain.expandAll()
    names = {}
    for view in (panel.tree, plain):
        view.resize(400, 900)
        view.show()
        qtbot.keyClick(view, Key.Key_Home)
        for key in (Key.Key_Down, Key.Key_Down, Key.Key_End, Key.Key_Up, Key.Key_Space):
            qtbot.keyClick(view, key, modifier)
            chosen = {panel._model.node(row).path for row in view.selectionModel().selectedRows()}
            names.setdefault(view, []).append(chosen)
    assert names[panel.tree] == names[plain]
    assert len(names[plain][2]) > 1 or modifier is Modifier.ControlModifier
    rows = panel.tree.selection.rows()
    assert {panel._model.node(row).path for row in rows} == names[plain][-1]


def test_the_cost_of_a_selection_is_linear_in_its_rows(panel, qtbot, monkeypatch):
    calls = 0
    branch = TreeModel._node

    def counted(self, index):
        nonlocal calls
        calls += 1
        return branch(self, index)

    monkeypatch.setattr(TreeModel, "_node", counted)  # `parent` calls it for each row
    model, tree = panel._model, panel.tree
    tree.hide()  # painting calls it too
    flag = QItemSelectionModel.SelectionFlag
    costs = []
    for last in ("block.9.norm.bias", f"block.{BLOCKS - 1}.norm.bias"):
        tree.setCurrentIndex(model.find("block.0.query.weight"))
        calls = 0
        start, end = (tree.visualRect(tree.currentIndex()), tree.visualRect(model.find(last)))
        tree.setSelection(start.united(end), flag.ClearAndSelect | flag.Rows)
        costs.append(calls / len(tree.selection.rows()))
    assert max(costs) < 1.5 * min(costs), costs


@pytest.fixture
def narrow_panel(workbench, open_file, demo_checkpoint, qtbot):
    narrow_panel = TreePanel(workbench)
    qtbot.addWidget(narrow_panel)
    narrow_panel.show()
    open_file(demo_checkpoint)
    return narrow_panel


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("width", [240, 360, 500, 1200])
def test_the_columns_fit_the_width_and_names_have_priority(
    narrow_panel, workbench, qtbot, width, zeros
):
    view = narrow_panel.tree
    workbench.zero_counter.stop()
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=zeros)
    columns = [column for column in TreeColumn if zeros or column != TreeColumn.ZEROS]
    narrow_panel.resize(width, 400)

    def fits():
        shown = [column for column in TreeColumn if not view.isColumnHidden(column)]
        room, names = view.viewport().width(), view.columnWidth(TreeColumn.NAME)
        assert shown == columns[: len(shown)]
        assert sum(map(view.columnWidth, shown)) <= room
        name_share = MAX_NAME_SHARE_WITH_ZEROS if zeros else MAX_NAME_SHARE
        assert names >= min(view.sizeHintForColumn(TreeColumn.NAME), int(name_share * room))

    qtbot.waitUntil(fits)
    assert width < 700 + 100 * zeros or not view.isColumnHidden(TreeColumn.PARAMETERS)


def test_a_narrow_tree_shows_the_sparsity_without_bars(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(240, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
    assert not view.isColumnHidden(TreeColumn.SPARSITY)
    needed = view.fontMetrics().horizontalAdvance("100.0 %")
    assert view.columnWidth(TreeColumn.SPARSITY) >= needed


def test_a_column_is_shown_again_with_the_width_set_by_the_user(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(1000, 400)
    view.header().resizeSection(TreeColumn.SHAPE, 170)
    narrow_panel.resize(260, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
    narrow_panel.resize(1000, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == 170)


def test_the_shape_column_widens_for_long_shapes_if_there_is_space(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(700, 400)
    needed = view.sizeHintForColumn(TreeColumn.SHAPE)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed)
    names = view.sizeHintForColumn(TreeColumn.NAME)
    beside = narrow_panel.width() - view.viewport().width() + view.columnWidth(TreeColumn.SPARSITY)
    narrow_panel.resize(names + beside + needed - 3, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed - 3)
    assert view.columnWidth(TreeColumn.NAME) == names


def test_in_a_narrow_tree_zeros_in_the_file_take_the_place_of_the_bars(
    narrow_panel, workbench, qtbot
):
    view = narrow_panel.tree
    workbench.zero_counter.stop()
    narrow_panel.resize(360, 400)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SPARSITY))
    with_bar = view.columnWidth(TreeColumn.SPARSITY)
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=True)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) < with_bar
    view.model().show_zeros(FileZeros(), wanted=False)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) == with_bar


@pytest.fixture
def tree(qtbot):
    model = TreeModel()
    model.show(
        ModuleIndex(
            [TensorInfo("dense.weight", (4, 50), "float32"), TensorInfo("dense.ids", (9,), "int64")]
        )
    )
    made = QTreeView()
    qtbot.addWidget(made)
    made.setModel(model)
    made.setItemDelegate(RowDelegate(made, model))
    made.setItemDelegateForColumn(TreeColumn.SPARSITY, ShareBar(made, model))
    made.expandAll()
    made.resize(700, 200)
    made.show()
    return made


def style_of(tree, path, column):
    index = tree.model().find(path).siblingAtColumn(column)
    option = QStyleOptionViewItem()
    option.initFrom(tree)
    tree.itemDelegateForIndex(index).initStyleOption(option, index)
    return option


def test_a_cell_shows_its_text_and_the_name_its_icon(tree):
    name = style_of(tree, "dense.weight", TreeColumn.NAME)
    assert name.text == "weight"
    assert name.icon.cacheKey() == icon("tensor").cacheKey()
    shape = style_of(tree, "dense.weight", TreeColumn.SHAPE)
    assert shape.text == "4 × 50"  # noqa: RUF001
    assert shape.icon.isNull()
    numbers = style_of(tree, "dense.weight", TreeColumn.PARAMETERS)
    assert numbers.text == "200"
    assert numbers.displayAlignment & Qt.AlignmentFlag.AlignRight


def test_parameters_that_cannot_be_pruned_are_grey(tree):
    palette = tree.palette()
    palette.setColor(QPalette.ColorRole.PlaceholderText, "gray")
    tree.setPalette(palette)
    text, faint = QPalette.ColorRole.Text, QPalette.ColorRole.PlaceholderText
    for path, role in (("dense.weight", text), ("dense.ids", faint)):
        option = style_of(tree, path, TreeColumn.NAME)
        assert option.palette.color(text) == palette.color(role)


def test_the_chosen_parameter_is_bold(tree):
    tree.model().emphasize("dense.weight")
    assert style_of(tree, "dense.weight", TreeColumn.NAME).font.bold()
    assert not style_of(tree, "dense.weight", TreeColumn.SHAPE).font.bold()
    assert not style_of(tree, "dense.ids", TreeColumn.NAME).font.bold()


def test_the_bar_is_as_long_as_the_pruned_share(tree):
    def filled():
        """Count the pixels of the bar in the middle of the cell that have the bar's colour."""
        index = tree.model().find("dense.weight").siblingAtColumn(TreeColumn.SPARSITY)
        cell = tree.visualRect(index)
        line, y = tree.viewport().grab(cell).toImage(), cell.height() // 2
        bar = tree.palette().color(QPalette.ColorRole.Highlight)
        return sum(line.pixelColor(x, y) == bar for x in range(line.width()))

    lengths = []
    for pruned in (0, 100, 200):
        tree.model().count({"dense.weight": (pruned, 200)})
        lengths.append(filled())
    assert lengths[0] == 0
    assert lengths[1] > 10
    assert abs(lengths[2] - 2 * lengths[1]) <= 4


def test_select_all_excludes_biases_and_norms_also_if_expanded(panel, qtbot):
    selections = []
    panel.selected.connect(selections.append)
    qtbot.keyClick(panel.tree, Key.Key_A, Modifier.ControlModifier)
    assert selections == [frozenset(f"block.{number}.query.weight" for number in range(BLOCKS))]


def test_expanding_modules_widens_the_name_column(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(330, 400)
    view.collapseAll()
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SHAPE))
    view.expandAll()
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
