"""The view of all parameters."""

import csv
import io

import pytest
import torch
from PySide6.QtCore import QRectF, Qt
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QTableView, QToolButton
from safetensors.torch import save_file
from view_page import choose, visible_texts

from prune_gui.gui.views.layers import columns as layer_columns
from prune_gui.gui.views.layers import data as layers_data
from prune_gui.gui.views.layers import layer_bars
from prune_gui.gui.views.layers.treemap_picture import TreemapPicture
from prune_gui.gui.views.layers.view import AmountEditor, LayersView
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.session import Settings
from prune_gui.session.draft_request import AmountRequest, SharesRequest
from prune_gui.statistics import dispatch

LEFT = Qt.MouseButton.LeftButton
TITLES = [column.title for column in layer_columns.LAYER_COLUMNS]
NAME, SPARSITY, ENERGY, PARAMETERS, WARNINGS = map(
    TITLES.index, ("Name", "Sparsity", "Kept energy", "Parameters", "Warnings")
)


@pytest.fixture(autouse=True)
def biases_are_listed():
    Settings(list_biases=True).save()


@pytest.fixture
def layers(bench, checkpoint, shown):
    view = shown(LayersView(bench))
    view.resize(900, 480)
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


def table(view):
    return view.findChild(QTableView)


def cells(view, column):
    model = table(view).model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


def one_by_one(*, counted):
    """Replace `read_budget`: read nothing before the counts are shown, then one parameter per
    slice."""
    left = iter([counted])
    return lambda info: next(left, False)


def test_a_click_on_the_picture_of_the_previous_file_chooses_nothing(layers, bench, tmp_path):
    save_file({"alone.weight": torch.ones(3, 2)}, tmp_path / "other.safetensors")
    clicked = []

    def click(changes):
        if not changes.file:
            return
        table(layers).selectRow(1)
        clicked.append(cells(layers, NAME)[1])

    bench.changed.connect(click)
    bench.files.open(tmp_path / "other.safetensors")
    bench.until_idle()
    assert clicked[0] not in bench.session.checkpoint.tensors
    assert bench.chosen in (None, "alone.weight")


def test_the_view_shows_why_there_is_no_picture(bench, shown, tmp_path):
    view = shown(LayersView(bench))
    assert any("Nothing is open" in text for text in visible_texts(view))
    save_file({"ids": torch.tensor([1])}, tmp_path / "ids.safetensors")
    bench.files.open(tmp_path / "ids.safetensors")
    bench.until_idle()
    assert any("Nothing in ids.safetensors can be pruned" in text for text in visible_texts(view))


def test_every_parameter_has_a_row_that_follows_the_recipe(layers, bench, share_of):
    names = [n for n, info in bench.session.checkpoint.tensors.items() if not info.not_prunable]
    assert sorted(cells(layers, NAME)) == sorted(names)
    names = cells(layers, NAME)
    assert set(cells(layers, SPARSITY)) == {"0.0 %"}
    assert share_of(layers, LIGHT.steps[0]) == 0
    bench.add(bench.step(amount=0.5))
    row = names.index("fc.weight")
    assert cells(layers, SPARSITY)[row] == "50.0 %"
    weights = bench.session.checkpoint.read("fc.weight").double()
    kept = weights.abs().flatten().sort().values[24:]
    assert cells(layers, ENERGY)[row] == f"{100 * (kept**2).sum() / (weights**2).sum():.2f} %"
    assert share_of(layers, LIGHT.steps[0]) > 0.005
    bench.draft_step(bench.step("random_unstructured", amount=0.9, targets=["other.*"]))
    assert share_of(layers, LIGHT.draft) > 0.005
    headings = [table(layers).model().headerData(i, Qt.Orientation.Horizontal) for i in range(9)]
    assert headings[-2:] == ["Step 1", "Draft"]


def test_the_bars_have_the_order_of_the_table(layers, bench):
    table(layers).sortByColumn(PARAMETERS, Qt.SortOrder.DescendingOrder)
    sizes = [int(text.replace(",", "")) for text in cells(layers, PARAMETERS)]
    assert sizes == sorted(sizes, reverse=True)
    assert layers._bars._order.tolist() == layers._model.order.tolist()
    assert layers._bars._chosen == cells(layers, NAME).index("fc.weight")
    bench.add(bench.step(amount=0.5))
    assert cells(layers, PARAMETERS) == [f"{size:,}" for size in sizes]


