import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel
from safetensors.torch import load_file, save_file

from prune_gui.audit.rendering.colours import LIGHT
from prune_gui.audit.rendering.compare_picture import Shades
from prune_gui.gui.views.compare.compare_view import CompareView
from prune_gui.gui.views.compare.overlap_table import OverlapTable
from prune_gui.gui.views.maps.viewport import Viewport

SHADES = Shades.of(LIGHT)


@pytest.fixture
def compare(bench, checkpoint, shown):
    view = shown(CompareView(bench, Viewport()))
    view.resize(900, 700)
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


@pytest.fixture
def other(checkpoint):
    """Return another checkpoint: half of fc.weight is zero, and conv.weight has another shape."""
    tensors = load_file(checkpoint)
    tensors["fc.weight"][:4] = 0
    tensors["conv.weight"] = torch.ones(3, 3)
    del tensors["other.weight"]
    path = checkpoint.with_name("other.safetensors")
    save_file(tensors, path)
    return path


def _box(compare):
    return next(
        b for b in compare.findChildren(QComboBox) if b.accessibleName() == "What to compare with"
    )


def _choose(compare, bench, text):
    box = _box(compare)
    index = box.findText(text)
    assert index >= 0
    box.setCurrentIndex(index)
    box.activated.emit(index)
    bench.until_idle()


def _text(compare, name):
    [label] = [label for label in compare.findChildren(QLabel) if label.accessibleName() == name]
    return label.text().replace("&nbsp;", " ")


def _sight(plot):
    (left, right), (top, bottom) = plot.view.viewRange()
    return left, right, top, bottom


def _row(compare, name):
    model = compare.findChild(OverlapTable).model()
    rows = {model.index(i, 0).data(): i for i in range(model.rowCount())}
    return [model.index(rows[name], column).data() for column in range(1, 5)]


def test_the_file_is_on_the_left_and_the_stack_on_the_right(compare, bench, share_of):
    bench.add(bench.step(amount=24))
    assert _box(compare).currentText() == "The original file"
    assert _text(compare, "What the right picture shows") == "Right: the stack"
    assert share_of(compare._left, SHADES.right) == 0
    assert share_of(compare._left, SHADES.kept) == pytest.approx(
        2 * share_of(compare._right, SHADES.right), rel=0.1
    )
    assert "only right 24 (50.0 %)" in _text(compare, "Legend")
    assert _row(compare, "fc.weight") == ["0", "0", "24", "0.000"]
    assert "24 only right" in _text(compare, "All parameters that can be compared")


def test_a_state_per_step_is_offered(compare, bench):
    texts = [_box(compare).itemText(i) for i in range(_box(compare).count())]
    assert texts == ["The original file", "Another checkpoint…"]
    bench.add(bench.step(amount=6), bench.step(amount=6), bench.step(amount=6))
    texts = [_box(compare).itemText(i) for i in range(_box(compare).count())]
    assert texts == [
        "The original file",
        "The stack up to step 1: L1 unstructured",
        "The stack up to step 2: L1 unstructured",
        "The stack without the draft",
        "Another checkpoint…",
    ]


def test_a_state_of_the_stack_has_what_its_steps_pruned(compare, bench):
    bench.add(bench.step(amount=6), bench.step(amount=18))
    _choose(compare, bench, "The stack up to step 1: L1 unstructured")
    assert _row(compare, "fc.weight") == ["6", "0", "18", "0.250"]
    assert "IoU 0.250" in _text(compare, "Legend")


def test_comparing_with_the_stack_without_the_draft_shows_the_draft_alone(compare, bench, share_of):
    bench.add(bench.step(amount=6))
    _choose(compare, bench, "The stack without the draft")
    assert share_of(compare, SHADES.right) < 0.001
    bench.draft_step(bench.step(amount=6))
    assert _text(compare, "What the right picture shows") == "Right: the stack and the draft"
    assert _row(compare, "fc.weight") == ["6", "0", "6", "0.500"]
    bench.draft.set(bench.step(amount=1), replaces=0)
    bench.until_idle()
    assert _row(compare, "fc.weight") == ["1", "5", "0", "0.167"]
    assert share_of(compare._left, SHADES.left) > 0.05


def test_removing_the_chosen_step_selects_the_whole_stack(compare, bench):
    bench.add(bench.step(amount=6), bench.step(amount=6))
    _choose(compare, bench, "The stack up to step 1: L1 unstructured")
    bench.edit(lambda session: session.remove(1))
    bench.until_idle()
    assert _box(compare).currentText() == "The stack without the draft"


