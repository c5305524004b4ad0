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


@pytest.mark.parametrize(
    ("matches", "text", "warns"),
    [
        ([], "The recipe has no step that is switched on.", False),
        ([(("a",), ())], "Every pattern of every step matches parameters.", False),
        ([(("a",), ("b",))], "Some patterns match no parameter.", True),
        ([(("a",), ("b",)), ((), ("b",))], "Steps with 0 parameters need other targets", True),
    ],
)
def test_the_summary_warns_of_what_matches_nothing(make_step, matches, text, warns):
    said, warning = summary([StepMatch(1, make_step(), *match) for match in matches])
    assert said.startswith(text)
    assert warning is warns


def test_the_dialog_lists_the_steps_with_their_parameters(demo_window, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.conv*.weight", "x")))
    dialog = RecipeMatchDialog(workbench.session.recipe, workbench.session.checkpoint, demo_window)
    index = dialog.model.index(0, 2)
    assert index.data() == "3"
    tip = dialog.model.data(index, 3)
    assert tip.split("\n") == [f"features.conv{i}.weight" for i in (1, 2, 3)]
    assert dialog.model.index(0, 3).data() == "x"
    dialog.deleteLater()
