import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox
from safetensors.torch import load_file, save_file
from view_page import options, text

from prune_gui.gui.views.compare import control_bars
from prune_gui.gui.views.compare.data import Shades
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.raster.colours import LIGHT
from prune_gui.session import Settings
from prune_gui.session.subjects import OtherCheckpoint, file_text

SHADES = Shades.of(LIGHT)


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


def _box(compare, which="left"):
    return compare.sides.pickers[which]


def _choose(compare, bench, text, which="left"):
    box = _box(compare, which)
    index = box.findText(text)
    assert index >= 0
    box.setCurrentIndex(index)
    box.activated.emit(index)
    bench.until_idle()


def _rows(compare):
    model = compare.findChild(ParameterTable).model()
    cells = range(model.columnCount())
    return [[model.index(i, column).data() for column in cells] for i in range(model.rowCount())]


def _row(compare, name):
    """Return the sparsity before and after, and the IoU."""
    shown = name.removesuffix(".weight")
    _, _, before, after, _, iou, _ = next(row for row in _rows(compare) if row[0] == shown)
    return [before, after, iou]


def test_the_file_is_on_the_left_and_the_stack_on_the_right(compare, bench, share_of):
    bench.add(bench.step(amount=24))
    assert _box(compare).currentText() == "The file as opened"
    assert _box(compare, "right").currentText() == "The stack"
    assert share_of(compare.pictures.pair.left, SHADES.right) == 0
    assert share_of(compare.pictures.pair.left, SHADES.kept) == pytest.approx(
        2 * share_of(compare.pictures.pair.right, SHADES.right), rel=0.1
    )
    assert "pruned only on the right 24 (50.0 %)" in text(compare.pictures, "Legend")
    assert _row(compare, "fc.weight") == ["0.0 %", "50.0 %", "0.000"]


def _offered(compare, which="left"):
    return options(_box(compare, which))


def test_both_sides_offer_the_file_each_step_the_stack_and_the_draft(compare, bench):
    assert _offered(compare) == [
        "The file as opened",
        "This file, no steps yet",
        "Another checkpoint…",
    ]
    bench.add(bench.step(amount=6), bench.step(amount=6))
    assert _offered(compare) == [
        "The file as opened",
        "After step 1: L1 unstructured",
        "After step 2: L1 unstructured",
        "The stack",
        "Another checkpoint…",
    ]
    bench.draft_step(bench.step(amount=6))
    for which in ("left", "right"):
        assert _offered(compare, which)[3:] == [
            "The stack without the draft",
            "The stack and the draft",
            "Another checkpoint…",
        ]


def test_two_steps_can_be_compared_and_exchanged(compare, bench, qtbot):
    bench.add(bench.step(amount=6), bench.step(amount=18))
    _choose(compare, bench, "After step 1: L1 unstructured")
    _choose(compare, bench, "The file as opened", "right")
    assert _row(compare, "fc.weight") == ["12.5 %", "0.0 %", "0.000"]
    qtbot.mouseClick(compare.sides.swap, Qt.MouseButton.LeftButton)
    bench.until_idle()
    assert _box(compare).currentText() == "The file as opened"
    assert _box(compare, "right").currentText() == "After step 1: L1 unstructured"
    assert _row(compare, "fc.weight") == ["0.0 %", "12.5 %", "0.000"]


def test_a_side_whose_step_is_removed_shows_the_file_and_says_so(compare, bench):
    bench.add(bench.step(amount=6), bench.step(amount=6))
    _choose(compare, bench, "After step 2: L1 unstructured")
    bench.edit(lambda session: session.remove(1))
    bench.until_idle()
    assert _box(compare).currentText() == "The file as opened"
    notice = "After step 2 is no longer available. The left side shows: The file as opened."
    assert compare.sides._notice.text() == notice
    _choose(compare, bench, "After step 1: L1 unstructured")
    assert not compare.sides._notice.isVisible()


def test_a_side_follows_its_named_state(compare, bench):
    bench.add(bench.step(amount=6))
    bench.edit(lambda session: session.name_state("gentle"))
    _choose(compare, bench, "Named state: gentle")
    bench.add(bench.step(amount=18))
    bench.edit(lambda session: session.name_state("gentle"))
    bench.until_idle()
    assert _box(compare).currentText() == "Named state: gentle"
    assert _row(compare, "fc.weight") == ["50.0 %", "50.0 %", "1.000"]


def test_an_unresolvable_state_reports_an_error(compare, bench):
    bench.add(bench.step(amount=6))
    bench.edit(lambda session: session.add(bench.step(amount=1000)))
    bench.edit(lambda session: session.name_state("too much"))
    bench.edit(lambda session: session.undo())
    bench.until_idle()
    _choose(compare, bench, "Named state: too much")
    assert _box(compare).currentText() == "The file as opened"
    [error] = bench.errors
    assert "1000" in str(error) or "1,000" in str(error)
    bench.errors.clear()