def test_a_named_state_can_be_compared(compare, bench):
    bench.add(bench.step(amount=6))
    bench.edit(lambda session: session.name_state("gentle"))
    bench.add(bench.step(amount=18))
    bench.edit(lambda session: session.name_state("harsh"))
    bench.edit(lambda session: session.return_to("gentle"))
    bench.until_idle()
    _choose(compare, bench, "Named state: harsh")
    assert _box(compare).currentText() == "Named state: harsh"
    assert _row(compare, "fc.weight") == ["6", "18", "0", "0.250"]
    bench.edit(lambda session: session.undo())
    bench.until_idle()
    assert _row(compare, "fc.weight") == ["24", "0", "0", "1.000"]


@pytest.mark.slow
@pytest.mark.parametrize("another", [False, True])
def test_removing_the_chosen_named_state_selects_the_stack(compare, bench, another):
    bench.add(bench.step(amount=6))
    bench.edit(lambda session: session.name_state("gentle"))
    _choose(compare, bench, "Named state: gentle")
    if another:
        bench.add(bench.step(amount=6))
        bench.edit(lambda session: session.name_state("gentle"))
    else:
        bench.edit(lambda session: session.forget_state("gentle"))
    bench.until_idle()
    assert _box(compare).currentText() == "The stack without the draft"
    assert (_box(compare).findText("Named state: gentle") >= 0) is another


def test_an_unresolvable_state_reports_an_error(compare, bench):
    bench.add(bench.step(amount=6))
    bench.edit(lambda session: session.add(bench.step(amount=1000)))
    bench.edit(lambda session: session.name_state("too much"))
    bench.edit(lambda session: session.undo())
    bench.until_idle()
    _choose(compare, bench, "Named state: too much")
    assert _box(compare).currentText() == "The original file"
    [error] = bench.errors
    assert "1000" in str(error) or "1,000" in str(error)
    bench.errors.clear()


def test_another_checkpoint_is_compared_by_its_zeros(compare, bench, other, monkeypatch, share_of):
    bench.add(bench.step(method="channels", channels=[2, 3, 4, 5], dim=0))
    calls = []
    monkeypatch.setattr(compare._picker, "_ask", lambda *given: calls.append(given) or other)
    _choose(compare, bench, "Another checkpoint…")
    assert calls[0][1] == other.parent
    assert _box(compare).currentText() == "other.safetensors"
    assert _row(compare, "fc.weight") == ["12", "12", "12", "0.333"]
    for plot, shade in ((compare._left, SHADES.left), (compare._right, SHADES.right)):
        assert share_of(plot, shade) == pytest.approx(share_of(plot, SHADES.both), rel=0.1)
    assert bench.comparison.resolution.checkpoint.path == other


def test_cancelling_the_file_dialog_changes_nothing(compare, bench, monkeypatch):
    monkeypatch.setattr(compare._picker, "_ask", lambda *_: None)
    _choose(compare, bench, "Another checkpoint…")
    assert _box(compare).currentText() == "The original file"
    assert bench.comparison.resolution is None


def test_a_missing_parameter_is_reported_and_another_state_can_be_chosen(compare, bench, other):
    bench.comparison.open(other)
    bench.until_idle()
    bench.choose("other.weight")
    bench.until_idle()
    assert compare._reason.isVisible()
    assert "other.safetensors has no parameter other.weight." in compare._reason.text()
    bench.choose("conv.weight")
    bench.until_idle()
    assert "has shape [3, 3], but [4, 3, 5, 2]" in compare._reason.text()
    _choose(compare, bench, "The original file")
    assert not compare._reason.isVisible()
    assert compare._left.isVisible()


def test_the_total_says_how_many_parameters_are_left_out_and_why(compare, bench, other):
    bench.comparison.open(other)
    bench.until_idle()
    total = _text(compare, "All parameters that can be compared")
    assert total.endswith(". Parameters left out: 1 of another shape, 1 not on the left")
    _choose(compare, bench, "The original file")
    assert "left out" not in _text(compare, "All parameters that can be compared")


def test_a_third_checkpoint_replaces_the_other_and_closes_it(compare, bench, other, checkpoint):
    bench.comparison.open(other)
    bench.until_idle()
    before = bench.comparison.resolution.checkpoint
    bench.comparison.open(checkpoint)
    bench.until_idle()
    assert before.source.file.closed
    assert _box(compare).currentText() == checkpoint.name


