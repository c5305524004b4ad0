"""The Qt model of the module tree."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from prune_gui.checkpoint import TensorInfo
from prune_gui.checkpoint.parameters import RawTensor, parameters
from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel
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


def names(model, parent=ROOT):
    """Return the tree as nested dictionaries of names."""
    rows = (model.index(row, 0, parent) for row in range(model.rowCount(parent)))
    return {index.data(): names(model, index) for index in rows}


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
    assert repr(names(model)) == repr(found)  # in this order


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
    names(model)
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
    names(model)
    whole = model.row(model.find("embed.weight")).icon
    model.count({"embed.weight": (3, 40)})
    assert set(changed) == {TreeColumn.SPARSITY, TreeColumn.NAME}
    assert model.row(model.find("embed.weight")).icon != whole
    del changed[:]
    model.count({"embed.weight": (4, 40)})
    assert set(changed) == {TreeColumn.SPARSITY}


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