def test_another_checkpoint_is_compared_by_its_zeros(compare, bench, other, monkeypatch, share_of):
    bench.add(bench.step(method="channels", channels=[2, 3, 4, 5], dim=0))
    calls = []
    for answer in (None, other):
        ask = lambda *given, answer=answer: calls.append(given) or answer  # noqa: E731
        monkeypatch.setattr(control_bars, "ask_checkpoint", ask)
        assert _box(compare).currentText() == "The file as opened"
        _choose(compare, bench, "Another checkpoint…")
    assert calls[0][1] == other.parent
    assert _box(compare).currentText() == file_text(other)
    assert _row(compare, "fc.weight") == ["50.0 %", "50.0 %", "0.333"]
    pair = compare.pictures.pair
    for plot, shade in ((pair.left, SHADES.left), (pair.right, SHADES.right)):
        assert share_of(plot, shade) == pytest.approx(share_of(plot, SHADES.both), rel=0.1)


def test_a_side_without_the_parameter_says_so_and_the_other_is_shown(
    compare, bench, other, share_of
):
    bench.add(bench.step(amount=24, targets=["other.weight"]))
    bench.comparison.open(other)
    bench.show("other.weight")
    left, right = compare.pictures.pair.messages
    assert "other.safetensors has no parameter other.weight." in left
    assert right == ""
    assert not compare.pictures.pair.left.isVisible()
    assert share_of(compare.pictures.pair.right, SHADES.right) > 0.1
    compare.pictures.pair.right.zoom(0.5)
    bench.until_idle()
    assert share_of(compare.pictures.pair.right, SHADES.right) > 0.1
    bench.show("conv.weight")
    assert "has shape [3, 3], but [4, 3, 5, 2]" in compare.pictures.pair.messages[0]
    _choose(compare, bench, "The file as opened")
    assert compare.pictures.pair.messages == ("", "")
    assert compare.pictures.pair.left.isVisible()


def test_the_total_says_how_many_parameters_are_left_out(compare, bench, other):
    bench.comparison.open(other)
    bench.until_idle()
    total = text(compare, "All parameters that can be compared")
    assert total.endswith(
        ". 1 parameter has another shape: what it lost is not known"
        ". 1 parameter is not on both sides"
    )
    _choose(compare, bench, "The file as opened")
    assert "both sides" not in text(compare, "All parameters that can be compared")


def test_recent_files_that_exist_are_offered_when_the_list_opens(
    compare, bench, other, checkpoint, tmp_path
):
    gone = tmp_path / "gone.safetensors"
    Settings().with_recent(other).with_recent(gone).with_recent(checkpoint).save()
    box = _box(compare, "right")
    box.showPopup()
    bench.until_idle()
    box.hidePopup()
    assert file_text(other) in _offered(compare, "right")
    assert file_text(gone) not in _offered(compare, "right")
    assert file_text(checkpoint) not in _offered(compare, "right")
    _choose(compare, bench, file_text(other), "right")
    assert bench.comparison.chosen["right"] == OtherCheckpoint(other)


def test_all_parameters_are_ranked_by_what_they_lose(compare, bench, qtbot):
    compare.show_list()
    bench.add(bench.step(amount=1.0, targets=["fc.bias"]), bench.step(amount=24))
    first, second, *_ = _rows(compare)
    assert first[:4] == ["fc.bias", "100.0 %", "12.5 %", "100.0 %"]
    assert second[0] == "fc"
    headline = compare.headline
    assert "Most lost: <a" in headline.text()
    assert ">fc.\u200bbias</a>, 100.0&nbsp;%" in headline.text()
    headline.linkActivated.emit("fc.bias")
    assert bench.chosen == "fc.bias"
    compare.table_widget.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    assert _rows(compare)[0][0] == "conv"
    bench.edit(lambda session: session.clear())
    bench.until_idle()
    assert headline.text() == "No energy is lost from left to right."