def test_both_pictures_zoom_and_pan_together(compare, bench, qtbot, hand):
    whole = _sight(compare._left)
    compare._right.setFocus()
    qtbot.keyClick(compare._right, Qt.Key.Key_Plus)
    assert _sight(compare._right)[1] < whole[1]
    assert _sight(compare._left) == pytest.approx(_sight(compare._right))
    plot = compare._right
    hand.drag(plot, hand.point(plot, 2, 2), hand.point(plot, 3, 3))
    bench.until_idle()
    assert _sight(compare._left) == pytest.approx(_sight(compare._right))
    qtbot.keyClick(compare._left, Qt.Key.Key_F)
    assert _sight(compare._right) == pytest.approx(whole, abs=0.01)
    qtbot.keyClick(compare._left, Qt.Key.Key_1)
    assert _sight(compare._left)[1] > 20
    bench.until_idle()


def test_the_element_under_the_cursor_is_described_in_both_states(compare, bench, hand):
    bench.add(bench.step(amount=1.0))
    hand.hover(compare._right, hand.point(compare._right, 3, 2))
    bench.until_idle()
    value = float(bench.session.checkpoint.read("fc.weight")[2, 3])
    assert _text(compare, "Weight under the cursor on both sides") == (
        f"[2, 3]   {value:.6g} kept   |   {value:.6g} pruned by step 1"
    )
    assert compare._left._pinned == (2, 3)


def test_selecting_a_table_row_chooses_its_parameter(compare, bench):
    table = compare.findChild(OverlapTable)
    rows = [table.model().index(i, 0).data() for i in range(table.model().rowCount())]
    assert "steps" not in rows
    table.setCurrentIndex(table.model().index(rows.index("conv.weight"), 0))
    bench.until_idle()
    assert bench.chosen == "conv.weight"
    assert compare.subject.name == "conv.weight"
    bench.choose("fc.bias")
    bench.until_idle()
    assert table.currentIndex().data() == "fc.bias"


def test_the_export_contains_both_pictures_and_their_captions(compare, bench):
    bench.add(bench.step(amount=0.5))
    _choose(compare, bench, "The original file")
    name, what = compare.caption()
    assert name == "fc.weight"
    assert what.endswith(". Left: The original file. Right: the stack")
    taken = compare.picture()
    assert taken.isAncestorOf(compare._left)
    assert taken.isAncestorOf(compare._right)
    assert not taken.findChildren(QComboBox)
    assert not taken.findChildren(OverlapTable)
    assert "only right" in compare.legend().replace("&nbsp;", " ")


def test_the_exported_table_contains_the_patterns_of_both_sides(compare, bench, tmp_path):
    path = tmp_path / "wide.safetensors"
    save_file({"w": torch.arange(1.0, 65).reshape(4, 16)}, path)
    bench.open_and_choose(path, "w")
    bench.add(bench.step("n_m", n=2, m=4, targets=["w"]))
    _choose(compare, bench, "The original file")
    taken = compare.table()
    assert taken.title == "wide.safetensors compared"
    assert list(taken.rows) == [("w", 0, 0, 32, 0.0, 64, "", "2:4, 4:8")]


def test_an_unchanged_view_is_not_rendered_again(compare, bench, monkeypatch):
    requests = []
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments: requests.append(arguments))
    compare.refresh()
    assert requests == []


def test_without_a_parameter_the_view_says_what_to_do(bench, shown):
    view = shown(CompareView(bench, Viewport()))
    assert "Open a checkpoint" in view._message.text()


def test_a_file_of_masks_is_compared_with_a_checkpoint_and_with_other_masks(
    compare, bench, checkpoint, tmp_path
):
    mask = torch.arange(48).reshape(8, 6) % 2 == 0
    save_file({"fc.weight": mask}, tmp_path / "masks.safetensors")
    other = torch.arange(48, dtype=torch.uint8).reshape(8, 6) % 4 // 3
    save_file({"fc.weight": other}, tmp_path / "others.safetensors")
    bench.comparison.open(tmp_path / "masks.safetensors")
    bench.until_idle()
    assert _row(compare, "fc.weight")[:3] == ["0", "24", "0"]
    assert compare._left.isVisible()
    bench.open_and_choose(tmp_path / "others.safetensors", "fc.weight")
    assert compare._left.isVisible()
    assert _row(compare, "fc.weight")[:3] == ["12", "12", "24"]
