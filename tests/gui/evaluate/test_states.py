"""The evaluator of the dock, consent, and the values of the file, the stack and named states."""

from __future__ import annotations

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QDialog, QPlainTextEdit
from shown import names_in, untranslated_in
from waiting import change, draft_step

from prune_gui.errors import CheckpointError
from prune_gui.evaluation.evaluation_jobs import Begun
from prune_gui.evaluation.spec import DEMO, EvaluatorChoice
from prune_gui.gui.dialogs import questions
from prune_gui.gui.evaluate import evaluate_panel
from prune_gui.gui.evaluate.evaluate_panel import TEMPLATES, OptionsDialog
from prune_gui.raster.colours import LIGHT


def shown(panel, *columns):
    """Return the texts of some columns of the states."""
    model = panel.states.model
    return [
        tuple(model.index(row, column).data() for column in columns)
        for row in range(model.rowCount())
    ]


STATE, VALUE, SHARE, STATUS = 0, 1, 2, 4


def test_without_a_checkpoint_or_an_evaluator_the_dock_says_what_to_do(window, qtbot):
    window.docks.show("Evaluate")
    qtbot.waitUntil(lambda: window.evaluate.evaluations is not None)
    [label] = [each for each in (window.evaluate.pages.currentWidget(),) if each]
    assert label.text() == "Open a checkpoint to evaluate it."


def test_the_demo_is_evaluated_with_its_own_evaluator_without_a_question(demo_window, qtbot):
    demo_window.menu_actions["evaluate"].trigger()
    qtbot.waitUntil(lambda: demo_window.evaluate.evaluations is not None)
    panel = demo_window.evaluate
    assert panel.evaluations.choice is DEMO
    assert panel.chooser.box.currentText() == DEMO.text
    assert panel.pages.currentWidget() is panel.tabs
    panel.evaluations.choose(None)
    assert panel.pages.currentWidget().text().startswith("Choose an evaluator")


def test_states_are_evaluated_and_stored_results_appear_at_once(
    panel, choose, run, workbench, make_step, settle, qtbot
):
    model = panel.states.model
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    asked = choose()
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    workbench.edit(lambda session: session.name_state("half"))
    assert {status for _, status in shown(panel, STATE, STATUS)} == {"Not evaluated"}
    run(panel.states)
    assert len(asked) == 1
    assert str(panel.evaluations.choice.text) in asked[0]
    assert "SHA-256" in asked[0]
    assert shown(panel, STATE, VALUE, SHARE, STATUS) == [
        ("File", "1.0000", "100.0 %", "Evaluated"),
        ("Stack", "0.5000", "50.0 %", "Evaluated"),
        ("half", "0.5000", "50.0 %", "Evaluated"),
    ]
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    assert shown(panel, STATUS)[1] == ("Out of date: the stack has changed",)
    workbench.edit(lambda session: session.undo())
    assert shown(panel, VALUE, STATUS)[1] == ("0.5000", "Evaluated")
    choice = panel.evaluations.choice
    panel.evaluations.choose(None)
    panel.evaluations.choose(choice)
    qtbot.waitUntil(lambda: shown(panel, STATUS) == [("Stored",)] * 3, timeout=60_000)
    run(panel.states)
    assert len(asked) == 1


def test_another_metric_changes_the_values_without_another_evaluation(panel, choose, run):
    choose()
    run(panel.states)
    box = panel.chooser.metric_box
    assert [box.itemText(at) for at in range(box.count())] == ["kept", "loss"]
    box.activated.emit(1)
    assert shown(panel, VALUE)[0] == ("2.0000",)
    assert panel.evaluations.choice.metric == "loss"


def test_a_crash_is_a_failed_row_and_the_next_state_is_evaluated(
    panel, choose, run, workbench, make_step
):
    choose()
    workbench.edit(lambda session: session.name_state("none"))
    workbench.edit(lambda session: session.add(make_step(amount=0.99)))
    run(panel.states)
    file, stack, named = shown(panel, STATUS)
    assert (file, named) == (("Evaluated",), ("Evaluated",))
    assert stack[0].startswith("looking at the weights (the evaluator failed: it ended with exit")
    note = panel.states.note
    assert note.text() == stack[0]
    note.linkActivated.emit("")
    details = note.findChild(QDialog).findChild(QPlainTextEdit).toPlainText()
    assert details.startswith(panel.evaluations.choice.text)
    assert details.endswith("looking at the weights")


def test_the_draft_is_evaluated_where_runs_start(panel, choose, run, workbench, make_step, settle):
    choose()
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    draft_step(workbench, make_step(amount=0.5))
    settle()
    run(panel.states)
    assert shown(panel, STATE, VALUE)[1:] == [("Stack", "0.5000"), ("Draft", "0.5000")]
    assert [panel.start.itemText(at) for at in range(2)] == ["the file", "the stack (12.9 %)"]
    panel.start.setCurrentIndex(1)
    run(panel.states)
    assert shown(panel, STATE, VALUE)[1:] == [("Stack", "0.5000"), ("Draft", "0.2500")]


