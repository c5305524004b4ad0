import threading

import pytest
from PySide6.QtCore import Qt
from shiboken6 import isValid
from waiting import change

from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.sweep import SweepDialog


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
    with qtbot.waitSignal(dialog._sequence.ended, timeout=60_000):
        dialog.run.click()


def double_click(dialog, qtbot, row):
    place = dialog.results.visualRect(dialog.model.index(row, 0)).center()
    viewport = dialog.results.viewport()
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=place)


def test_enabled_steps_with_an_amount_are_listed(dialog, workbench):
    assert [dialog.step.itemData(i) for i in range(dialog.step.count())] == [1, 2]
    workbench.edit(lambda session: session.switch(1, enabled=False))
    assert [dialog.step.itemData(i) for i in range(dialog.step.count())] == [2]


def test_every_amount_gets_a_row_and_a_double_click_applies_it(dialog, qtbot, workbench):
    run_sweep(dialog, qtbot, "10%, 50%, 1000000000")
    pruned = [row.pruned for row in dialog.model.rows]
    assert 0 < pruned[0] < pruned[1]
    assert dialog.model.rows[2].error
    before = workbench.session.recipe
    double_click(dialog, qtbot, 2)
    assert workbench.session.recipe == before
    double_click(dialog, qtbot, 0)
    assert workbench.session.steps[1].method.amount == 0.1
    assert "10 %" in dialog.note.text()
    workbench.edit(lambda session: session.undo())
    assert workbench.session.recipe == before


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
    monkeypatch.setattr(questions, "ask_table_target", lambda *_: tmp_path / "sweep.csv")
    dialog.save.click()
    head, line, _ = (tmp_path / "sweep.csv").read_bytes().decode().split("\r\n")
    [row] = dialog.model.rows
    assert head == "Amount,Pruned,Total,Sparsity,Kept energy,Nearly empty,Problem"
    assert line == (
        f"0.1,{row.pruned},{row.total},{row.sparsity!r},{row.kept_energy!r},{row.nearly_empty},"
    )


def test_the_current_step_of_the_stack_is_preselected(dialog, demo_window):
    assert dialog.step.currentData() == demo_window.stack.current == 2


def test_opening_another_checkpoint_closes_the_dialog(dialog, workbench, qtbot, demo_checkpoint):
    with change(qtbot, workbench, "file"):
        workbench.files.open(demo_checkpoint)
    assert not (isValid(dialog) and dialog.isVisible())


def test_enter_on_a_row_applies_its_amount_and_does_not_run(dialog, qtbot, workbench):
    run_sweep(dialog, qtbot, "10%, 50%")
    before = dialog.model.rows
    dialog.results.selectRow(0)
    qtbot.keyClick(dialog.results, Qt.Key.Key_Return)
    assert workbench.session.steps[1].method.amount == 0.1
    assert not dialog._sequence.running
    assert dialog.model.rows == before


def test_the_focus_moves_from_run_to_cancel_and_back(dialog, qtbot):
    dialog.run.setFocus()
    with qtbot.waitSignal(dialog._sequence.ended, timeout=60_000):
        dialog.run.click()
        assert dialog.focusWidget() is dialog.cancel
    assert dialog.focusWidget() is dialog.run


def test_a_step_with_many_targets_does_not_widen_the_dialog(dialog, workbench, make_step):
    before = dialog.minimumSizeHint()
    names = [f"encoder.layer.{number}.attention.weight" for number in range(40)]
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", *names)))
    assert dialog.minimumSizeHint() == before
    assert dialog.step.width() == dialog.amounts.width()
