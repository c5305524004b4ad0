import threading

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QPushButton
from shiboken6 import isValid
from waiting import change

from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.sweep import SweepDialog
from prune_gui.raster.colours import LIGHT


@pytest.fixture
def dialog(demo_window, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step("threshold", value=0.01)))
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    demo_window.menu_actions["sweep"].trigger()
    return demo_window.findChild(SweepDialog)


def run_sweep(dialog, qtbot, amounts):
    dialog.step.setCurrentIndex(0)
    dialog.amounts.setText(amounts)
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()


def double_click(dialog, qtbot, row):
    place = dialog.results.visualRect(dialog.model.index(row, 0)).center()
    viewport = dialog.results.viewport()
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=place)


def test_enabled_steps_with_an_amount_are_listed(dialog, workbench, demo_window):
    assert dialog.step.currentData() == demo_window.stack.current == 2
    assert [dialog.step.itemData(i) for i in range(dialog.step.count())] == [1, 2]
    workbench.edit(lambda session: session.switch(1, enabled=False))
    assert [dialog.step.itemData(i) for i in range(dialog.step.count())] == [2]


def test_a_step_whose_targets_all_have_own_amounts_is_not_listed(
    dialog, workbench, make_step, settle
):
    targets = "features.conv1.weight", "features.conv2.weight"
    own = {targets[0]: 0.25}
    step = make_step("l1_unstructured", *targets, amount=0.5, amounts=own)
    workbench.edit(lambda session: session.add(step))
    settle()
    assert dialog.step.findData(3) == 2
    own |= {targets[1]: 0.5}
    step = make_step("l1_unstructured", *targets, amount=0.5, amounts=own)
    workbench.edit(lambda session: session.replace(3, step))
    settle()
    assert dialog.step.findData(3) == -1


def test_it_leads_to_the_curves_of_an_evaluator(dialog, demo_window):
    [evaluate] = [one for one in dialog.findChildren(QPushButton) if "valuate" in one.text()]
    evaluate.click()
    assert demo_window.evaluate.isVisible()
    assert demo_window.evaluate.tabs.currentWidget() is demo_window.evaluate.sweep


def test_every_amount_gets_a_row_and_a_double_click_drafts_it(
    dialog, qtbot, workbench, demo_window
):
    run_sweep(dialog, qtbot, "10%, 50%, 1000000000")
    pruned = [row.pruned for row in dialog.model.rows]
    assert 0 < pruned[0] < pruned[1]
    assert dialog.model.rows[2].error
    before = workbench.session.recipe
    double_click(dialog, qtbot, 2)
    assert workbench.session.recipe == before
    double_click(dialog, qtbot, 0)
    draft = workbench.draft.current
    assert (draft.step.method.amount, draft.replaces) == (0.1, 1)
    assert "10 %" in dialog.note.text()
    assert workbench.session.recipe == before
    demo_window.draft.add()
    assert workbench.session.steps[1].method.amount == 0.1


def test_an_amount_is_not_applied_to_another_step(dialog, qtbot, workbench):
    run_sweep(dialog, qtbot, "10%")
    workbench.edit(lambda session: session.move(1, 0))
    before = workbench.session.recipe
    double_click(dialog, qtbot, 0)
    assert workbench.session.recipe == before
    assert "has changed" in dialog.note.text()


def test_an_invalid_amount_is_an_error(dialog):
    assert dialog.run.isEnabled()
    dialog.amounts.setText("some")
    assert not dialog.run.isEnabled()
    assert dialog._problem.text().startswith("'some' is not an amount")


def test_cancel_keeps_finished_rows(dialog, qtbot, monkeypatch):
    from prune_gui.session.sweep import Sweep

    began, row = threading.Event(), Sweep.row

    def slow(self, amount, monitor):
        while amount == 0.2:
            began.set()
            monitor.advance()
        return row(self, amount, monitor)

    monkeypatch.setattr(Sweep, "row", slow)
    dialog.amounts.setText("10%, 20%, 30%")
    dialog.run.click()
    qtbot.waitUntil(began.is_set, timeout=60_000)
    qtbot.waitUntil(lambda: len(dialog.model.rows) == 1)
    assert dialog.note.text() == "1 of 3 done"
    dialog.cancel.click()
    assert dialog.run.isEnabled()
    assert not dialog.cancel.isEnabled()
    run_sweep(dialog, qtbot, "30%")
    assert [row.amount for row in dialog.model.rows] == [0.3]


