"""The view of all parameters."""

import csv
import io

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QGraphicsView, QLabel, QTableView
from safetensors.torch import save_file

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.views import LayersView
from prune_gui.gui.views.layers import layers_view
from prune_gui.gui.views.layers.columns import ENERGY, NAME, PARAMETERS, SPARSITY
from prune_gui.gui.views.layers.treemap_picture import TreemapPicture
from prune_gui.gui.widgets.theme import DARK, LIGHT, Theme

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def layers(bench, checkpoint, shown):
    made = shown(LayersView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return made


def table(view):
    return view.findChild(QTableView)


def cells(view, column):
    model = table(view).model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


def pick(bench, view, name, text):
    [box] = [box for box in view.findChildren(QComboBox) if box.accessibleName() == name]
    box.setCurrentIndex(box.findText(text))
    bench.until_idle()


def one_by_one(*, counted):
    """Have nothing read before the counts are shown, and then a parameter at a time."""
    left = iter([counted])
    return lambda info: next(left, False)


def texts(view):
    return [label.text() for label in view.findChildren(QLabel) if label.isVisible()]


def test_a_click_on_the_picture_of_the_file_before_chooses_nothing(layers, bench, tmp_path):
    save_file({"alone.weight": torch.ones(3, 2)}, tmp_path / "other.safetensors")
    clicked = []

    def click():
        table(layers).selectRow(1)
        clicked.append(cells(layers, NAME)[1])

    bench.opened.connect(click)
    bench.open(tmp_path / "other.safetensors")
    bench.until_idle()
    assert clicked[0] not in bench.session.checkpoint.tensors
    assert bench.chosen in (None, "alone.weight")


def test_it_says_why_there_is_nothing_to_see(bench, shown, tmp_path):
    made = shown(LayersView(bench))
    assert any("Nothing is open" in text for text in texts(made))
    save_file({"ids": torch.tensor([1])}, tmp_path / "ids.safetensors")
    bench.open(tmp_path / "ids.safetensors")
    bench.until_idle()
    assert any("Nothing in ids.safetensors can be pruned" in text for text in texts(made))


def test_every_parameter_has_a_row_and_the_figures_follow_the_recipe(layers, bench, share_of):
    names = [n for n, info in bench.session.checkpoint.tensors.items() if not info.not_prunable]
    assert cells(layers, NAME) == names
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


def test_the_bars_stand_in_the_order_of_the_table(layers, bench):
    table(layers).sortByColumn(PARAMETERS, Qt.SortOrder.DescendingOrder)
    sizes = [int(text.replace(",", "")) for text in cells(layers, PARAMETERS)]
    assert sizes == sorted(sizes, reverse=True)
    assert layers._bars._order.tolist() == layers._model.order.tolist()
    assert layers._bars._chosen == cells(layers, NAME).index("fc.weight")
    bench.add(bench.step(amount=0.5))
    assert cells(layers, PARAMETERS) == [f"{size:,}" for size in sizes]


def test_a_row_a_bar_and_a_cell_choose_their_parameter(layers, bench, hand, qtbot):
    view, names = table(layers), cells(layers, NAME)
    row = names.index("conv.weight")
    at = view.visualRect(view.model().index(row, NAME)).center()
    qtbot.mouseClick(view.viewport(), LEFT, pos=at)
    assert bench.chosen == "conv.weight"
    qtbot.keyClick(view, Qt.Key.Key_Up)
    assert bench.chosen == names[row - 1]
    plot = layers._bars.plots[0]
    there = hand.point(plot, names.index("other.weight"), 50)
    hand.drag(plot, there, there)
    assert bench.chosen == "other.weight"
    assert view.currentIndex().row() == names.index("other.weight")
    pick(bench, layers, "Kind of picture", "Treemap")
    treemap = layers.findChild(TreemapPicture)
    [rect] = [rect for rect, cell, _ in treemap._closed if cell.node.path == "conv.weight"]
    qtbot.mouseMove(treemap, (rect.center() + treemap._room().topLeft()).toPoint())
    assert any(text.startswith("conv.weight (") for text in texts(layers))
    treemap.clicked.emit(next(c.node for _, c, _ in treemap._closed if c.node.path == "fc.weight"))
    assert bench.chosen == "fc.weight"


def test_what_is_said_of_the_row_under_the_cursor_follows_the_recipe(layers, bench, hand):
    plot = layers._bars.plots[0]
    hand.hover(plot, hand.point(plot, cells(layers, NAME).index("fc.weight"), 50))
    [told] = [text for text in texts(layers) if text.startswith("fc.weight (")]
    assert "0 of 48 pruned" in told
    bench.add(bench.step(amount=0.5))
    [told] = [text for text in texts(layers) if text.startswith("fc.weight (")]
    assert "24 of 48 pruned (50.0 %); all by step 1" in told


def test_pointing_at_the_picture_of_the_stack_before_tells_of_that_stack(layers, bench):
    bench.add(bench.step(amount=0.5))
    place, told = cells(layers, NAME).index("fc.weight"), []

    def point():
        layers._bars.pointed.emit(place)
        told.extend(text for text in texts(layers) if text.startswith("fc.weight ("))

    bench.resolved_changed.connect(point)  # the view was told already; its picture is not made
    bench.edit(lambda session: session.remove(0))
    bench.until_idle()
    assert "24 of 48 pruned (50.0 %); all by step 1" in told[0]


def test_another_parameter_is_marked_and_nothing_is_read_for_it(layers, bench, monkeypatch):
    looks = []
    monkeypatch.setattr(bench, "look", lambda *arguments: looks.append(arguments))
    bench.choose("odd.weight")
    assert table(layers).currentIndex().row() == cells(layers, NAME).index("odd.weight")
    assert looks == []


def test_rows_can_be_modules_and_choosing_one_chooses_its_first_parameter(layers, bench):
    pick(bench, layers, "What a row is", "By module, depth 1")
    assert "fc" in cells(layers, NAME)
    view, row = table(layers), cells(layers, NAME).index("conv")
    assert view.currentIndex().row() == cells(layers, NAME).index("fc")
    assert bench.chosen == "fc.weight"
    view.selectRow(row)
    assert bench.chosen == "conv.weight"


def test_many_parameters_begin_as_modules(bench, shown, tmp_path, monkeypatch):
    monkeypatch.setattr(layers_view, "MOST_BARS", 4)
    tensors = {f"layer.{i}.{part}": torch.ones(2) for i in range(3) for part in "abc"}
    save_file(tensors, tmp_path / "many.safetensors")
    made = shown(LayersView(bench))
    bench.open(tmp_path / "many.safetensors")
    bench.until_idle()
    assert cells(made, NAME) == ["layer.0", "layer.1", "layer.2"]
    pick(bench, made, "What a row is", "By parameter")
    assert len(cells(made, NAME)) == 9


def test_counts_show_before_the_weights_are_read(bench, checkpoint, shown, monkeypatch):
    monkeypatch.setattr(layers_view, "a_turn", one_by_one)
    made = shown(LayersView(bench))
    seen = []
    made.pictured.connect(lambda: seen.append((cells(made, ENERGY), texts(made))))
    bench.open_and_choose(checkpoint, "fc.weight")
    told = [(known.count("…"), said) for known, said in seen if known]
    assert [number for number, _ in told] == list(range(7, -1, -1))
    assert "kept energy: 0 % of the weights read" in told[0][1]
    assert not any("of the weights read" in text for text in texts(made))


def test_an_update_leaves_what_it_does_not_change(bench, checkpoint, shown, monkeypatch):
    monkeypatch.setattr(layers_view, "a_turn", one_by_one)
    made = shown(LayersView(bench))
    seen = []
    made.pictured.connect(lambda: made._found and seen.append(made._found.rows))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert len(seen) == 8
    assert all(rows.counts is seen[0].counts for rows in seen)
    bench.add(bench.step(amount=0.5))
    assert seen[-1].counts is not seen[0].counts


def test_a_view_that_nobody_sees_reads_nothing_more(bench, checkpoint, shown, monkeypatch):
    monkeypatch.setattr(layers_view, "a_turn", one_by_one)
    made = shown(LayersView(bench))
    made.pictured.connect(lambda: made.setVisible(not cells(made, NAME)))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert cells(made, ENERGY).count("…") == 7


def test_what_is_counted_never_waits_for_a_large_parameter(monkeypatch):
    large = TensorInfo("w", (layers_view.SMALL,), "float32")
    assert not layers_view.a_turn(counted=False)(large)
    assert layers_view.a_turn(counted=True)(large)
    monkeypatch.setattr(layers_view, "TURN", 0)
    assert not layers_view.a_turn(counted=True)(large)


def test_what_is_odd_is_warned_of(layers):
    warned = dict(zip(cells(layers, NAME), cells(layers, layers_view.WARNINGS), strict=True))
    assert warned["odd.weight"] == "1 NaN; 1 infinite"
    assert warned["fc.weight"] == ""


def test_it_follows_the_theme(layers, bench, qapp, share_of):
    palette, style = qapp.palette(), qapp.style().objectName()
    theme = Theme(qapp, "dark")
    for kind, colour in (("Bars", DARK.kept), ("Treemap", DARK.share(0))):
        pick(bench, layers, "Kind of picture", kind)
        assert share_of(layers, colour) > 0.05
        assert share_of(layers, LIGHT.kept) == 0
        assert share_of(layers, LIGHT.background) < 0.001  # what is selected is written in white
    theme.deleteLater()
    qapp.setStyle(style)
    qapp.setPalette(palette)


def test_the_table_to_take_away_is_the_one_on_the_screen(layers, bench):
    bench.add(bench.step(amount=0.5))
    table(layers).sortByColumn(SPARSITY, Qt.SortOrder.DescendingOrder)
    lines = list(csv.DictReader(io.StringIO(layers.table().to_csv(), newline="")))
    assert [line["name"] for line in lines] == cells(layers, NAME)
    assert lines[0]["name"] == "fc.weight"
    assert lines[0]["shape"] == "8 x 6"
    assert float(lines[0]["sparsity"]) == 0.5
    weights = bench.session.checkpoint.read("fc.weight").double()
    assert float(lines[0]["energy in the file"]) == pytest.approx(float((weights**2).sum()))
    assert layers.caption()[0] == "small.safetensors"


def test_every_part_has_a_name_for_those_who_do_not_see_it(layers):
    kinds = (QComboBox, QTableView, QGraphicsView, TreemapPicture)
    assert all(part.accessibleName() for kind in kinds for part in layers.findChildren(kind))


def test_closing_a_checkpoint_for_another_leaves_nothing_of_the_first(layers, bench, tmp_path):
    save_file({"only": torch.ones(3, 3)}, tmp_path / "other.safetensors")
    bench.open(tmp_path / "other.safetensors")
    bench.until_idle()
    assert cells(layers, NAME) == ["only"]


def test_the_treemap_names_no_colours_that_only_the_bars_have(layers, bench):
    bench.add(bench.step(amount=0.5))
    assert "step&nbsp;1" in layers.legend()
    pick(bench, layers, "Kind of picture", "Treemap")
    assert layers.legend() == ""
    bench.add(bench.step(amount=0.5))
    assert layers.legend() == ""
    pick(bench, layers, "Kind of picture", "Bars")
    assert "step&nbsp;2" in layers.legend()