def test_values_that_are_no_numbers_are_shown_as_they_are(
    panel, choose, run, workbench, make_step, qtbot
):
    choose("overflows")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    run(panel.states)
    assert shown(panel, STATE, VALUE, SHARE) == [("File", "NaN", ""), ("Stack", "inf", "")]
    assert panel.states.headline.text() == "The stack: loss inf"
    panel.states.list.selectRow(1)
    assert not panel.states.plot.grab().isNull()


def test_a_failed_state_has_the_colour_of_warnings_until_it_is_evaluated_again(
    panel, choose, run, workbench, make_step
):
    choose()
    workbench.edit(lambda session: session.add(make_step(amount=0.99)))
    run(panel.states)
    role, model = Qt.ItemDataRole.ForegroundRole, panel.states.model
    colour = model.index(1, STATUS).data(role)
    assert (shown(panel, STATE, VALUE)[1], colour.name()) == (("Stack", ""), LIGHT.warning)
    panel.states._take(Begun(model.rows[1].row.recipe))
    assert shown(panel, STATUS)[1] == ("Evaluating …",)
    assert model.index(1, STATUS).data(role) != colour


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.slow
def test_a_new_evaluator_says_which_lines_to_fill_in(
    panel, run, monkeypatch, tmp_path, answer_box, template
):
    answer_box("Run")
    path = tmp_path / "folder with spaces" / template
    path.parent.mkdir()
    monkeypatch.setattr(questions, "ask_target", lambda *_: path)
    [action] = [
        action
        for action, name in zip(panel.chooser.new.menu().actions(), TEMPLATES, strict=True)
        if name == template
    ]
    action.trigger()
    assert f"Written: {template}" in panel.chooser.problem.text()
    run(panel.states)
    message = panel.states.note.text()
    assert message.startswith(("NotImplementedError: FILL IN", "FILL IN", "FileNotFoundError: "))


def test_a_template_that_cannot_be_written_is_explained(panel, monkeypatch, tmp_path):
    checkpoint = tmp_path / "net.safetensors"
    checkpoint.write_bytes(b"weights")
    for path, reason in ((tmp_path / "missing" / "own.py", "folder"), (checkpoint, ".py")):
        monkeypatch.setattr(questions, "ask_target", lambda *_, path=path: path)
        panel.chooser.new.menu().actions()[0].trigger()
        assert reason in panel.chooser.problem.text()
    assert checkpoint.read_bytes() == b"weights"
    assert panel.evaluations.choice is None


def test_a_file_is_found_beside_the_open_checkpoint(panel, code, monkeypatch, tmp_path):
    monkeypatch.chdir("/")
    monkeypatch.setattr(evaluate_panel, "start_folder", lambda _: tmp_path)
    long = f"{'x' * 400}.py"
    for typed, used in ((code.name, code), (long, None), ("missing.py", None)):
        panel.evaluations.choose(None)
        panel.chooser.box.setEditText(f"{typed}:evaluate")
        panel.chooser.box.lineEdit().editingFinished.emit()
        choice = panel.evaluations.choice
        assert (choice and choice.text) == (used and f"{used}:evaluate")
    assert panel.chooser.problem.text().startswith("missing.py cannot be read")


@pytest.mark.slow
def test_what_the_evaluator_prints_is_in_the_log(panel, choose, run, caplog):
    caplog.set_level("INFO")
    choose()
    run(panel.states)
    assert "looking at the weights" in caplog.text


def test_cancel_ends_a_hanging_evaluator_with_its_children(
    panel, choose, workbench, make_step, qtbot
):
    before = set(psutil.Process().children(recursive=True))
    choose("hangs")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    panel.states.run.click()
    assert panel.search.run.text() == "Search"
    assert not panel.search.run.isEnabled()

    def hangs():  # the supervisor, the guard, the evaluator and its child
        return len(set(psutil.Process().children(recursive=True)) - before) >= 4

    qtbot.waitUntil(hangs, timeout=60_000)
    panel.states.run.click()
    assert panel.evaluations.run is None
    assert panel.states.run.text() == "Evaluate"
    assert panel.search.run.isEnabled()

    def ended():
        return not set(psutil.Process().children(recursive=True)) - before

    qtbot.waitUntil(ended, timeout=60_000)
    assert shown(panel, STATUS)[1] == ("Not evaluated",)


def test_views_work_while_an_evaluation_hangs(panel, choose, workbench, make_step, settle, qtbot):
    choose("hangs")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    panel.states.run.click()
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    settle()
    assert panel.evaluations.run is not None
    panel.evaluations.cancel()


def test_without_consent_nothing_runs(panel, code, answer_box):
    answer_box("Cancel")
    panel.evaluations.choose(EvaluatorChoice(text=f"{code}:evaluate"))
    panel.states.run.click()
    assert panel.evaluations.run is None
    assert {status for (status,) in shown(panel, STATUS)} == {"Not evaluated"}