def test_the_table_is_saved_with_exact_numbers(dialog, qtbot, monkeypatch, tmp_path):
    assert not dialog.save.isEnabled()
    run_sweep(dialog, qtbot, "10%")
    monkeypatch.setattr(questions, "ask_target", lambda *_: tmp_path / "sweep.csv")
    dialog.save.click()
    head, line, _ = (tmp_path / "sweep.csv").read_bytes().decode().split("\r\n")
    [row] = dialog.model.rows
    assert head == (
        "Amount,Sparsity,Kept energy,Of targets,Of the worst,Worst target,Nearly empty,Pruned,"
        "Total,Problem"
    )
    assert line == (
        f"0.1,{row.sparsity!r},{row.kept_energy!r},{row.target_energy!r},{row.worst_energy!r},"
        f"{row.worst},{row.nearly_empty},{row.pruned},{row.total},"
    )


def test_opening_another_checkpoint_closes_the_dialog(dialog, workbench, qtbot, demo_checkpoint):
    with change(qtbot, workbench, "file"):
        workbench.files.open(demo_checkpoint)
    assert not (isValid(dialog) and dialog.isVisible())


def test_enter_on_a_row_drafts_its_amount_and_does_not_run(dialog, qtbot, workbench):
    run_sweep(dialog, qtbot, "10%, 50%")
    before = dialog.model.rows
    dialog.results.selectRow(0)
    qtbot.keyClick(dialog.results, Qt.Key.Key_Return)
    assert workbench.draft.current.step.method.amount == 0.1
    assert not dialog.running
    assert dialog.model.rows == before


def test_the_focus_moves_from_run_to_cancel_and_back(dialog, qtbot):
    dialog.run.setFocus()
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()
        assert dialog.focusWidget() is dialog.cancel
    assert dialog.focusWidget() is dialog.run


def test_a_step_with_many_targets_does_not_widen_the_dialog(dialog, workbench, make_step):
    before = dialog.minimumSizeHint()
    names = [f"encoder.layer.{number}.attention.weight" for number in range(40)]
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", *names)))
    assert dialog.minimumSizeHint() == before
    assert dialog.step.width() == dialog.amounts.width()


def point(dialog, row):
    """Return the position of the point of a row in the plot."""
    result = dialog.model.rows[row]
    scene = dialog.plot.view.mapViewToScene(
        QPointF(100 * result.sparsity, 100 * result.target_energy)
    )
    return dialog.plot.mapFromScene(scene)


def hover(viewport, at):
    """Move the mouse within a viewport, whichever window the cursor is over."""
    button, none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    position = QPointF(at)
    event = QMouseEvent(
        QEvent.Type.MouseMove, position, viewport.mapToGlobal(position), button, button, none
    )
    QApplication.sendEvent(viewport, event)


def test_the_curves_have_a_point_per_row_that_names_it_and_drafts_its_amount(
    dialog, qtbot, workbench
):
    run_sweep(dialog, qtbot, "80%, 40%, 1000000000, 60%")
    rows = dialog.model.rows
    of_targets, of_worst = dialog.plot.curves
    assert of_targets.points == of_worst.points == (rows[1], rows[3], rows[0])
    assert of_targets.values.tolist() == [100 * row.target_energy for row in of_targets.points]
    assert of_worst.values.tolist() == [100 * row.worst_energy for row in of_worst.points]
    hover(dialog.plot.viewport(), point(dialog, 3))
    qtbot.waitUntil(lambda: dialog.results.currentIndex().row() == 3)
    qtbot.mouseClick(dialog.plot.viewport(), Qt.MouseButton.LeftButton, pos=point(dialog, 3))
    qtbot.waitUntil(lambda: workbench.draft.current is not None)
    assert workbench.draft.current.step.method.amount == 0.6


def test_keys_move_along_the_curves_and_take_a_point(dialog, qtbot, workbench):
    run_sweep(dialog, qtbot, "40%, 60%, 80%")
    taken = []
    dialog.amount_wanted.connect(lambda *wanted: taken.append(wanted))
    for key in ("Right", "Right", "Right", "Left", "Return"):
        qtbot.keyClick(dialog.plot, getattr(Qt.Key, f"Key_{key}"))
    assert taken == [(1, 0.6)]
    assert not dialog.running
    for key in ("End", "Return", "Home", "Enter"):
        qtbot.keyClick(dialog.plot, getattr(Qt.Key, f"Key_{key}"))
    assert taken[1:] == [(1, 0.8), (1, 0.4)]


def test_the_curves_are_exported_with_their_legend(dialog, qtbot, tmp_path, export_figure):
    assert not dialog.save_picture.isEnabled()
    run_sweep(dialog, qtbot, "40%, 60%")
    export_figure(dialog.save_picture.click, tmp_path / "curve.svg")
    content = (tmp_path / "curve.svg").read_text()
    assert "worst" in content
    assert "Sweep over amounts" in content
    assert LIGHT.curves[1] in content