def test_rows_bars_and_cells_choose_their_parameter(layers, bench, hand, qtbot):
    view, names = table(layers), cells(layers, NAME)
    row = names.index("conv.weight")
    at = view.visualRect(view.model().index(row, NAME)).center()
    qtbot.mouseClick(view.viewport(), LEFT, pos=at)
    assert bench.chosen == "conv.weight"
    qtbot.keyClick(view, Qt.Key.Key_Up)
    assert bench.chosen == names[row - 1]
    plot = layers._bars.plots[0]
    position_on_plot = hand.point(plot, names.index("other.weight"), 50)
    hand.drag(plot, position_on_plot, position_on_plot)
    assert bench.chosen == "other.weight"
    assert view.currentIndex().row() == names.index("other.weight")
    choose(layers, "Kind of picture", "Treemap")
    bench.until_idle()
    treemap = layers.findChild(TreemapPicture)
    drawn = {cell.node.path: cell for cell in treemap.shown.cells}
    rect = QRectF(*drawn["conv.weight"].rect)
    qtbot.mouseMove(treemap, (rect.center() + treemap._map_rect().topLeft()).toPoint())
    assert any(text.startswith("conv.weight (") for text in visible_texts(layers))
    treemap.clicked.emit(drawn["fc.weight"].node)
    assert bench.chosen == "fc.weight"


@pytest.fixture
def requests(layers, bench):
    wanted = []
    bench.draft_wanted.connect(wanted.append)
    return wanted


def drag_bar(hand, view, name, start, stop):
    plot, x = view._bars.plots[0], cells(view, NAME).index(name)
    hand.drag(plot, hand.point(plot, x, start), hand.point(plot, x, stop))


def visible_button(editor):
    [button] = [one for one in editor.findChildren(QToolButton) if one.isVisible()]
    return button


def test_the_end_of_a_bar_drags_the_amount_of_its_parameter(layers, bench, hand, requests):
    bench.add(
        bench.step("random_unstructured", amount=0.25, targets=["*.weight"]),
        bench.step(amount=0.5, targets=["other.weight"]),
    )
    bench.draft_step(bench.step(amount=0.5, targets=["other.weight"]))
    drag_bar(hand, layers, "other.weight", 25, 50)  # 12 of 48 are pruned by the first step
    assert bench.chosen == "other.weight"
    first = requests[-1]
    assert (first.name, first.step) == ("other.weight", 1)
    assert first.amount == pytest.approx(0.5, abs=0.01)
    drag_bar(hand, layers, "other.weight", 62.5, 85)
    assert requests[-1].step == 2
    assert requests[-1].amount == pytest.approx((0.85 - 0.25) / 0.75, abs=0.01)
    drag_bar(hand, layers, "other.weight", 81.25, 0)
    assert requests[-1] == AmountRequest("other.weight", 0.0)
    number = len(requests)
    drag_bar(hand, layers, "other.weight", 40, 70)  # not at the end of a segment
    drag_bar(hand, layers, "scale", 0, 50)  # not a target of any step
    assert len(requests) == number


def test_bars_of_steps_that_rank_all_targets_together_cannot_be_dragged(
    layers, bench, hand, requests
):
    bench.add(bench.step("lamp", amount=0.5, targets=["fc.weight"]))
    drag_bar(hand, layers, "fc.weight", 50, 80)
    assert requests == []
    editor = layers.findChild(AmountEditor)
    take = visible_button(editor)
    take.click()
    assert requests == [SharesRequest(1)]


def test_keys_change_and_reset_the_amount_of_the_chosen_parameter(layers, bench, requests, qtbot):
    editor = layers.findChild(AmountEditor)
    assert not editor.isVisible()
    bench.add(bench.step(amount=0.5, amounts={"fc.*": 0.3}, targets=["fc.weight", "other.weight"]))
    box, reset = editor.findChild(QDoubleSpinBox), visible_button(editor)
    assert box.value() == 30
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert requests == [AmountRequest("fc.weight", 0.31, 1)]
    reset.click()
    assert requests[-1] == AmountRequest("fc.weight", None, 1)
    bench.choose("other.weight")
    assert (box.value(), reset.isEnabled()) == (50, False)
    bench.draft_step(bench.step(amount=7, targets=["other.weight"]))
    assert box.value() == 7
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert requests[-1] == AmountRequest("other.weight", 6)
    bench.choose("scale")
    assert not editor.isVisible()


def test_a_bar_of_a_module_cannot_be_dragged(layers, bench, hand, requests):
    bench.add(bench.step(amount=0.5, targets=["fc.*"]))
    choose(layers, "What a row is", "By module, depth 1")
    bench.until_idle()
    drag_bar(hand, layers, "fc", 50, 80)
    assert requests == []


