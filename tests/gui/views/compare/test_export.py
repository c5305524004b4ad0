"""Exported comparisons, and pictures that are not drawn again."""

import torch
from PySide6.QtWidgets import QComboBox
from safetensors.torch import save_file

from prune_gui.gui.views.parameter_table import ParameterTable


def test_the_export_contains_the_pictures_and_names_both_sides(compare, bench):
    bench.add(bench.step(amount=0.5))
    name, what = compare.caption()
    assert name == "fc.weight"
    assert what.endswith(". Left: The original file. Right: The stack")
    taken = compare.picture()
    assert taken.isAncestorOf(compare.pair.left)
    assert taken.isAncestorOf(compare.pair.right)
    assert not taken.findChildren(QComboBox)
    assert not taken.findChildren(ParameterTable)
    assert "only right" in compare.legend().replace("&nbsp;", " ")


def test_the_exported_table_contains_the_patterns_of_both_sides(compare, bench, tmp_path):
    path = tmp_path / "wide.safetensors"
    save_file({"w": torch.arange(1.0, 65).reshape(4, 16)}, path)
    bench.open_and_choose(path, "w")
    bench.add(bench.step("n_m", n=2, m=4, targets=["w"]))
    taken = compare.table()
    assert taken.title == "wide.safetensors compared"
    assert list(taken.rows) == [("w", 0, 0, 32, 0.0, 64, "", "2:4, 4:8")]


def test_an_unchanged_view_is_not_rendered_again(compare, bench, monkeypatch):
    requests = []
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments, **_: requests.append(arguments))
    compare.refresh()
    assert requests == []