def test_a_double_click_shows_the_pictures_and_escape_the_list(compare, bench, qtbot):
    compare.show_list()
    table = compare.table_widget
    assert table.isVisible()
    at = table.visualRect(table.model().index(1, 0)).center()
    for click in (qtbot.mouseClick, qtbot.mouseDClick):
        click(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    bench.until_idle()
    assert compare.picture() is compare.pictures.pair
    assert compare.pictures.subject.name == bench.chosen
    assert bench.chosen.removesuffix(".weight") == table.currentIndex().data()
    qtbot.keyClick(compare.window().focusWidget(), Qt.Key.Key_Escape)
    assert table.isVisible()
    qtbot.keyClick(compare.window().focusWidget(), Qt.Key.Key_Return)
    assert compare.pictures.isVisible()
    qtbot.keyClick(compare.window().focusWidget(), Qt.Key.Key_Escape)
    assert not compare.pictures.isVisible()
    cell = compare.grid.rect_of("conv.weight").center().toPoint()
    for click in (qtbot.mouseClick, qtbot.mouseDClick):
        assert not compare.pictures.isVisible()
        click(compare.grid.viewport(), Qt.MouseButton.LeftButton, pos=cell)
    assert compare.pictures.isVisible()
    assert bench.chosen == "conv.weight"


def test_a_heading_of_the_blocks_targets_its_parameters(compare, bench, qtbot):
    compare.show_list()
    with qtbot.waitSignal(bench.draft_wanted) as wanted:
        compare.grid.picked.emit(("fc.weight", "conv.weight"), False)
    assert wanted.args[0].names == {"fc.weight", "conv.weight"}


def test_the_reference_is_the_left_side_and_kept_energy_is_relative_to_it(
    compare, bench, checkpoint, tmp_path
):
    tensors = load_file(checkpoint)
    tensors["fc.weight"][:4] = 0
    pruned = tmp_path / "pruned.safetensors"
    save_file(tensors, pruned)
    bench.open_and_choose(pruned, "fc.weight")
    assert bench.comparison.reference is None
    assert "known with a reference" in compare.headline.text()
    bench.comparison.set_reference(checkpoint)
    bench.until_idle()
    assert bench.comparison.reference.path == bench.model_subject.reference.path == checkpoint
    assert _box(compare).currentText() == file_text(checkpoint)
    assert _row(compare, "fc.weight") == ["0.0 %", "50.0 %", "0.000"]
    compare.show_pictures()
    bench.until_idle()
    assert "pruned only on the right 24" in text(compare.pictures, "Legend")
    bench.comparison.open(checkpoint, "right")
    bench.until_idle()
    bench.open_and_choose(checkpoint, "fc.weight")
    assert _box(compare).currentText() == "The file as opened"
    assert _box(compare, "right").currentText() == "This file, no steps yet"
    assert bench.comparison.reference is bench.session.checkpoint
    bench.open_and_choose(pruned, "fc.weight")
    assert bench.comparison.reference.path == checkpoint
    known = bench.comparison.reference
    _choose(compare, bench, "The file as opened")
    bench.files.reload()
    bench.until_idle()
    assert bench.comparison.reference is known
    assert _box(compare).currentText() == "The file as opened"
    bench.comparison.set_reference(None)
    bench.until_idle()
    assert bench.comparison.reference is None
    assert _box(compare).currentText() == "The file as opened"


def test_a_checkpoint_of_another_network_does_not_stay_beside_the_next_file(
    compare, bench, other, checkpoint, tmp_path
):
    stranger = tmp_path / "stranger.safetensors"
    save_file({"deep.weight": torch.ones(4, 4)}, stranger)
    bench.comparison.open(other, "right")
    bench.until_idle()
    bench.comparison.set_reference(checkpoint)
    bench.until_idle()
    assert _box(compare, "right").currentText() == "This file, no steps yet"
    bench.comparison.open(other, "right")
    bench.until_idle()
    bench.open_and_choose(stranger, "deep.weight")
    assert _box(compare, "right").currentText() == "This file, no steps yet"
    bench.comparison.open(other, "right")
    bench.until_idle()
    assert "No parameter is on both sides" in compare.headline.text()
    assert not bench.errors


def test_a_reference_that_cannot_be_opened_is_none(compare, bench, checkpoint, tmp_path):
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(b"damaged")
    bench.comparison.set_reference(damaged)
    bench.until_idle()
    [error] = bench.errors
    assert "damaged.safetensors" in str(error)
    bench.errors.clear()
    assert bench.session.reference_path is None
    assert bench.comparison.reference is bench.session.checkpoint
    assert _box(compare).currentText() == "The file as opened"


def test_a_reference_that_is_opened_late_is_not_that_of_the_next_file(
    compare, bench, other, checkpoint
):
    bench.files.open(other)
    bench.until_idle()
    bench.comparison.set_reference(checkpoint)
    bench.files.open(checkpoint)
    bench.until_idle()
    assert bench.session.checkpoint.path == checkpoint
    assert _box(compare).currentText() == "The file as opened"


def test_the_pictures_are_joined_again_when_the_divider_or_the_region_moves(
    compare, bench, tmp_path, share_of
):
    path = tmp_path / "large.safetensors"
    save_file({"w": torch.ones(300, 300)}, path)
    bench.open_and_choose(path, "w")
    compare.show_pictures()
    bench.add(bench.step(amount=1.0, targets=["w"]))
    compare.pictures.show_mode("swipe")
    bench.until_idle()
    pair = compare.pictures.pair
    assert compare.window().focusWidget() is pair.divider
    for move in (lambda: pair.left.zoom(0.2), lambda: pair.left.pan(0.3, 0.1)):
        for share in (1.0, 0.0, 0.5):
            pair.divider.move_to(share)
            assert (share_of(pair, SHADES.kept) < 0.01) is (share == 0.0)
            assert (share_of(pair, SHADES.right) < 0.01) is (share == 1.0)
        move()
        assert share_of(pair, SHADES.kept) == pytest.approx(share_of(pair, SHADES.right), rel=0.1)
        bench.until_idle()
    pair.divider.move_to(0.0)
    pair.left.fit()  # the whole picture is joined at the same place
    assert share_of(pair, SHADES.kept) < 0.01
    bench.until_idle()


def test_the_difference_is_one_picture_with_both_colours(compare, bench, share_of):
    bench.add(bench.step(method="channels", channels=[0, 1], dim=0))
    bench.edit(lambda session: session.name_state("rows"))
    bench.edit(lambda session: session.undo())
    bench.add(bench.step(method="channels", channels=[1, 2], dim=0))
    _choose(compare, bench, "Named state: rows")
    compare.pictures.show_mode("difference")
    bench.until_idle()
    assert not compare.pictures.pair.right.isVisible()
    shares = [share_of(compare.pictures.pair, s) for s in (SHADES.left, SHADES.right, SHADES.both)]
    assert shares == pytest.approx([shares[0]] * 3, rel=0.1)
    assert shares[0] > 0.03


def test_selecting_a_table_row_chooses_its_parameter(compare, bench):
    table = compare.findChild(ParameterTable)
    rows = [table.model().index(i, 0).data() for i in range(table.model().rowCount())]
    assert "steps" not in rows
    table.setCurrentIndex(table.model().index(rows.index("conv"), 0))
    bench.until_idle()
    assert bench.chosen == "conv.weight"
    assert compare.pictures.subject.name == "conv.weight"
    bench.show("fc.bias")
    assert table.currentIndex().data() == "fc.bias"


def test_the_export_contains_the_pictures_and_names_both_sides(compare, bench):
    bench.add(bench.step(amount=0.5))
    name, what = compare.caption()
    assert name == "fc.weight"
    assert what.endswith(". Left: The file as opened. Right: The stack")
    taken = compare.picture()
    assert taken.isAncestorOf(compare.pictures.pair.left)
    assert taken.isAncestorOf(compare.pictures.pair.right)
    assert not taken.findChildren(QComboBox)
    assert not taken.findChildren(ParameterTable)
    assert "pruned only on the right" in compare.legend().replace("&nbsp;", " ")


def test_the_exported_table_has_what_every_parameter_loses(compare, bench, tmp_path):
    path = tmp_path / "wide.safetensors"
    save_file({"w": torch.full((4, 16), 2.0)}, path)
    bench.open_and_choose(path, "w")
    bench.add(bench.step("n_m", n=2, m=4, targets=["w"]))
    taken = compare.table()
    assert taken.title == "wide.safetensors compared"
    assert list(taken.rows) == [("w", 0.5, 0.0, 0.5, 128**0.5, 0.0)]


def test_equal_running_statistics_are_not_listed(compare, bench, tmp_path):
    path = tmp_path / "norm.safetensors"
    save_file({"n.weight": torch.ones(4), "n.running_var": torch.full((4,), 1e4)}, path)
    bench.open_and_choose(path, "n.weight")
    bench.add(bench.step(amount=2, targets=["n.weight"]))
    compare.show_list()
    assert [row[0] for row in _rows(compare)] == ["n"]
    assert text(compare, "All parameters that can be compared").endswith(
        "50.0 % of the energy lost"
    )


def test_another_comparison_begins_at_the_top_of_the_list(compare, bench, tmp_path):
    path = tmp_path / "deep.safetensors"
    save_file({f"layer.{row}.weight": torch.ones(4) for row in range(200)}, path)
    compare.show_list()
    bench.open_and_choose(path, "layer.150.weight")
    bar = compare.table_widget.verticalScrollBar()
    bar.setValue(bar.maximum())
    bench.add(bench.step(amount=2, targets=["layer.150.weight"]))
    assert bar.value() == 0
    assert _rows(compare)[0][0] == "layer.150"


@pytest.mark.parametrize("width", [590, 860])
def test_a_small_window_has_more_space_for_the_overview_than_for_the_list(compare, bench, width):
    compare.resize(width, 640)
    compare.show_list()
    bench.until_idle()
    assert compare.grid.geometry().top() > compare.table_widget.geometry().bottom()
    assert compare.grid.height() > 1.5 * compare.table_widget.height()