def test_hovering_over_an_outdated_picture_describes_what_it_shows(layers, bench):
    bench.add(bench.step(amount=0.5))
    position, descriptions = cells(layers, NAME).index("fc.weight"), []

    def point(changes):
        if not changes.resolution:
            return
        layers._bars.pointed.emit(position)
        descriptions.extend(
            text for text in visible_texts(layers) if text.startswith("fc.weight (")
        )

    bench.changed.connect(point)  # the view was notified first; its new picture is not ready
    bench.edit(lambda session: session.remove(0))
    bench.until_idle()
    assert "24 of 48 pruned (50.0 %); all by step 1" in descriptions[0]
    assert any("0 of 48 pruned" in text for text in visible_texts(layers))


def test_choosing_another_parameter_marks_it_without_reading(layers, bench, monkeypatch):
    requests = []
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments, **_: requests.append(arguments))
    bench.choose("odd.weight")
    assert table(layers).currentIndex().row() == cells(layers, NAME).index("odd.weight")
    assert requests == []


def test_selecting_a_module_row_chooses_its_first_parameter(layers, bench):
    choose(layers, "What a row is", "By module, depth 1")
    bench.until_idle()
    assert "fc" in cells(layers, NAME)
    view, row = table(layers), cells(layers, NAME).index("conv")
    assert view.currentIndex().row() == cells(layers, NAME).index("fc")
    assert bench.chosen == "fc.weight"
    view.selectRow(row)
    assert bench.chosen == "conv.weight"


def test_many_parameters_are_grouped_by_module_at_first(bench, shown, tmp_path, monkeypatch):
    monkeypatch.setattr(layers_data, "MAX_BARS", 4)
    tensors = {f"layer.{i}.{part}": torch.ones(2) for i in range(3) for part in "abc"}
    save_file(tensors, tmp_path / "many.safetensors")
    view = shown(LayersView(bench))
    bench.files.open(tmp_path / "many.safetensors")
    bench.until_idle()
    assert cells(view, NAME) == ["layer.0", "layer.1", "layer.2"]
    choose(view, "What a row is", "By parameter")
    bench.until_idle()
    assert len(cells(view, NAME)) == 9


def test_counts_are_shown_before_the_weights_are_read(bench, checkpoint, shown, monkeypatch):
    monkeypatch.setattr(dispatch, "read_budget", one_by_one)
    view = shown(LayersView(bench))
    seen = []
    view.pictured.connect(lambda: seen.append((cells(view, ENERGY), visible_texts(view))))
    bench.open_and_choose(checkpoint, "fc.weight")
    updates = [(energies.count("…"), labels) for energies, labels in seen if energies]
    # The last may come twice: the zeros in the file are counted meanwhile.
    assert list(dict.fromkeys(unknown for unknown, _ in updates)) == list(range(7, -1, -1))
    assert "kept energy: 0 % of the weights read" in updates[0][1]
    assert not any("of the weights read" in text for text in visible_texts(view))


def test_a_hidden_view_stops_reading(bench, checkpoint, shown, monkeypatch):
    monkeypatch.setattr(dispatch, "read_budget", one_by_one)
    view = shown(LayersView(bench))
    view.pictured.connect(lambda: view.setVisible(not cells(view, NAME)))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert cells(view, ENERGY).count("…") == 7


def test_the_view_follows_the_theme(layers, bench, qapp, share_of):
    theme = Theme(qapp, "dark")
    for kind, colour in (("Bars", DARK.kept), ("Treemap", DARK.share(0))):
        choose(layers, "Kind of picture", kind)
        bench.until_idle()
        assert share_of(layers, colour) > 0.05
        assert share_of(layers, LIGHT.kept) == 0
        assert share_of(layers, LIGHT.background) < 0.001  # selected text is white
    theme.deleteLater()


def test_the_exported_table_matches_the_screen(layers, bench):
    bench.add(bench.step(amount=0.5))
    table(layers).sortByColumn(SPARSITY, Qt.SortOrder.DescendingOrder)
    lines = list(csv.DictReader(io.StringIO(layers.table().to_csv(), newline="")))
    assert [line["name"] for line in lines] == cells(layers, NAME)
    assert (lines[0]["name"], lines[0]["shape"], lines[0]["sparsity"]) == (
        "fc.weight",
        "8 x 6",
        "0.5",
    )
    assert layers.caption()[0] == "small.safetensors"


