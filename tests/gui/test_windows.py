"""Several windows of one program."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import weakref
from pathlib import Path

import pytest
import torch
from pages import choose
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDockWidget, QScrollArea, QWidget
from safetensors.torch import save_file
from waiting import change

from prune_gui.engine import Job
from prune_gui.gui.dialogs import questions, recovery
from prune_gui.gui.dialogs.settings import SettingsDialog
from prune_gui.gui.runtime.gc_timer import GcTimer
from prune_gui.gui.runtime.log_feed import LogEntry
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.runtime.single_instance import OpenRequest
from prune_gui.gui.views.registry import VIEWS
from prune_gui.gui.windows import Windows, cascaded_position, fit
from prune_gui.pruning.methods import METHODS
from prune_gui.session import Settings
from prune_gui.session.kept_recipes import Unsaved


@pytest.fixture
def windows(qtbot):
    made = Windows(Preferences(Settings()), Path("prune-gui.log"))
    yield made
    for window in made:
        window.leave()
    qtbot.waitUntil(lambda: not made._leaving, timeout=60_000)
    made.deleteLater()


@pytest.fixture
def other_checkpoint(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"fc.weight": torch.arange(40.0).reshape(8, 5)}, path)
    return path


@pytest.fixture
def copied_demo(demo_checkpoint, tmp_path):
    return Path(shutil.copy(demo_checkpoint, tmp_path))


@pytest.fixture
def two(windows, qtbot, copied_demo, other_checkpoint):
    """Return two windows with different checkpoints."""
    made = windows.make(), windows.make()
    for window, path in zip(made, (copied_demo, other_checkpoint), strict=True):
        with change(qtbot, window.workbench, "resolution"):
            window.commands.open_path(path)
    return made


@pytest.fixture
def unsaved(two, make_step):
    for window, amount in zip(two, (0.5, 0.25), strict=True):
        step = make_step("l1_unstructured", "*", amount=amount)
        window.workbench.edit(lambda session, step=step: session.add(step))
    return two


@pytest.fixture
def answers(monkeypatch):
    """Return a function that sets the answers about unsaved steps by file stem, and lists calls."""

    def prepare(**replies):
        asked = []

        def ask(_, name, draft):
            asked.append(name.partition(".")[0])
            return replies[asked[-1]]

        monkeypatch.setattr(questions, "ask_unsaved", ask)
        return asked

    return prepare


def settled(window):
    resolved, session = window.workbench.resolved, window.workbench.session
    return resolved is not None and resolved.recipe is session.recipe


def has_steps(window):
    return window.workbench.session is not None and bool(window.workbench.session.steps)


def engines():
    return [thread for thread in threading.enumerate() if thread.name == "prune-gui-engine"]


def test_a_closed_window_leaves_no_thread_and_no_objects(windows, qtbot, demo_checkpoint):
    other = windows.make()
    before = engines()
    left = open_and_close_one(windows, qtbot, demo_checkpoint)
    with qtbot.waitSignal(windows.left, timeout=60_000):
        pass
    qtbot.waitUntil(lambda: engines() == before, timeout=60_000)
    assert list(windows) == [other]
    gc.collect()
    assert [one() for one in left] == [None] * 4
    with change(qtbot, other.workbench, "resolution"):
        other.commands.open_path(demo_checkpoint)
    assert other.isVisible()


@pytest.mark.slow
def test_frozen_objects_of_a_closed_window_are_collected(windows, qtbot, qapp, demo_checkpoint):
    gc_timer = GcTimer(qapp)
    windows.left.connect(gc_timer.look_again)
    windows.ready.connect(gc_timer.settle)
    freeze = windows.ready.emit  # as if the libraries were loaded after a file is opened
    try:
        left = open_and_close_one(windows, qtbot, demo_checkpoint, freeze)
        qtbot.waitUntil(lambda: [one() for one in left] == [None] * 4, timeout=60_000)
        assert not gc.isenabled()
    finally:
        gc_timer.stop()
        gc_timer.deleteLater()


def open_and_close_one(windows, qtbot, path, before=lambda: None):
    """Open a file in a new window and close it; return weak references to objects to be deleted."""
    window = windows.make()
    bench = window.workbench
    with qtbot.waitSignal(window.views.front.pictured, timeout=60_000):
        window.commands.open_path(path)
    left = [weakref.ref(one) for one in (window, bench, bench.session, bench.session.checkpoint)]
    before()
    window.menu_actions["close_window"].trigger()
    return left


def test_a_window_with_a_busy_engine_closes_without_blocking_others(two, windows, qtbot):
    one, other = two
    begun, go_on = threading.Event(), threading.Event()

    def work(_):
        begun.set()
        go_on.wait(60)

    one.workbench.bridge.run(Job("Working", work), lambda _: None)
    qtbot.waitUntil(begun.is_set, timeout=60_000)
    one.close()
    assert not one.isVisible()
    with change(qtbot, other.workbench, "resolution"):
        other.workbench.resolve()
    with qtbot.waitSignal(windows.left, timeout=60_000):
        go_on.set()


@pytest.mark.parametrize("other", ["discard", "cancel"])
def test_quitting_asks_in_each_window_and_cancel_in_one_stops_it(unsaved, windows, answers, other):
    asked = answers(digits_cnn="discard", other=other)
    unsaved[0].menu_actions["quit"].trigger()
    assert set(asked) >= ({"digits_cnn", "other"} if other == "discard" else {"other"})
    assert list(windows) == ([] if other == "discard" else [*unsaved])
    assert all(window.isVisible() and window.workbench.session.unsaved for window in windows)


def test_a_setting_changed_in_one_window_applies_to_the_others(two, windows):
    one, other = two
    one.show_settings()
    other.show_settings()
    one.commands.preferences.change("theme", "light")
    assert other.commands.settings.theme == "light"
    assert other.menu_actions["theme_light"].isChecked()
    shown = [dialog for window in two for dialog in window.findChildren(SettingsDialog)]
    assert len(shown) == 2
    assert {dialog.theme.currentData() for dialog in shown} == {"light"}


def test_files_opened_in_any_window_are_recent_in_all(two, copied_demo, other_checkpoint):
    for window in two:
        window._recent.aboutToShow.emit()
        texts = [action.text() for action in window._recent.actions()]
        assert texts == [f"&1  {other_checkpoint}", f"&2  {copied_demo}"]


def test_a_new_window_has_the_layout_of_the_front_window(windows):
    one = windows.make()
    one.resize(one.minimumSizeHint())
    one.findChild(QDockWidget, "Log").show()
    one.menu_actions["new_window"].trigger()
    [_, other] = windows
    assert other.size() == one.size()
    assert other.findChild(QDockWidget, "Log").isVisibleTo(other)


@pytest.mark.parametrize(
    ("free", "fills"), [((1600, 1000), False), ((1280, 1000), True), ((1600, 800), True)]
)
def test_a_window_that_does_not_fit_fills_the_screen(qtbot, free, fills):
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(1440, 900)
    fit(window, QSize(*free))
    assert window.isMaximized() is fills
    assert window.size() == QSize(1440, 900).boundedTo(QSize(*free))


def test_new_windows_cascade_and_restart_at_the_top_left_of_the_screen():
    screen = QRect(100, 50, 1000, 800)
    assert cascaded_position(QRect(200, 100, 600, 500), screen) == QPoint(232, 132)
    assert cascaded_position(QRect(480, 100, 600, 500), screen) == screen.topLeft()
    assert cascaded_position(QRect(200, 340, 600, 500), screen) == screen.topLeft()


def test_recent_files_that_are_gone_are_grey(window, demo_checkpoint, tmp_path, qtbot):
    gone = tmp_path / "gone.safetensors"
    for path in (demo_checkpoint, gone):
        window.commands.preferences.remember(path)
    window._refresh()
    shown = window._welcome._buttons
    qtbot.waitUntil(lambda: not shown[str(gone)].isEnabled())
    assert shown[str(demo_checkpoint)].isEnabled()
    window._recent.aboutToShow.emit()
    first, second = window._recent.actions()
    qtbot.waitUntil(lambda: not first.isEnabled())
    assert second.isEnabled()


def test_a_recent_file_with_a_long_name_fits_the_start_page(window, qtbot):
    name = "long_name_" * 20 + "end.safetensors"
    window._welcome.show_recent([f"/models/{name}", *(f"/models/{i}.pt" for i in range(4))])
    window.resize(1280, 900)
    button, *_ = window._welcome._buttons.values()
    assert button.text().startswith("long_name_")
    assert button.text().endswith("end.safetensors")
    assert button.toolTip() == f"/models/{name}"
    area = window._welcome.findChild(QScrollArea)
    qtbot.waitUntil(lambda: area.viewport().height() >= area.widget().heightForWidth(area.width()))
    assert button.minimumSizeHint().width() <= area.viewport().width()


def test_a_recent_file_opens_in_a_new_window_with_ctrl(two, windows, monkeypatch, qtbot):
    one, other = two
    before = one.workbench.session
    one._recent.aboutToShow.emit()
    monkeypatch.setattr(
        QGuiApplication, "keyboardModifiers", lambda: Qt.KeyboardModifier.ControlModifier
    )
    one._recent.actions()[0].trigger()
    [*_, third] = windows
    qtbot.waitUntil(lambda: third.workbench.session is not None, timeout=60_000)
    path = third.workbench.session.checkpoint.path
    assert path == other.workbench.session.checkpoint.path
    assert one.workbench.session is before


PLUGIN_SOURCE = """
class Own(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def __init__(self, amount=0.5, how: Literal["up", "down"] = "up", {more}):
        pass
    def compute_mask(self, t, default_mask):
        return {mask}
"""


def test_a_reloaded_file_updates_the_forms_and_stacks_of_all_windows(
    two, qtbot, plugin_file, make_step
):
    one, other = two

    def load(more, mask):
        source = "from typing import Literal\n" + PLUGIN_SOURCE.format(more=more, mask=mask)
        with qtbot.waitSignal(one.workbench.methods_loaded, timeout=60_000):
            one.workbench.load_methods(plugin_file(source))

    load("times=1", "default_mask")
    draft = other.draft
    other.workbench.edit(lambda session: session.add(make_step("own", "fc.weight")))
    choose(draft.method, "own")
    draft.form.set_value("how", "down")
    draft.form.set_value("amount", 0.25)
    load("times=1, word='a'", "default_mask * 0")
    now = METHODS["own"]
    assert draft.method.currentData() == "own"
    assert draft.form.method() == now(amount=0.25, how="down")
    assert type(other.workbench.draft.current.step.method) is now
    assert type(other.workbench.session.steps[0].method) is now
    qtbot.waitUntil(lambda: other.workbench.shown.total == (40, 40), timeout=60_000)


def test_a_removed_method_disappears_from_the_forms_of_all_windows(two, qtbot, plugin_file):
    one, other = two
    for name in ("Own", "Mine"):
        source = PLUGIN_SOURCE.format(more="x=1", mask="default_mask").replace("Own", name)
        with qtbot.waitSignal(one.workbench.methods_loaded, timeout=60_000):
            one.workbench.load_methods(plugin_file("from typing import Literal\n" + source))
        if name == "Own":
            choose(other.draft.method, "own")
    assert type(other.draft.form.method()) is METHODS[other.draft.method.currentData()]
    assert other.draft.method.findData("own") < 0


def test_a_new_window_has_earlier_log_entries_and_all_get_later_ones(windows):
    one = windows.make()
    windows.log((LogEntry("12:00:00", 20, "early"),))
    other = windows.make()
    windows.log((LogEntry("12:00:01", 20, "late"),))
    for window in (one, other):
        assert [entry.text for entry in window.log.model.rows] == ["early", "late"]


def test_unsaved_steps_of_each_window_are_recovered(unsaved, windows, qtbot, monkeypatch):
    kept = [window.recovery.journal._path for window in unsaved]
    qtbot.waitUntil(lambda: all(path.exists() for path in kept))
    for number, path in enumerate(kept):  # as if the program had been killed
        left = Unsaved.model_validate_json(path.read_bytes())
        gone = left.model_copy(update={"process": (2**22, 0.0), "written": float(number)})
        path.with_name(f"gone-{number}.unsaved.json").write_text(gone.model_dump_json())
    monkeypatch.setattr(recovery, "_ask", lambda *_: "restore")
    first = windows.make()
    assert first.recovery.offer(lambda: windows.open().recovery)
    [*_, first, second] = windows
    for window, name, amount in (
        (first, "other.safetensors", 0.25),
        (second, "digits_cnn.safetensors", 0.5),
    ):
        qtbot.waitUntil(lambda w=window: has_steps(w), timeout=60_000)
        session = window.workbench.session
        assert session.checkpoint.path.name == name
        assert session.steps[0].method.amount == amount
        assert session.unsaved
    assert not list(kept[0].parent.glob("gone-*"))


def test_the_front_window_is_the_active_one_or_the_parent_of_the_active_dialog(windows, qtbot):
    one, other = windows.make(), windows.make()
    one.activateWindow()
    qtbot.waitUntil(lambda: one.isActiveWindow())
    assert windows.front is one
    other.show_settings()
    other.findChild(SettingsDialog).activateWindow()
    qtbot.waitUntil(lambda: windows.front is other)


def test_all_windows_together_respect_the_limit_of_picture_memory(windows):
    def allowed(*some):
        views = [
            view for one in some for view in (one.views.view("mask"), one.views.view("weights"))
        ]
        return sum(view._pipeline.tiles._tiles.maxsize for view in views) // 10**6

    def share(of):
        return 2 * of // sum(spec.is_map or spec.caches_pictures for spec in VIEWS)

    first = windows.make()
    assert allowed(first) == share(Settings().picture_memory)
    second = windows.make()
    assert allowed(first) == allowed(second) == share(Settings().picture_memory // 2)
    windows._preferences.change("picture_memory", 96)
    assert allowed(first, second) == share(96)
    second.leave()
    assert allowed(first) == share(96)


@pytest.fixture
def served(windows):
    """Return the windows, of which the first is ready."""
    windows.make()
    windows.serve_early()
    return windows


def opened(window):
    return window.workbench.session and window.workbench.session.checkpoint.path


def test_a_later_start_opens_its_file_in_the_empty_window(served, qtbot, other_checkpoint):
    [window] = served
    with change(qtbot, window.workbench, "resolution"):
        served.serve(OpenRequest(checkpoint=other_checkpoint))
    assert [opened(window) for window in served] == [other_checkpoint]


def test_files_of_several_starts_get_a_window_each(served, qtbot, copied_demo, other_checkpoint):
    recipe = Path("resources/demo/digits_cnn.yaml").absolute()
    served.serve(OpenRequest(checkpoint=other_checkpoint))
    served.serve(OpenRequest(checkpoint=copied_demo, recipe=recipe))
    first, second = served
    qtbot.waitUntil(lambda: has_steps(second) and settled(first), timeout=60_000)
    assert [opened(first), opened(second)] == [other_checkpoint, copied_demo]
    assert len(second.workbench.session.steps) == 3


def test_a_file_that_is_open_already_is_shown_and_keeps_its_steps(two, windows, unsaved):
    windows.serve_early()
    one, other = two
    windows.serve(OpenRequest(checkpoint=opened(one)))
    assert list(windows) == [one, other]
    assert has_steps(one)


def test_a_later_start_without_files_raises_the_window(served):
    [window] = served
    window.showMinimized()
    served.serve(OpenRequest(token="given"))
    assert list(served) == [window]
    assert not window.isMinimized()
    assert "XDG_ACTIVATION_TOKEN" not in os.environ


def test_a_recipe_alone_replaces_the_steps_of_the_window(served, qtbot, copied_demo):
    [window] = served
    with change(qtbot, window.workbench, "resolution"):
        window.commands.open_path(copied_demo)
    served.serve(OpenRequest(recipe=Path("resources/demo/digits_cnn.yaml").absolute()))
    assert len(window.workbench.session.steps) == 3


def test_methods_of_a_later_start_are_loaded(served, qtbot, nearest_mean, plugin_file):
    [window] = served
    with qtbot.waitSignal(window.workbench.methods_loaded, timeout=60_000):
        served.serve(OpenRequest(methods=(nearest_mean,)))
    assert "nearest_mean" in METHODS


def test_requests_wait_until_the_first_window_is_ready(windows, qtbot, other_checkpoint):
    window = windows.make()
    windows.serve(OpenRequest(checkpoint=other_checkpoint))
    assert window.workbench.files.path is None
    with change(qtbot, window.workbench, "resolution"):
        windows.serve_early()
    assert opened(window) == other_checkpoint
