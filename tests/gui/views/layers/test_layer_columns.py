"""Texts in the table of all parameters. The statistics are made up."""

import numpy as np
import pytest

from prune_gui.checkpoint import TensorInfo, module_tree
from prune_gui.gui.views.layers.columns import columns_of, describe_node, describe_row, zero_columns
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns
from prune_gui.statistics.layer_rows import Grouping, Rows
from prune_gui.table import sorted_rows, table_of

DEAD = {"dead": [4, 0, 0]}


def rows(**of):
    """Return the rows of one module and two parameters."""
    figures = {
        "size": [2, 1, 1],
        "total": [200, 50, 10],
        "counts": [[100, 0, 10], [0, 1, 0]],
        "energy": [8.0, np.nan, 0.0],
        "kept": [6.0, np.nan, 0.0],
        "nan": [0, 0, 0],
        "infinite": [0, 0, 0],
        "channels": [10, 5, 0],
        "dead": [0, 0, 0],
        "dead_in_file": [0, 0, 0],
        "nearly_empty": [0, 0, 1],
        "in_total": [True] * 4,
        **of,
    }
    infos = (
        TensorInfo("m.w", (10, 10), "float32"),
        TensorInfo("tied", (5, 10), "float32", aliases=("other",)),
        TensorInfo("scale", (10,), "float32"),
    )
    groups = Grouping(1, ("m", "tied", "scale"), np.array([0, 0, 1, 2]), np.array([0, 2, 3]))
    arrays = {name: np.array(values) for name, values in figures.items()}
    shapes = tuple(info.shape for info in infos)
    return Rows(groups, infos, shapes, codes=(1, IN_FILE), **arrays)


def titled(title, table_rows):
    [column] = [column for column in columns_of(table_rows, None) if column.title == title]
    return column


def texts(title, table_rows):
    column = titled(title, table_rows)
    return [column.text(table_rows, row) for row in range(len(table_rows))]


def test_unknown_values_look_different_from_undefined_ones():
    assert texts("Kept energy", rows()) == ["75.00 %", "…", "\N{EN DASH}"]
    assert texts("Kept energy", rows(kept=[8.0, np.nan, 0.0]))[0] == "100.00 %"
    assert texts("Sparsity", rows()) == ["50.0 %", "2.0 %", "100.0 %"]


@pytest.mark.parametrize(
    ("of", "row", "expected"),
    [
        ({}, 0, []),
        ({}, 1, ["tied with other"]),
        ({}, 2, ["no weights remain"]),
        ({"counts": [[0, 0, 9], [0, 0, 0]]}, 2, ["only 1 of 10 remain"]),
        ({"nearly_empty": [2, 0, 0]}, 0, ["2 parameters nearly empty"]),
        ({"nan": [3, 0, 0], "infinite": [1, 0, 0]}, 0, ["3 NaN", "1 infinite"]),
        (DEAD, 0, ["4 of 10 output channels dead"]),
        (DEAD | {"dead_in_file": [1, 0, 0]}, 0, ["4 of 10 output channels dead (1 in the file)"]),
        (DEAD | {"dead_in_file": [4, 0, 0]}, 0, ["4 of 10 output channels dead (all in the file)"]),
    ],
)
def test_each_warning_is_shown(of, row, expected):
    table_rows = rows(**of)
    assert table_rows.warnings(row) == expected
    assert texts("Warnings", table_rows)[row] == "; ".join(expected)


def test_the_worst_warnings_come_first():
    table_rows = rows(nan=[1, 0, 0])
    order = sorted_rows(titled("Warnings", table_rows).values(table_rows), descending=True)
    assert order.tolist() == [2, 0, 1]


def test_each_step_has_a_column_and_the_draft_is_named():
    titles = [c.title for c in columns_of(rows(), None) if c.title]
    assert titles[-3:] == ["Pruned", "Step 1", "In the file"]
    assert "Draft" in [c.title for c in columns_of(rows(), 1)]
    assert texts("Step 1", rows()) == ["100", "0", "10"]


def test_a_row_is_described_in_one_line():
    title = "step {}: L1".format
    assert describe_row(rows(), 0, title) == (
        "m (2 parameters): 100 of 200 pruned (50.0 %); all by step 1: L1; "
        "keeps 75.00 % of the energy"
    )
    assert describe_row(rows(), 1, title) == (
        "tied (5 \N{MULTIPLICATION SIGN} 10): 1 of 50 pruned (2.0 %); tied with other"
    )


def test_a_treemap_cell_is_described_with_its_shape_and_sparsity():
    tree = module_tree([TensorInfo("a.b", (2, 3), "float32"), TensorInfo("a.c", (4,), "float32")])

    class Counted:
        counts = {"a.b": (3, 6), "a.c": (1, 4)}  # noqa: RUF012
        counted = frozenset(counts)

    [module] = tree.children
    assert describe_node(module, Counted) == "a (2 parameters): 4 of 10 pruned (40.0 %)"
    assert describe_node(module.children[0], Counted) == (
        "a.b (2 \N{MULTIPLICATION SIGN} 3): 3 of 6 pruned (50.0 %)"
    )


def test_the_exported_table_has_unformatted_numbers_in_the_given_order():
    result = table_of("any", columns_of(rows(), None), rows(), np.array([2, 0, 1]))
    assert result.headers == (
        *("name", "parameters", "shape", "weights", "pruned", "sparsity", "kept energy"),
        *("energy in the file", "energy kept", "pruned by step 1", "pruned in the file"),
        *("NaN", "infinite", "channels", "dead channels", "dead channels in the file", "warnings"),
    )
    lines = [dict(zip(result.headers, row, strict=True)) for row in result.rows]
    assert [line["name"] for line in lines] == ["scale", "m", "tied"]
    assert lines[1]["sparsity"] == 0.5
    assert lines[1]["energy kept"] == 6.0
    assert [line["kept energy"] for line in lines] == [None, 0.75, None]
    assert lines[2]["pruned in the file"] == 1
    assert lines[0]["warnings"] == "no weights remain"


def test_zeros_in_the_file_have_columns_if_there_are_many():
    table_rows = rows()
    infos = [TensorInfo(name, (10, 10), "float32") for name in ("m.w", "m.v")]
    infos += table_rows.infos[1:]
    few = FileZeros({"m.w": 1}, elements=260)
    assert zero_columns(few, table_rows, infos) == ()
    patterns = {"tied": ZeroPatterns(25, 50, (5, 10), "2:4"), "m.w": ZeroPatterns(9, 99, (9, 11))}
    zeros = FileZeros({"m.w": 30, "m.v": 20, "tied": 25}, patterns, elements=260)
    columns = columns_of(table_rows, None, zero_columns(zeros, table_rows, infos))
    assert [column.title for column in columns[1:6]] == [
        *("Sparsity", "Kept energy", "Warnings", "Zero in the file", "Patterns")
    ]
    texts = [[column.text(table_rows, row) for row in range(3)] for column in columns[4:6]]
    assert texts == [["25.0 %", "50.0 %", "0.0 %"], ["", "2:4", ""]]
    exported = table_of("any", columns, table_rows).columns
    assert list(exported["zero in the file"]) == [50, 25, 0]
