"""The units of a coupled group in the Groups view, and picking them by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtCore import Qt
from safetensors.torch import save_file
from small_bert import EMBEDDINGS, FFN, write_bert
from view_page import cells, text
from waiting import change

from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.views.bars import bar_view
from prune_gui.gui.views.bars.data import ScoreOf
from prune_gui.gui.views.groups import view as groups_view
from prune_gui.gui.views.groups.view import GroupsView
from prune_gui.raster.colours import LIGHT
from prune_gui.resources import resource
from prune_gui.session.draft_request import StepRequest

UP = "encoder.layer.0.intermediate.dense.weight"
DOWN = "encoder.layer.0.output.dense.weight"
QUERY = "encoder.layer.1.attention.self.query.weight"
KEY = "encoder.layer.1.attention.self.key.weight"
ONCE = torch.tensor([3.0, 1, 4, 11, 5, 9, 2, 6, 0, 7, 8, 10])
"""Each score once."""
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def groups(bench, tmp_path, shown):
    view = shown(GroupsView(bench))
    bench.open_and_choose(write_bert(tmp_path), UP)
    return view


@pytest.fixture
def draft(bench, groups, qtbot):
    panel = DraftPanel(bench)
    qtbot.addWidget(panel)
    return panel


def _coupled(bench, **fields):
    fields = {"targets": ["*.intermediate.dense.weight"], "space": "ffn", "amount": 5} | fields
    return bench.step("coupled", **fields)


def _listed(bench, *units):
    return bench.step("listed_units", targets=[UP], space="ffn", units=list(units))


def _click(groups, hand, bench, unit):
    hand.click(groups._plot, hand.point(groups._plot, unit, 0.1))
    bench.until_idle()


def _drafted(bench):
    step = bench.draft.current.step
    return step.method.name, step.method.listed_units, step.targets


def test_the_units_and_the_tensors_that_have_them_are_shown(groups, bench):
    assert groups._group_box.currentText() == "FFN neurons · encoder.layer.0"
    assert text(groups, "Number of units") == "12 units, 0 pruned"
    assert cells(groups._members) == [
        ["intermediate.dense.weight", "1 of dim 0", "output", "0.0 %"],
        ["intermediate.dense.bias", "1 of dim 0", "bias", "0.0 %"],
        ["output.dense.weight", "1 of dim 1", "input", "0.0 %"],
    ]
    assert cells(groups._overview) == [["0", "12 of 12"], ["1", "12 of 12"]]
    bench.add(_coupled(bench))
    assert text(groups, "Number of units") == "12 units, 5 pruned"
    assert [row[-1] for row in cells(groups._members)] == ["41.7 %"] * 3
    assert cells(groups._overview) == [["0", "7 of 12"], ["1", "7 of 12"]]


def test_pruned_units_have_the_colour_of_their_step_and_the_cut_is_a_line(groups, bench, share_of):
    assert share_of(groups._plot, LIGHT.of(1)) == 0
    bench.add(_coupled(bench))
    assert share_of(groups._plot, LIGHT.of(1)) > 0.02
    assert "step&nbsp;1:&nbsp;Coupled&nbsp;units&nbsp;5" in groups.legend()
    found = groups._data
    cut = groups._plot._cut
    assert (cut.isVisible(), cut.value()) == (True, pytest.approx(found.units.cut))
    assert groups._plot.plotItem.getAxis("left").labelText == "score in step 1"


def test_scores_from_a_file_are_shown_with_its_name(groups, bench, tmp_path):
    path = tmp_path / "scores.safetensors"
    save_file({"encoder.layer.1.ffn": torch.arange(12.0), "encoder.layer.0.ffn": ONCE}, path)
    axis = groups._plot.plotItem.getAxis("left")
    bench.add(_coupled(bench, importance=str(path)))
    assert np.array_equal(groups._data.units.norms, ONCE)
    assert groups._data.units.cut == 4
    assert axis.labelText == "score in step 1, from scores.safetensors"
    bench.draft_step(_coupled(bench, amount=6, importance=str(path)))
    assert axis.labelText == "score in the draft, from scores.safetensors"


def test_layers_that_a_file_ranks_are_shown_with_scores_and_cut(groups, bench, draft, tmp_path):
    path = tmp_path / "scores.safetensors"
    save_file({"encoder.layer": torch.tensor([3.0, 2.0])}, path)
    draft._show_step(bench.step("layers", targets=["*"], amount=1, importance=str(path)))
    draft.preview.click()
    groups._group_box.activated.emit(groups._group_box.findText("layers · encoder.layer"))
    bench.until_idle()
    found = groups._data
    assert found.group.space == "layers"
    assert (found.units.norms.tolist(), found.units.cut) == ([3.0, 2.0], 2.0)
    assert found.pruned_by.tolist() == [0, 1]
    assert groups._plot._cut.isVisible()
    groups._toggle(0)
    bench.until_idle()
    assert _drafted(bench)[:2] == ("layers", (0, 1))


def test_many_units_are_points_in_the_colour_of_their_step(groups, bench, monkeypatch, share_of):
    monkeypatch.setattr(bar_view, "MAX_BARS", 3)
    bench.add(_coupled(bench))
    assert share_of(groups._plot, LIGHT.of(1)) > 0
    drawn = [item.getData() for item in groups._plot._items]
    assert sorted(np.concatenate([x for x, _ in drawn]).tolist()) == list(range(FFN))
    assert "a&nbsp;point&nbsp;per&nbsp;unit" in groups.legend()
    monkeypatch.setattr(groups_view, "MAX_POINTS", 3)
    groups.refresh()
    bench.until_idle()
    assert "maximum&nbsp;of&nbsp;4&nbsp;units" in groups.legend()
    assert share_of(groups._plot, LIGHT.of(1)) == 0


def test_a_click_on_a_unit_drafts_it_and_a_second_click_keeps_it(groups, bench, draft, hand):
    _click(groups, hand, bench, 4)
    assert _drafted(bench) == ("listed_units", (4,), (UP,))
    assert groups._data.pruned_by[4] == 1
    assert groups._data.draft == 1
    _click(groups, hand, bench, 7)
    _click(groups, hand, bench, 4)
    assert _drafted(bench) == ("listed_units", (7,), (UP,))
    _click(groups, hand, bench, 7)
    assert bench.draft.current is None


def test_a_click_while_the_view_waits_for_another_parameter_has_no_effect(groups, bench, draft):
    bench.choose(QUERY)
    assert groups.picture() is not None
    groups._plot.picked.emit(3, False)
    groups._plot.banded.emit(3, 5, True)
    bench.until_idle()
    assert bench.draft.current is None


def test_a_unit_that_a_step_pruned_is_not_drafted(groups, bench, draft, hand):
    bench.add(_listed(bench, 4))
    _click(groups, hand, bench, 4)
    assert bench.draft.current is None
    assert text(groups, "Unit under the cursor").endswith("pruned by step 1: Listed units")


def test_a_drag_with_shift_drafts_a_range(groups, bench, draft, hand):
    plot = groups._plot
    hand.drag(plot, hand.point(plot, 2, 0.1), hand.point(plot, 5, 0.1), SHIFT)
    bench.until_idle()
    assert _drafted(bench) == ("listed_units", (2, 3, 4, 5), (UP,))


def test_units_can_be_drafted_with_the_keyboard(groups, bench, draft, qtbot):
    groups._sorted.click()
    bench.until_idle()
    smallest = int(groups._data.units.norms.argmin())
    for key in (Qt.Key.Key_Home, Qt.Key.Key_Space):
        qtbot.keyClick(groups._plot, key)
    bench.until_idle()
    assert _drafted(bench) == ("listed_units", (smallest,), (UP,))
    assert text(groups, "Unit under the cursor").startswith(f"unit {smallest}: ")
    qtbot.keyClick(groups._plot, Qt.Key.Key_Return)
    bench.until_idle()
    assert bench.draft.current is None


def test_a_click_on_a_member_or_a_group_chooses_its_tensor(groups, bench):
    groups._members.selectRow(2)
    bench.until_idle()
    assert bench.chosen == DOWN
    assert groups._data.group.label == "encoder.layer.0"
    groups._overview.selectRow(1)
    bench.until_idle()
    assert bench.chosen == UP.replace(".0.", ".1.")
    assert text(groups, "Number of units") == "12 units, 0 pruned"
    assert groups._group_box.currentText() == "FFN neurons · encoder.layer.1"
    selected = [index.row() for index in groups._members.selectionModel().selectedRows()]
    assert selected == [0]


def test_a_parameter_without_units_has_a_message_and_no_picture(groups, bench):
    bench.choose(EMBEDDINGS)
    bench.until_idle()
    assert groups.picture() is None
    assert groups.table() is None
    assert groups._message.text().startswith("This parameter belongs to no coupled units of a ")
    bench.choose(QUERY)
    bench.until_idle()
    assert groups.picture() is groups._plot


def test_the_cut_of_a_step_is_dragged_and_prunes_the_units_below_it(groups, bench, draft, hand):
    bench.add(_coupled(bench, scope="global"))
    plot, units = groups._plot, groups._data.units
    wanted = float(np.sort(units.norms)[8:10].mean())
    hand.drag(plot, hand.point(plot, 6, units.cut), hand.point(plot, 6, wanted))
    bench.until_idle()
    found = groups._data
    assert found.units.by == ScoreOf(1)
    assert found.draft == 1
    at = plot._cut.value()
    assert at == pytest.approx(wanted, rel=0.05)
    assert found.pruned_by.astype(bool).tolist() == (found.units.norms <= at).tolist()


def test_a_cut_that_prunes_nothing_stays_and_can_be_dragged_up_again(groups, bench, draft, hand):
    draft._show_step(_coupled(bench))
    draft.preview.click()
    bench.until_idle()
    plot, units = groups._plot, groups._data.units
    hand.drag(plot, hand.point(plot, 6, units.cut), hand.point(plot, 6, 0.0))
    bench.until_idle()
    assert bench.draft.current.step.method.amount == 0
    assert groups._data.units.by == ScoreOf(1)
    assert plot._cut.isVisible()
    wanted = float(np.sort(units.norms)[2:4].mean())
    hand.drag(plot, hand.point(plot, 6, 0.0), hand.point(plot, 6, wanted))
    bench.until_idle()
    assert bench.draft.current.step.method.amount > 0


def test_what_remains_of_dead_units_is_drafted_from_the_view(groups, bench, draft):
    label = groups._dead
    assert not label.isVisible()
    bench.add(bench.step("channels", targets=[DOWN], channels=[2, 3], dim=1))
    assert label.isVisible()
    assert "2&nbsp;dead&nbsp;units" in label.text()
    label.linkActivated.emit("dead")
    bench.until_idle()
    assert bench.draft.current.step.method.name == "dead_units"
    assert groups._data.pruned_by.nonzero()[0].tolist() == [2, 3]
    assert not label.isVisible()


def test_it_follows_the_units_of_the_draft(groups, bench, draft):
    bench.show(QUERY)
    assert groups._data.group.space == "heads"
    draft.change(StepRequest(_coupled(bench)))
    bench.until_idle()
    assert (groups._data.group.space, groups._data.group.size) == ("ffn", FFN)
    draft.preview.setChecked(False)
    bench.show(KEY)
    assert groups._data.group.space == "heads"


def test_units_of_a_kind_without_a_method_have_a_reason(groups, bench, draft, hand, tmp_path):
    assert text(groups, "Table of the architecture") == "BERT"
    assert text(groups, "Unit under the cursor").startswith("Click a unit")
    table = Path(resource("architectures") / "bert.yaml").read_text()
    own = tmp_path / "own.yaml"
    own.write_text(table.replace("  ffn:", "  cells:").replace("family: BERT", "family: Mine"))
    with change(hand._qtbot, bench, "resolution"):
        bench.edit(lambda session: session.use_table(own))
    bench.until_idle()
    assert text(groups, "Table of the architecture") == "Mine, table own.yaml"
    assert groups._pointed.accessibleDescription().startswith(
        "No step prunes units of the kind 'cel"
    )
    _click(groups, hand, bench, 4)
    assert bench.draft.current is None


def test_the_table_for_export_has_the_units_in_the_order_on_the_screen(groups, bench):
    bench.add(_coupled(bench))
    groups._sorted.click()
    bench.until_idle()
    rows = list(groups.table().rows)
    scores = groups._data.units.norms
    assert [row[0] for row in rows] == np.argsort(scores).tolist()
    assert [row[3] for row in rows] == ["step 1: Coupled units"] * 5 + [""] * 7
    assert groups.table().headers[:4] == ("unit", "name", "score", "pruned by")
