"""Plug-in methods in the window: the question, loading, listing, use and reloading."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import choose, errors
from waiting import change

from prune_gui.engine import Job
from prune_gui.errors import PluginError
from prune_gui.gui.app import _prepare_first_window
from prune_gui.gui.dialogs import questions
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.runtime.single_instance import OpenRequest
from prune_gui.gui.windows import Windows
from prune_gui.pruning.methods import METHODS, register
from prune_gui.pruning.plugins import load_file
from prune_gui.session import Settings

NAP = """
class Nap(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def __init__(self, amount=0.5, word: str = "a", share: float = 0.5):
        pass
    def compute_mask(self, t, default_mask):
        {act}
"""
ALL, NONE = "return torch.zeros_like(t)", "return default_mask"
TARGET = "classifier.hidden.weight"


@pytest.fixture
def load(qtbot, monkeypatch):
    """Return a function that loads a file by the menu, with or without consent, and waits."""

    def by_menu(window, path, *, agreed=True, wait="methods_loaded"):
        asked = []
        monkeypatch.setattr(questions, "ask_file", lambda *_: path)
        monkeypatch.setattr(questions, "agree_to_run", lambda _, p: asked.append(p) or agreed)
        if agreed:
            with qtbot.waitSignal(getattr(window.workbench, wait), timeout=60_000):
                window.menu_actions["load_methods"].trigger()
        else:
            window.menu_actions["load_methods"].trigger()
        assert asked == [path]

    return by_menu


def listed(window):
    return [window.draft.method.itemData(i) for i in range(window.draft.method.count())]


def test_a_file_that_the_user_does_not_agree_to_is_not_run(
    window, workbench, load, plugin_file, tmp_path, qtbot
):
    mark, later = tmp_path / "it ran", []
    load(window, plugin_file(f"open({str(mark)!r}, 'w')"), agreed=False)
    workbench.bridge.run(Job("Last", lambda _: None), later.append)  # after all earlier jobs
    qtbot.waitUntil(lambda: bool(later))
    assert not mark.exists()


def test_a_broken_file_is_shown_as_an_error(window, load, plugin_file):
    path, before = plugin_file("1 / 0"), listed(window)
    load(window, path, wait="failed")
    assert errors(window).text() == (
        f"{path} raised ZeroDivisionError: division by zero. Correct it, and load it again."
    )
    errors(window).accept()
    assert listed(window) == before


def test_a_file_loaded_again_changes_the_steps_that_use_it(
    demo_window, workbench, load, settle, plugin_file, make_step
):
    load(demo_window, plugin_file(NAP.format(act=ALL)))
    assert demo_window.status._note.text().startswith("Loaded Nap from ")
    assert workbench.draft.current is None  # loading alone drafts nothing
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", TARGET, amount=0.5)))
    workbench.edit(lambda session: session.add(make_step("nap", TARGET)))
    workbench.session.mark_saved(workbench.session.recipe)
    settle()
    assert workbench.shown.total[0] == 65536
    demo_window.draft.edit(1)
    load(demo_window, plugin_file(NAP.format(act=NONE)))
    settle()
    assert workbench.shown.total[0] == 32768
    assert not demo_window.draft.editing
    assert not workbench.session.unsaved
    assert type(workbench.session.steps[1].method) is METHODS["nap"]
    demo_window.menu_actions["undo"].trigger()
    settle()
    assert workbench.shown.total[0] == 65536


def test_a_step_that_a_new_version_rejects_is_kept_and_reported(
    demo_window, workbench, load, settle, plugin_file, make_step
):
    load(demo_window, plugin_file(NAP.format(act=ALL)))
    workbench.edit(lambda session: session.add(make_step("nap", TARGET, word="b")))
    load(demo_window, plugin_file(NAP.format(act=ALL).replace("word", "other")))
    assert errors(demo_window).text().startswith("The recipe: step 1, word: ")
    errors(demo_window).accept()
    settle()
    assert workbench.shown.total[0] == 65536


def test_a_method_that_never_returns_is_stopped_by_cancel(
    demo_window, workbench, load, settle, plugin_file, qtbot
):
    act = "return default_mask if t.numel() < 5000 else [0 for _ in iter(int, 1)]"
    load(demo_window, plugin_file(NAP.format(act=act)))
    demo_window.draft.targets.choose(frozenset([TARGET]))
    is_running = METHODS["nap"].process._lock.locked
    qtbot.waitUntil(lambda: is_running() and demo_window.status.busy, timeout=60_000)

    def is_stopped():
        demo_window.status.cancel()  # repeated, because a newer job may have replaced the shown one
        return demo_window.draft.outcome.effect.text() == "Stopped. Press F5 to recompute."

    qtbot.waitUntil(is_stopped, timeout=20_000)
    method = demo_window.draft.method
    choose(method, "l1_unstructured")
    settle()
    assert demo_window.draft.outcome.effect.text().startswith("Zeroes 32,768 of 65,536")


def test_methods_of_installed_packages_are_listed_once_the_engine_is_ready(
    window, workbench, plugin_file
):
    register(load_file(plugin_file(NAP.format(act=NONE))))  # as the engine does in the background
    window.draft.method.setCurrentIndex(2)
    chosen = window.draft.method.currentData()
    assert "nap" not in listed(window)
    workbench._warmed_up((PluginError("other 1.0, entry point x raised OSError."),))
    assert "nap" in listed(window)
    assert window.draft.method.currentData() == chosen
    assert errors(window).text() == "other 1.0, entry point x raised OSError."
    errors(window).accept()


def test_files_named_on_the_command_line_are_loaded_before_the_recipe_that_uses_them(
    qtbot, plugin_file, nearest_mean, demo_checkpoint
):
    windows = Windows(Preferences(Settings()), Path("prune-gui.log"))
    window, recipe = windows.make(), nearest_mean.with_suffix(".yaml")
    request = OpenRequest(checkpoint=demo_checkpoint, recipe=recipe, methods=(nearest_mean,))
    with change(qtbot, window.workbench, "resolution"):
        _prepare_first_window(windows, request)
    assert window.workbench.session.steps[0].method.name == "nearest_mean"
    assert errors(window) is None
    window.leave()
    qtbot.waitUntil(lambda: not windows._leaving, timeout=60_000)
    windows.deleteLater()