@pytest.mark.slow
def test_a_changed_file_is_asked_for_and_evaluated_again(panel, choose, run, code):
    asked = choose()
    run(panel.states)
    code.write_text(code.read_text().replace("1 - share", "5 - share"))
    run(panel.states)
    assert len(asked) == 2
    assert shown(panel, VALUE)[0] == ("5.0000",)


@pytest.mark.slow
def test_another_checkpoint_ends_the_run_and_clears_the_results(
    panel, choose, workbench, qtbot, demo_checkpoint, make_step
):
    choose("hangs")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    panel.states.run.click()
    qtbot.waitUntil(lambda: shown(panel, VALUE)[0] == ("1.0000",), timeout=60_000)
    old = workbench.session.checkpoint
    with change(qtbot, workbench, "file"):
        workbench.files.open(demo_checkpoint)
    assert panel.evaluations.run is None
    assert {value for (value,) in shown(panel, VALUE)} == {""}

    def closed():
        try:
            old.read("features.conv1.weight")
        except CheckpointError:
            return True
        return False

    qtbot.waitUntil(closed, timeout=20_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [("nonsense", "is not an evaluator"), ("missing.py:evaluate", "cannot be read")],
)
def test_a_typed_evaluator_that_cannot_be_used_is_explained(panel, text, message):
    panel.chooser.box.setEditText(text)
    panel.chooser.box.lineEdit().editingFinished.emit()
    assert panel.evaluations.choice is None
    assert message in panel.chooser.problem.text()


def test_results_are_disabled_while_the_text_is_not_their_evaluator(panel, code):
    def type_in(text):
        panel.chooser.box.setEditText(text)
        panel.chooser.box.lineEdit().editingFinished.emit()

    type_in(f"{code}:evaluate")
    assert panel.states.run.isEnabled()
    type_in("missing.py:evaluate")
    assert not panel.states.run.isEnabled()
    type_in(f"{code}:evaluate")
    assert panel.states.run.isEnabled()
    assert not panel.chooser.problem.text()


def test_a_typed_and_a_browsed_evaluator_are_remembered(panel, code, monkeypatch, demo_window):
    text = f"{code}:zeros"
    panel.chooser.box.setEditText(text)
    panel.chooser.box.lineEdit().editingFinished.emit()
    assert panel.evaluations.choice.text == text
    monkeypatch.setattr(questions, "ask_file", lambda *_: code)
    panel.chooser.browse.click()
    assert panel.evaluations.choice.text == f"{code}:evaluate"
    recent = demo_window.commands.settings.evaluators
    assert [each.text for each in recent] == [f"{code}:evaluate", text]
    box = panel.chooser.box
    assert [box.itemText(at) for at in range(box.count())][1:] == [each.text for each in recent]


def test_stored_results_are_not_used_if_the_user_says_so(panel, choose, run):
    choose()
    run(panel.states)
    choose(use_stored=False)
    assert {status for (status,) in shown(panel, STATUS)} == {"Not evaluated"}
    run(panel.states)
    assert {status for (status,) in shown(panel, STATUS)} == {"Evaluated"}


def test_options_are_those_of_the_command_line(code, panel):
    before = EvaluatorChoice(text=f"{code}:evaluate")
    dialog = OptionsDialog(before, panel)
    dialog.better.setCurrentIndex(2)
    dialog.name.setText("quality")
    dialog.timeout.setValue(5)
    dialog.memory.setText("2GB")
    dialog.use_stored.setChecked(False)
    dialog.python.setText("/missing/python")
    dialog.accept_options()
    assert dialog.choice is None
    assert "/missing/python" in dialog.problem.text()
    dialog.python.clear()
    dialog.accept_options()
    assert dialog.choice == before.model_copy(
        update={
            "better": "lower", "name": "quality", "timeout_s": 5.0,
            "memory_limit": 2_000_000_000, "use_stored": False,
        }
    )  # fmt: skip


@pytest.mark.usefixtures("foreign_language")
@pytest.mark.slow
def test_the_dock_is_translated(panel, code, run, workbench, make_step):
    choice = EvaluatorChoice(text=f"{code}:evaluate")
    made = choice.make()
    made.database.give_consent(made.spec.code_digest())
    panel.evaluations.choose(choice)
    workbench.edit(lambda session: session.add(make_step(amount=0.99)))
    run(panel.states)
    run(panel.sweep)
    dialog = OptionsDialog(choice, panel)
    names = (*names_in(workbench.session.checkpoint), choice.text, DEMO.text, "kept", "loss")
    code_words = (str(code), "evaluate", "{checkpoint}", "looking at the weights")
    rankings = panel.sweep.curves.by_label
    assert untranslated_in(panel, *names, *code_words, *rankings) == set()
    assert untranslated_in(dialog, *names, *code_words) == set()
