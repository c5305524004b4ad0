"""The pages with curves, with the sensitivity and with a search."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QAbstractItemModelTester
from waiting import draft_step

from prune_gui.evaluation.evaluation_jobs import MetricCurve
from prune_gui.gui.dialogs import questions
from prune_gui.gui.evaluate.plots import MetricPlot
from prune_gui.gui.evaluate.sweep_tab import CurveList
from prune_gui.gui.figures.figure import Figure, Sheet
from prune_gui.gui.figures.picture import WidgetPanel
from prune_gui.language import SOURCE, tr, use_language
from prune_gui.raster.colours import LIGHT
from prune_gui.session.settings import FigureSettings

TARGETS = "features.conv2.weight"


@pytest.fixture
def sweep(panel, choose):
    """Return the page of curves, with two of the rankings chosen."""
    choose()
    check(panel.sweep, "global L1", "LAMP")
    panel.sweep.targets.setText(TARGETS)
    panel.sweep.amounts.setText("50%, 75%")
    return panel.sweep


def labels_of(sweep):
    return list(sweep.curves.by_label)


def check(sweep, *labels):
    """Choose curves by their labels."""
    for label, item in sweep.curves.by_label.items():
        is_wanted = label in labels
        item.setCheckState(Qt.CheckState.Checked if is_wanted else Qt.CheckState.Unchecked)


def place(sweep, curve, point):
    """Return the position of a point in the plot."""
    drawn = sweep.plot.curves[curve]
    scene = sweep.plot.view.mapViewToScene(QPointF(drawn.sparsity[point], drawn.values[point]))
    return sweep.plot.mapFromScene(scene)


def test_a_single_point_has_the_axis_of_all_sparsities(qtbot):
    plot = MetricPlot("Metric", "sparsity, %")
    qtbot.addWidget(plot)
    curve = MetricCurve("File", ("file",), np.array([0.0]), np.array([0.994]))
    plot.show_curves([curve], {}, "accuracy", LIGHT)
    low, high = plot.view.viewRange()[0]
    assert low < 0 < 100 < high


def test_a_plot_without_curves_has_no_axes_of_others(qtbot):
    plot = MetricPlot("Metric", "sparsity, %")
    qtbot.addWidget(plot)
    plot.show_curves(
        [MetricCurve("L1", (0, 1), np.array([50.0, 90.0]), np.array([20.0, 70.0]))],
        {},
        "loss",
        LIGHT,
    )
    plot.show_curves([], {}, "metric", LIGHT)
    (low, high), (bottom, top) = plot.view.viewRange()
    assert low < 0 < 100 < high < 120
    assert bottom < 0 < 1 < top < 2


def test_curves_have_their_names_at_the_right_where_they_are_apart(qtbot):
    plot = MetricPlot("Metric", "amount, %")
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    ends = {"conv1": 0.2, "conv2": 0.6, "conv3": 0.601, "hidden": math.nan}
    x = np.array([50.0, 90.0])
    curves = [MetricCurve(label, (0, 1), x, np.array([0.99, end])) for label, end in ends.items()]
    plot.show_curves(curves, {}, "accuracy", LIGHT)
    plot.name_curves({label: label for label in ends}, LIGHT)
    with qtbot.waitExposed(plot):
        plot.show()
    plot.grab()  # texts are moved as they are painted
    texts = [item for item in plot.plotItem.items if isinstance(item, pg.TextItem)]
    seen = {text.textItem.toPlainText(): text for text in texts if text.isVisible()}
    assert list(seen) == ["conv1", "conv2"]
    for name, text in seen.items():
        area = text.mapRectToScene(text.boundingRect())
        assert plot.view.sceneBoundingRect().contains(area)
        end = plot.view.mapViewToScene(QPointF(90, ends[name]))
        assert area.contains(end.x() + 1, end.y())
    plot.show_curves(curves[:1], {}, "accuracy", LIGHT)
    assert not any(isinstance(item, pg.TextItem) for item in plot.plotItem.items)


@pytest.fixture
def sheet_of_a_curve(qtbot):
    """Return a function that draws a curve into a file, and the colour of the curve."""
    plot = MetricPlot("Metric", "sparsity, %")
    qtbot.addWidget(plot)
    curve = MetricCurve("L1", (0, 1), np.array([10.0, 90.0]), np.array([0.9, 0.1]))
    plot.show_curves([curve], {"unpruned": 0.95}, "accuracy", LIGHT)
    source = SimpleNamespace(show_selection=plot.show_current)
    panel = WidgetPanel(source, plot, "", "", 0.6)

    def draw(form, dpi=72):
        return Sheet(Figure([panel], "", FigureSettings(legend=False)), form, dpi).finish()

    return draw, plot.shades["L1"]


@pytest.mark.parametrize(("height", "highest"), [(160, 1.3), (600, 1.06)])
def test_the_axis_of_values_ends_above_the_label_of_the_unpruned_value(qtbot, height, highest):
    plot = MetricPlot("Metric", "sparsity, %")
    qtbot.addWidget(plot)
    plot.resize(400, height)
    curve = MetricCurve("L1", (0, 1), np.array([10.0, 90.0]), np.array([0.99, 0.12]))
    plot.show_curves([curve], {"unpruned": 0.994}, "accuracy", LIGHT)
    plot.show()
    top = plot.view.viewRange()[1][1]
    above = plot.view.mapViewToScene(QPointF(0, 0.994)).y() - plot.view.sceneBoundingRect().top()
    assert above >= plot._level_lines[0].label.textItem.boundingRect().height()
    assert top < highest


def test_lines_and_points_of_a_figure_are_as_large_at_any_resolution(sheet_of_a_curve):
    draw, shade = sheet_of_a_curve
    shares = []
    for dpi in (300, 600):
        image = draw("png", dpi).image
        pixels = np.frombuffer(image.constBits(), np.uint32)
        shares.append(np.mean(pixels == QColor(shade).rgb()))
    assert shares[0] == pytest.approx(shares[1], rel=0.3)


def test_a_vector_file_has_points_as_paths_and_lines_of_a_width_in_its_unit(sheet_of_a_curve):
    draw, shade = sheet_of_a_curve
    assert b"/Subtype /Image" not in draw("pdf").content()
    text = draw("svg").content().decode()
    assert "<image" not in text
    groups = [group for group in text.split("<g ") if shade in group and "<path" in group]
    assert len(groups) == 3  # a line and two points
    assert not any("non-scaling-stroke" in group for group in groups)


@pytest.mark.slow
def test_a_point_names_itself_and_becomes_the_draft_at_a_click(
    sweep, run, qtbot, workbench, settle
):
    run(sweep)
    viewport = sweep.plot.viewport()
    qtbot.mouseMove(viewport, place(sweep, 0, 1))
    qtbot.waitUntil(lambda: "at 75 %: kept 0.2500, 25.0 % of the unpruned" in sweep.headline.text())
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=place(sweep, 0, 1))
    qtbot.waitUntil(lambda: workbench.draft.current is not None)
    step = workbench.draft.current.step
    assert (step.method.amount, step.targets) == (0.75, (TARGETS,))
    settle()


@pytest.mark.slow
def test_keys_move_between_points_and_curves(sweep, run, qtbot, workbench):
    run(sweep)
    taken = []
    sweep.plot.taken.connect(lambda point: taken.append((point.swept.label, point.amount)))
    for key in ("Right", "Right", "Right", "Down", "Return", "Left", "Up", "Enter"):
        qtbot.keyClick(sweep.plot, getattr(Qt.Key, f"Key_{key}"))
    assert taken == [("LAMP", 0.75), ("global L1", 0.5)]


def test_the_draft_and_steps_of_the_stack_are_curves_whose_points_edit_them(
    sweep, run, workbench, make_step, settle
):
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", TARGETS, amount=0.1)))
    draft_step(workbench, make_step("random_unstructured", TARGETS, amount=0.1))
    settle()
    own = labels_of(sweep)[-2:]
    assert own == ["Draft (Random unstructured)", "Step 1: L1 unstructured, local"]
    assert own[0] in sweep.curves.checked()
    check(sweep, own[1])
    run(sweep)
    assert sweep.plot.curves[0].values.tolist() == [0.5, 0.25]
    sweep.plot.taken.emit(sweep.plot.curves[0].points[1])
    draft = workbench.draft.current
    assert (draft.replaces, draft.step.method.amount) == (0, 0.75)


@pytest.mark.slow
def test_a_ranking_alone_replaces_the_stack_which_undo_restores(
    panel, sweep, run, workbench, make_step
):
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.bias", amount=0.1)))
    before = workbench.session.steps
    run(sweep)
    sweep.plot.taken.emit(sweep.plot.curves[0].points[0])
    [step] = workbench.session.steps
    assert step.targets == (TARGETS,)
    workbench.edit(lambda session: session.undo())
    assert workbench.session.steps == before
    panel.start.setCurrentIndex(1)
    run(sweep)
    point = sweep.plot.curves[0].points[0]
    assert point.recipe.steps[:-1] == before
    panel.start.setCurrentIndex(0)
    assert sweep.headline.text() == "Click a point to use it, measured on: the stack"
    workbench.edit(lambda session: session.clear())
    sweep.plot.taken.emit(point)
    assert "has changed" in sweep.note.text()


@pytest.mark.slow
def test_a_failed_point_is_left_out_and_explained(sweep, run):
    sweep.amounts.setText("50%, 99%")
    run(sweep)
    assert [len(curve.points) for curve in sweep.plot.curves] == [1, 1]
    assert "exit code 3" in sweep.note.text()


def test_rankings_are_named_in_the_language_of_the_window(demo_window, qtbot):
    use_language("zh_CN")
    try:
        demo_window.show_evaluation()
        qtbot.waitUntil(lambda: demo_window.evaluate.evaluations is not None)
        rankings = tr("balanced, LAMP"), tr("global L1"), tr("uniform L1"), tr("LAMP")
    finally:
        use_language(SOURCE)
    assert rankings[0] != "balanced, LAMP"
    assert demo_window.evaluate.sweep.curves.checked() == [*rankings]


@pytest.mark.parametrize(("amounts", "targets"), [("some", TARGETS), ("50%", "dims>x")])
def test_invalid_input_is_explained_and_nothing_runs(sweep, amounts, targets):
    sweep.amounts.setText(amounts)
    sweep.targets.setText(targets)
    sweep.run.click()
    assert sweep.note.text()
    assert sweep.plot.curves == []


def test_each_chosen_ranking_is_a_curve_exported_with_its_legend_and_all_metrics(
    panel, sweep, run, monkeypatch, tmp_path, export_figure
):
    assert sweep.picture() is panel.curves is None
    run(sweep)
    assert panel.curves is sweep
    curves = sweep.plot.curves
    assert [curve.label for curve in curves] == ["global L1", "LAMP"]
    assert [curve.values.tolist() for curve in curves] == [[0.5, 0.25]] * 2
    assert sweep.plot.levels == {"unpruned 1.0000": 1.0}
    assert ["─●─" in line or "─■─" in line for line in sweep.legend().split("<br>")] == [True] * 2
    monkeypatch.setattr(questions, "ask_target", lambda *_: tmp_path / "curve.csv")
    export_figure(sweep.save_picture.trigger, tmp_path / "curve.svg")
    sweep.save_table.trigger()
    picture = (tmp_path / "curve.svg").read_text()
    assert "global\N{NO-BREAK SPACE}L1" in picture
    assert "kept" in picture
    head, first, *_ = (tmp_path / "curve.csv").read_bytes().decode().split("\r\n")
    assert head == "Curve,Amount,Sparsity,kept,loss,Problem"
    assert first.startswith("global L1,0.5,")
    assert first.endswith(",0.5,2.5,")


def test_a_scan_is_curves_and_a_heat_map_whose_cells_choose_their_parameter(
    panel, choose, run, workbench, make_step, monkeypatch, tmp_path, qtbot
):
    choose()
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", TARGETS, amount=0.5)))
    tab = panel.sensitivity
    tab.targets.setText("features.conv*.weight")
    tab.amounts.setText("50%")
    run(tab)
    qtbot.waitUntil(lambda: tab.grid.painter is not None)
    assert [(row.label, row.values) for row in tab.rows] == [
        ("features.conv1.weight", (1.0,)),
        ("features.conv2.weight", (0.5,)),
        ("features.conv3.weight", (1.0,)),
    ]
    cells = [tab.grid.painter.cell_of(row.label) for row in tab.rows]
    assert [cell.text for cell in cells] == ["1.0000", "0.5000", "1.0000"]
    assert cells[0].colour == cells[2].colour != cells[1].colour
    assert tab.headline.text() == (
        "Most sensitive: features.conv2.weight, kept 0.5000 at 50 %, measured on: the file"
    )
    tab.plot.taken.emit(tab.plot.curves[2].points[0])
    assert workbench.chosen == "features.conv3.weight"
    tab.grid.opened.emit("features.conv1.weight")
    assert workbench.chosen == "features.conv1.weight"
    monkeypatch.setattr(questions, "ask_target", lambda *_: tmp_path / "heat.csv")
    tab.save_table.trigger()
    rows = (tmp_path / "heat.csv").read_bytes().decode().split("\r\n")
    assert rows[:3] == [
        "Pruned,50 %", "features.conv1.weight,1.0", "features.conv2.weight,0.5",
    ]  # fmt: skip
    panel.start.setCurrentIndex(1)
    run(tab)
    assert tab.plot.levels == {"unpruned 1.0000": 1.0, "stack 0.5000": 0.5}
    assert "measured on: the stack (2.6 %)" in tab.headline.text()


@pytest.fixture
def search(panel, choose, run):
    """Return the page of a search that has ended."""
    choose()
    tab = panel.search
    tab.goal.setCurrentIndex(1)
    tab.targets.setText(TARGETS)
    tab.share.setText("50 %")
    assert not tab.take.isEnabled()
    run(tab)
    return tab


def test_the_best_trial_of_a_search_is_told_and_its_recipe_replaces_the_stack(
    search, panel, workbench, make_step
):
    best = max(search.model.rows, key=lambda trial: trial.value)
    assert search.headline.text().startswith(f"Best, {best.label}: ")
    assert search.headline.text().endswith(", measured on: the file")
    panel.start.setCurrentIndex(1)
    assert search.headline.text().endswith(", measured on: the file")
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.bias", amount=0.1)))
    search.take.click()
    assert workbench.session.steps == best.steps
    workbench.edit(lambda session: session.undo())
    assert len(workbench.session.steps) == 1


def test_the_best_trial_of_a_search_that_was_cancelled_can_be_used(panel, choose, qtbot):
    choose()
    tab = panel.search
    tab.targets.setText(TARGETS)
    tab.share.setText("60 %")
    tab.run.click()
    assert tab.run.text() == "Cancel"
    assert not panel.sweep.run.isEnabled()

    def holding():
        limit = tab.plot.levels.get("limit 0.6000", math.inf)
        return [one for one in tab.model.rows if one.value >= limit]

    qtbot.waitUntil(lambda: bool(holding()), timeout=60_000)
    tab.run.click()
    assert tab.note.text() == "Cancelled. What was found is kept."
    best = max(holding(), key=lambda one: one.evaluation.sparsity)
    assert tab.headline.text().startswith(f"Best, {best.label}: ")
    assert tab.take.isEnabled()
    assert panel.sweep.run.isEnabled()


def test_points_and_rows_of_a_search_select_each_other_in_any_order(search, qtbot):
    QAbstractItemModelTester(
        search.model, QAbstractItemModelTester.FailureReportingMode.Fatal, search.model
    )
    search.list.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    labels = [search.model.index(at, 0).data() for at in range(search.model.rowCount())]
    assert labels == sorted(labels)
    search.list.setFixedHeight(90)
    qtbot.waitUntil(lambda: search.list.verticalScrollBar().maximum() > 0)
    search.list.scrollToBottom()
    search.list.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    assert search.list.verticalScrollBar().value() == 0
    search.list.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    search.list.selectRow(0)
    assert search.headline.text().startswith(labels[0])
    trial = search.plot.curves[0].points[-1]
    search.plot.pointed.emit(trial)
    [row] = search.list.selectionModel().selectedRows()
    assert row.data() == trial.label
    search.plot.pointed.emit(None)
    [row] = search.list.selectionModel().selectedRows()
    assert row.data() == labels[0]
    search.plot.taken.emit(trial)
    search.plot.pointed.emit(None)
    assert search.headline.text().partition(":")[0].endswith(trial.label)


@pytest.mark.slow
def test_trials_of_optuna_follow_and_the_selected_one_is_taken(panel, choose, run, workbench):
    choose()
    tab = panel.search
    tab.goal.setCurrentIndex(1)
    tab.targets.setText("*.weight")
    tab.share.setText("50 %")
    tab.tuning.setValue(2)
    run(tab)
    assert tab.note.text() == ""
    trials = tab.model.rows
    assert [trial.label.partition(", trial ")[2] for trial in trials[-2:]] == ["1", "2"]
    assert len(trials[-1].steps) > 1
    tab.list.selectRow(len(trials) - 1)
    tab.take.click()
    assert workbench.session.steps == trials[-1].steps


@pytest.mark.slow
def test_a_search_after_the_stack_keeps_a_share_of_the_unpruned_value(
    panel, choose, run, workbench, make_step
):
    choose()
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", TARGETS, amount=0.1)))
    panel.start.setCurrentIndex(1)
    tab = panel.search
    tab.targets.setText(TARGETS)
    assert tab.share.text() == "98 %"
    tab.share.setText("60 %")
    run(tab)
    assert tab.headline.text().startswith("Best, ")
    assert "kept 0.6" in tab.headline.text()
    assert tab.plot.levels["limit 0.6000"] == 0.6
    tab.take.click()
    assert len(workbench.session.steps) == 2
    tab.take.click()
    assert "has changed" in tab.note.text()
    tab.share.setText("no")
    tab.run.click()
    assert "share" in tab.note.text()


def test_the_list_shows_lines_in_the_colours_of_the_curves(qtbot):
    curves = CurveList(())
    qtbot.addWidget(curves)
    curves.show_labels(["LAMP", "uniform L1"], ())
    curves.mark({"LAMP": LIGHT.curves[1]})
    drawn, nothing = (
        item.icon().pixmap(curves.iconSize()).toImage() for item in curves.by_label.values()
    )
    colours = [drawn.pixelColor(9, y) for y in range(drawn.height())]
    assert {colour.name() for colour in colours if colour.alpha()} == {LIGHT.curves[1]}
    assert 1 <= sum(colour.alpha() > 0 for colour in colours) <= drawn.height() / 4
    assert not nothing.pixelColor(9, 6).alpha()
