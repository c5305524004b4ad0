"""Every text in a window is translated, except for names and numbers."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

import pytest
import scenes
import translate
from foreign import foreign, untranslated
from pages import choose
from PySide6.QtWidgets import QDockWidget, QFileDialog, QLabel, QMenu, QMessageBox
from shown import names_in, untranslated_in

from prune_gui import language
from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.errors import PruneGuiError
from prune_gui.gui import formatting
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.batch import BatchDialog
from prune_gui.gui.dialogs.help import show_about, versions
from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog
from prune_gui.gui.dialogs.sweep import SweepDialog
from prune_gui.gui.runtime.log_feed import LogEntry
from prune_gui.gui.saving import save_dialog as save_dialog
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, loader_path
from prune_gui.session.presets import shipped

pytestmark = pytest.mark.usefixtures("foreign_language")

WINDOW = ("encoder.*.weight, !*.bias", "prune-gui.log")
"""The example of targets, and the log file of the window."""
SUFFIXES = " ".join(known_suffixes())
RECIPE_WORDS = ("fro", "nuc", "output", "input", "x", "nothing", "encoder.*.weight, !*.bias")
"""Words of recipes and targets that are not translated."""
NON_DEFAULTS = {
    "refit": {"moments": "/1/2", "damping": 0.5},
    "bias_correction": {"means": "/1/2"},
    "batch_norm_statistics": {"statistics": "/1/2"},
    "l1_unstructured": {"amount": 0.3, "scope": "row", "amount_of": "total", "amounts": {"x": 1}},
    "ln_structured": {"amount": 1, "scope": "global", "amount_of": "reach", "dim": 1, "n": "inf"},
    "lamp": {"amount": 0.7, "max_sparsity": 0.9, "importance": "/1/2"},
    "balanced": {"amount": 0.7, "over": "row", "row_power": 1.0, "column_power": 0.0},
    "erk": {"amount": 3, "score": "ria"},
    "threshold": {"value": 0.5, "relative_to": "std"},
    "n_m": {"n": 1, "m": 8, "dim": 0, "flatten": False, "tail": "keep"},
    "block": {"amount": 7, "n": 1, "tail": "keep"},
    "channels": {"channels": (1, 2, 3)},
    "coupled": {
        "amount": 3,
        "reduction": "sum",
        "uniform": True,
        "round_to": 8,
        "importance": "/1/2",
    },
    "layers": {"layers": (1, 2, 3), "stack": "encoder"},
    "experts": {"amount": 2, "importance": "/1/2", "reduction": "sum"},
    "listed_units": {"units": (0, 5), "space": "heads"},
    "tokens": {"listed": "/1/2"},
    "random_unstructured": {"amount": 1, "seed": 3},
    "random_structured": {"amount": 0.5, "seed": 3},
    "custom_from_mask": {"mask": "/1/2", "take": "zeros"},
    "dead_units": {"fold_constants": False},
    "identity": {},
}
"""For each method, field values that appear in the title of a step."""


@pytest.fixture
def names(demo_window, workbench, make_step, settle) -> list[str]:
    """Add two steps; return names that are not translated."""
    targets = ("*.conv*.weight", "*hidden.weight", "*.none.weight")
    for some in (targets[:1], targets[1:]):
        workbench.edit(lambda session, some=some: session.add(make_step("l1_unstructured", *some)))
    settle()
    preset = [glob for preset in shipped() for step in preset.steps for glob in step.targets]
    return [*names_in(workbench.session.checkpoint), *targets, *preset]


@pytest.fixture
def boxes(monkeypatch) -> list[set[str]]:
    """Replace message boxes and file dialogs; return the untranslated texts of each."""
    shown: list[set[str]] = []
    names = ("/tmp/a.pt", "a.pt", "b.pt", "/tmp", *versions())
    names += ("*.index*.json", *(f"*{suffix}" for suffix in known_suffixes()))

    def ask(_parent, title, _folder, *kinds, **_options):
        shown.append({text for text in (title, *kinds) if untranslated(text, *names)})
        return "", ""

    def save(dialog: QFileDialog) -> int:
        ask(None, dialog.windowTitle(), "", ";;".join(dialog.nameFilters()))
        return 0

    look = scenes.answer(lambda box: shown.append(untranslated_in(box, *names)))
    monkeypatch.setattr(QMessageBox, "exec", look)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", ask)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *said: ask(*said)[1])
    monkeypatch.setattr(QFileDialog, "exec", save)
    return shown


def test_untranslated_texts_are_found(qtbot):
    label = QLabel(language.tr("Saved {path}", path="in vain"))
    label.setToolTip("Plain")
    label.setAccessibleName(language.tr("Saved {path}", path="a.pt"))
    assert untranslated_in(label, "a.pt") == {label.text(), "Plain"}
    label.deleteLater()


def test_the_empty_window_is_translated(window):
    window.commands.preferences.remember(Path("/models/a.pt"))
    window._refresh()
    assert untranslated_in(window, *WINDOW, SUFFIXES, "a.pt", "/models") == set()


@pytest.mark.slow
def test_the_window_is_translated_in_every_state(demo_window, workbench, names, settle, make_step):
    tree, log = demo_window.tree, demo_window.log
    demo_window.docks.show("History")
    demo_window.docks.show("Log")

    def edit(name, *values, **options):
        workbench.edit(lambda session: getattr(session, name)(*values, **options))

    states = (
        lambda: workbench.draft.show_original(on=True),
        lambda: edit("undo"),
        lambda: edit("name_state", "one"),
        lambda: edit("redo"),
        lambda: edit("add", make_step("l1_unstructured", "nothing")),
        settle,
        lambda: edit("add", make_step("l1_unstructured", "*.weight")),
        lambda: edit("switch", 0, enabled=False),
        settle,
        lambda: edit("protect", frozenset(workbench.session.checkpoint.tensors), on=True),
        lambda: tree.filter.setText("weight"),
        tree.tree.selectAll,
        lambda: tree._offer_selected(QMenu(tree), tree.tree.selection.rows()),
        tree.filter.clear,
        lambda: log.add([LogEntry("12:00:00", logging.WARNING, "2")]),
        lambda: demo_window.draft.edit(0),
        settle,
    )
    seen = untranslated_in(demo_window, *WINDOW, SUFFIXES, *names)
    for change in states:
        change()
        seen |= untranslated_in(demo_window, *WINDOW, SUFFIXES, "one", "nothing", *names)
    assert seen == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_form_of_a_method_is_translated(demo_window, workbench, settle, make_step, name):
    draft = demo_window.draft
    fields = METHODS[name].model_fields  # a message names those that must be set
    own = [*RECIPE_WORDS, *fields, "'ffn'", "channels"]
    own += names_in(workbench.session.checkpoint)
    choose(draft.method, name)
    settle()
    assert untranslated_in(draft, *own) == set()


@pytest.mark.parametrize("name", METHODS)
def test_the_title_of_a_step_is_translated(make_step, name):
    step = make_step(name, **NON_DEFAULTS[name])
    assert untranslated(formatting.title(step), *RECIPE_WORDS) == []


def test_messages_after_actions_are_translated(demo_window, workbench, names, qtbot):
    seen = set()
    for act in ("copy_recipe", "copy_command", "copy_script"):
        with qtbot.waitSignal(workbench.noted, timeout=60_000):
            demo_window.menu_actions[act].trigger()
        seen |= untranslated_in(demo_window.status, *names)
    workbench.saved.emit(Path("/models/a.pt"))
    seen |= untranslated_in(demo_window.status, "/models/a.pt", *names)
    workbench.failed.emit(language.tr("Opening the recipe"), PruneGuiError("⟦No.⟧"))
    workbench.failed.emit(language.tr("Opening the recipe"), ZeroDivisionError())
    (box,) = demo_window.findChildren(QMessageBox)
    seen |= untranslated_in(box, "prune-gui.log")
    box.close()
    assert seen == set()


@pytest.mark.parametrize("act", ["palette", "shortcuts", "guide", *scenes.DIALOGS])
def test_what_an_action_opens_is_translated(demo_window, names, act):
    with scenes.opened(demo_window, act) as dialog:
        assert untranslated_in(dialog, *names, *language.LANGUAGES.values()) == set()


def test_the_results_of_a_sweep_are_translated(demo_window, workbench, names, qtbot):
    demo_window.menu_actions["sweep"].trigger()
    dialog = demo_window.findChild(SweepDialog)
    dialog.amounts.setText("10%, 99.999%, 3")
    dialog.run.click()
    seen = untranslated_in(dialog, *names)
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        pass
    assert len(dialog.model.rows) == 3
    seen |= untranslated_in(dialog, *names)
    dialog.results.activated.emit(dialog.model.index(0, 0))
    seen |= untranslated_in(dialog, *names)
    workbench.edit(lambda session: session.remove(0))
    dialog.results.activated.emit(dialog.model.index(0, 0))
    seen |= untranslated_in(dialog, *names)
    workbench.edit(lambda session: session.remove(0))
    assert seen | untranslated_in(dialog, *names) == set()
    dialog.close()


def test_the_results_of_a_batch_are_translated(demo_window, workbench, names, qtbot, tmp_path):
    demo_window.menu_actions["batch"].trigger()
    dialog = demo_window.findChild(BatchDialog)
    dialog.write.setChecked(True)
    dialog.add([workbench.session.checkpoint.path])
    seen = untranslated_in(dialog, *names)
    dialog.folder.setText(str(tmp_path))
    dialog.run.click()
    seen |= untranslated_in(dialog, *names)
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        pass
    (row,) = dialog.model.rows
    assert seen | untranslated_in(dialog, *names, row.out.name) == set()
    dialog.close()


@pytest.mark.parametrize("form", save_dialog.FORMS)
def test_the_save_dialog_is_translated(demo_window, workbench, names, qtbot, tmp_path, form):
    path = tmp_path / "pruned.safetensors"
    dialog = SaveDialog(workbench, path, form, demo_window)
    dialog.show()
    own = [*names, str(tmp_path), loader_path(dialog._target).name]
    seen = untranslated_in(dialog, *own)
    qtbot.waitUntil(lambda: bool(dialog._sizes), timeout=60_000)
    seen |= untranslated_in(dialog, *own)
    dialog._path.clear()
    assert seen | untranslated_in(dialog, *own) == set()
    dialog.close()
    dialog.deleteLater()


def test_the_recipe_match_dialog_is_translated(demo_window, workbench, names, make_step):
    steps = (*workbench.session.steps, *(make_step("l1_unstructured", "none") for _ in range(3)))
    for recipe in (Recipe(steps=steps), Recipe(steps=steps[:1]), Recipe()):
        dialog = RecipeMatchDialog(recipe, workbench.session.checkpoint, demo_window)
        assert untranslated_in(dialog, *names, "none") == set()
        dialog.deleteLater()


def test_the_reload_notice_is_translated(window, open_file, demo_checkpoint, tmp_path):
    path = tmp_path / "model.safetensors"
    shutil.copyfile(demo_checkpoint, path)
    open_file(path)
    os.utime(path, ns=(0, 0))
    window.reload_notice._look()
    assert window.reload_notice.text
    assert untranslated_in(window.reload_notice, path.name) == set()


def test_dock_names_do_not_depend_on_the_language(window):
    names = {dock.objectName() for dock in window.findChildren(QDockWidget)}
    assert names == {"Modules", "Pruning", "History", "Evaluate", "Log"}


def test_questions_and_remarks_are_translated(window, boxes):
    folder, file = Path("/tmp"), Path("/tmp/a.pt")
    asked = [one for one in vars(questions).values() if isinstance(one, questions.FileQuestion)]
    asked += questions.FIGURES
    for question in asked:
        if question.suffix:
            questions.ask_target(window, question, file)
        else:
            questions.ask_file(window, question, folder)
    questions.ask_folder(window, folder)
    show_about(window)
    scenes.ask_all(window, file)
    assert boxes == [set()] * (len(asked) + 12)


def test_level_names_of_the_log_are_translated():
    assert LogEntry.of_error("Opening", PruneGuiError("No.")).level_name == foreign("Warning")
    assert LogEntry.of_error("Opening", ZeroDivisionError()).level_name == foreign("Error")


@pytest.mark.parametrize("code", [code for code in language.LANGUAGES if code != language.SOURCE])
def test_file_filters_have_the_same_patterns_in_every_language(code):
    kinds = 0
    for message in translate.read(translate.TRANSLATIONS / f"{code}.po"):
        if isinstance(message.id, str) and "(*" in message.id:
            kinds += 1
            patterns = re.compile(r" (\(\*[^()]*\))(?:;;|$)")
            assert patterns.findall(message.string) == patterns.findall(message.id) != []
    assert kinds
