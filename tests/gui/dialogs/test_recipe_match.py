import pytest
import torch
from PySide6.QtWidgets import QDialog
from safetensors.torch import save_file
from waiting import change

from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog, summary
from prune_gui.recipe.patterns import StepMatch


@pytest.fixture
def other(tmp_path):
    save_file({"features.conv1.weight": torch.ones(4, 4)}, tmp_path / "other.safetensors")
    return tmp_path / "other.safetensors"


@pytest.fixture
def asked(demo_window, workbench, make_step, monkeypatch, other):
    """Return a function that sets the chosen checkpoint and the answer, and lists shown cells."""
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.conv*.weight")))
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "classifier.*")))
    workbench.edit(lambda session: session.name_state("mine"))
    monkeypatch.setattr(questions, "ask_file", lambda *_: other)

    def prepare(answer):
        shown = []

        def answered(dialog):
            model = dialog.model
            rows = range(model.rowCount())
            shown.append(
                [[model.index(row, column).data() for column in (0, 2, 3)] for row in rows]
            )
            return answer

        monkeypatch.setattr(RecipeMatchDialog, "exec", answered)
        return shown

    return prepare


def test_the_recipe_is_transferred_with_its_history_and_stays_unsaved(
    asked, demo_window, workbench, qtbot, other
):
    before = workbench.session
    shown = asked(QDialog.DialogCode.Accepted)
    with change(qtbot, workbench, "file"):
        demo_window.menu_actions["use_elsewhere"].trigger()
    assert shown == [[["1", "1", ""], ["2", "0", "classifier.*"]]]
    session = workbench.session
    assert session.checkpoint.path == other
    assert session.history == before.history
    assert session.named_states == before.named_states
    assert session.unsaved
    assert workbench.chosen == "features.conv1.weight"


def test_cancel_changes_nothing(asked, demo_window, workbench, qtbot):
    before, recipe = workbench.session, workbench.session.recipe
    shown = asked(QDialog.DialogCode.Rejected)
    demo_window.menu_actions["use_elsewhere"].trigger()
    qtbot.waitUntil(lambda: bool(shown), timeout=60_000)
    assert workbench.session is before
    assert before.recipe == recipe


def test_the_summary_names_the_steps_without_matches(make_step):
    def one(number, targets, unmatched):
        return StepMatch(number, make_step(), targets, unmatched)

    good, lost, partly = one(1, ("a",), ()), one(2, (), ("b",)), one(3, ("a",), ("b",))
    assert summary([good]) == ("Every pattern of every step matches parameters.", False)
    assert summary([]) == ("The recipe has no step that is switched on.", False)
    text, warning = summary([good, lost, partly, one(5, (), ())])
    assert warning
    assert text == (
        "Steps 2 and 5 match no parameter. Edit their targets before applying them. Some patterns "
        "of step 3 match no parameter."
    )


def test_the_dialog_lists_the_steps_with_their_parameters(demo_window, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.conv*.weight", "x")))
    dialog = RecipeMatchDialog(workbench.session.recipe, workbench.session.checkpoint, demo_window)
    index = dialog.model.index(0, 2)
    assert index.data() == "3"
    tip = dialog.model.data(index, 3)
    assert tip.split("\n") == [f"features.conv{i}.weight" for i in (1, 2, 3)]
    assert dialog.model.index(0, 3).data() == "x"
    dialog.deleteLater()