def test_the_treemap_has_the_legend_of_its_scale_in_place_of_that_of_the_bars(layers, bench):
    bench.add(bench.step(amount=0.5))
    assert "step&nbsp;1" in layers.legend()
    choose(layers, "Kind of picture", "Treemap")
    bench.until_idle()
    assert layers.legend().startswith("sparsity")
    bench.add(bench.step(amount=0.5))
    assert layers.legend().startswith("sparsity")
    choose(layers, "Kind of picture", "Bars")
    bench.until_idle()
    assert "step&nbsp;2" in layers.legend()


def test_biases_and_norms_are_listed_if_asked_for_or_if_a_weight_of_them_is_pruned(
    layers, bench, checkpoint, shown
):
    every = cells(layers, NAME)
    box = next(box for box in layers.findChildren(QCheckBox) if box.text() == "Biases and norms")
    box.click()
    bench.until_idle()
    tensors = bench.session.checkpoint.tensors
    matrices = [name for name in every if len(tensors[name].shape) > 1]
    assert 0 < len(matrices) < len(every)
    assert cells(layers, NAME) == matrices
    assert not Settings.load().list_biases
    bench.choose("fc.bias")
    bench.until_idle()
    assert bench.chosen == "fc.bias"
    assert not table(layers).selectionModel().hasSelection()
    bench.draft_step(bench.step(amount=0.5, targets=["fc.bias"]))
    assert cells(layers, NAME) == [name for name in every if name in {*matrices, "fc.bias"}]
    box.click()
    bench.until_idle()
    assert cells(layers, NAME) == every


def test_it_is_remembered_whether_biases_and_norms_are_listed(bench, shown):
    assert shown(LayersView(bench))._small_box.isChecked()
    Settings().save()
    assert not shown(LayersView(bench))._small_box.isChecked()


def test_numbers_are_not_cut_off_beside_the_names(layers, bench):
    header, view = table(layers).horizontalHeader(), table(layers)
    layers.resize(480, 600)
    bench.files.open(bench.session.checkpoint.path)
    bench.until_idle()
    for column in (SPARSITY, ENERGY):
        assert header.sectionSize(column) >= header.sectionSizeHint(column)
        end = header.sectionViewportPosition(column) + header.sectionSize(column)
        assert end <= view.viewport().width()


def test_the_warnings_are_whole_beside_the_names_in_a_small_window(layers, bench):
    header, view = table(layers).horizontalHeader(), table(layers)
    layers.resize(590, 600)
    bench.files.open(bench.session.checkpoint.path)
    bench.until_idle()
    assert header.sectionSize(WARNINGS) >= header.sectionSizeHint(WARNINGS)
    end = header.sectionViewportPosition(WARNINGS) + header.sectionSize(WARNINGS)
    assert end == view.viewport().width()


def test_short_names_leave_room_for_a_warning(layers, bench):
    header, view = table(layers).horizontalHeader(), table(layers)
    layers.resize(690, 600)
    bench.files.open(bench.session.checkpoint.path)
    bench.until_idle()
    assert header.sectionSize(NAME) <= view.sizeHintForColumn(NAME) + 2
    warning = "4 of 64 output channels dead"
    assert header.sectionSize(WARNINGS) > view.fontMetrics().horizontalAdvance(warning) + 8
    end = header.sectionViewportPosition(WARNINGS) + header.sectionSize(WARNINGS)
    assert end <= view.viewport().width()


def test_zeros_in_the_file_are_apart_from_kept_weights_until_there_are_steps(
    layers, bench, tmp_path, share_of
):
    path = tmp_path / "zeros.safetensors"
    half = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    save_file({"w": half, "b": torch.zeros(4)}, path)
    Settings(list_biases=False).save()
    choose_biases = layers.findChild(QCheckBox)
    choose_biases.setChecked(False)
    bench.open_and_choose(path, "w")
    legend = layers.legend().replace("&nbsp;", " ")
    assert "kept 2 (25.0 %)" in legend
    assert "zero in the file 6 (75.0 %)" in legend
    column = [table(layers).model().headerData(i, Qt.Orientation.Horizontal) for i in range(5)]
    assert cells(layers, NAME) == ["w"]
    assert cells(layers, column.index("Zero in the file")) == ["50.0 %"]
    [sparsity, *_] = layers.findChild(layer_bars.LayerBars).plots
    assert share_of(sparsity, LIGHT.zero) == pytest.approx(share_of(sparsity, LIGHT.kept), rel=0.1)
    bench.add(bench.step(amount=0.25, targets=["w"]))
    assert share_of(sparsity, LIGHT.zero) == 0
    assert "zero in the file" not in layers.legend().replace("&nbsp;", " ")
