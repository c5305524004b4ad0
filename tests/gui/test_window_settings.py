"""Faults, the layout, the theme and the actions of the window."""

from __future__ import annotations

import base64
from itertools import chain
from pathlib import Path

import pytest
from pages import errors
from PySide6.QtCore import QSize
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QDockWidget, QTabBar

from prune_gui.errors import CheckpointError
from prune_gui.gui.actions import menus
from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.gui.views.registry import VIEWS
from prune_gui.location import Location
from prune_gui.session import Settings

LOW_SCREEN_PX = 762


@pytest.mark.parametrize(
    ("error", "text", "details"),
    [
        (ZeroDivisionError("zero"), "See the log at prune-gui.log.", "ZeroDivisionError: zero"),
        (CheckpointError("It is gone."), "It is gone.", ": It is gone.\nOSError: no"),
    ],
)
def test_a_fault_names_the_log_file_and_an_error_its_cause(window, workbench, error, text, details):
    error.__cause__ = OSError("no")
    workbench.failed.emit("Opening", error)
    box = errors(window)
    assert box.text().endswith(text)
    assert box.detailedText().endswith(details)
    box.accept()


def test_reset_layout_restores_the_docks(window):
    docks = window.findChildren(QDockWidget)
    places = [window.dockWidgetArea(dock) for dock in docks]
    hidden = [dock.isHidden() for dock in docks]
    docks[0].setFloating(True)
    for dock in docks:
        dock.setVisible(dock.isHidden())
    window.menu_actions["reset"].trigger()
    assert [window.dockWidgetArea(dock) for dock in docks] == places
    assert [dock.isHidden() for dock in docks] == hidden
    assert not any(dock.isFloating() for dock in docks)


def test_the_layout_is_saved_on_closing(window):
    window.findChildren(QDockWidget)[1].hide()
    assert window.close()
    geometry, state = Settings.load().window
    assert (geometry, state) == window.docks.layout()
    assert base64.b64decode(geometry)


def test_the_theme_is_saved(window, qtbot):
    light = window.palette().window().color().lightness()
    window.menu_actions["theme_dark"].trigger()
    qtbot.waitUntil(lambda: window.palette().window().color().lightness() < light)
    assert Settings.load().theme == "dark"
    assert window.menu_actions["theme_dark"].isChecked()
    assert not window.menu_actions["theme_system"].isChecked()


def test_actions_choose_the_next_and_the_previous_parameter(demo_window, workbench):
    tensors = workbench.session.checkpoint.tensors
    names = [name for name, info in tensors.items() if info.not_prunable is None]
    workbench.choose(names[0])
    demo_window.menu_actions["previous_parameter"].trigger()
    assert workbench.chosen == names[0]
    for name in names[1:]:
        demo_window.menu_actions["next_parameter"].trigger()
        assert workbench.chosen == name
    demo_window.menu_actions["next_parameter"].trigger()
    assert workbench.chosen == names[-1]
    demo_window.menu_actions["previous_parameter"].trigger()
    assert workbench.chosen == names[-2]


def test_keys_of_the_system_give_way_to_the_keys_of_other_actions(window, monkeypatch):
    keys = [QKeySequence("Del"), QKeySequence("Ctrl+D")]  # what X11 has for deleting
    monkeypatch.setattr(QKeySequence, "keyBindings", lambda _: keys)
    actions = menus.Actions(window)
    assert [one.toString() for one in actions["remove"].shortcuts()] == ["Del"]
    assert actions["duplicate"].shortcut().toString() == "Ctrl+D"


def test_every_action_is_in_one_menu_and_shortcuts_are_unique(window):
    sections = chain(*menus.MENUS.values())
    listed = [name for section in sections for name in section if name in menus.ACTIONS]
    assert sorted(listed) == sorted(menus.ACTIONS)
    keys = [
        k.toString() for n in listed for k in window.menu_actions[n].shortcuts() if not k.isEmpty()
    ]
    assert len(keys) == len(set(keys))


def test_the_default_output_path_is_beside_the_input():
    assert pruned_path(Path("/a/b.safetensors")) == Path("/a/b-pruned.safetensors")
    assert pruned_path(Path("/a/best.pth.tar")) == Path("/a/best-pruned.pth.tar")
    assert pruned_path(Path("/a/model")) == Path("/a/model-pruned")
    assert pruned_path(Path("/a/b/m.bin.index.json")) == Path("/a/b-pruned")


def test_the_default_output_path_of_a_remote_checkpoint_and_of_the_demo_is_at_home(demo_checkpoint):
    home = Path.home()
    assert pruned_path(Location.of("s3://a/b/net.pt").path) == home / "net-pruned.pt"
    assert pruned_path(Location.of("s3://a/b/m.safetensors.index.json").path) == home / "b-pruned"
    assert pruned_path(demo_checkpoint) == home / "digits_cnn-pruned.safetensors"


@pytest.mark.parametrize("key", [spec.key for spec in VIEWS])
def test_each_view_fits_a_small_screen_with_the_docks_in_one_place(demo_window, qtbot, key):
    demo_window.show()
    demo_window.docks.stack("Modules", "Pruning")
    demo_window.show_evaluation()
    demo_window.views.bring_forward(key)
    size = demo_window.minimumSizeHint
    qtbot.waitUntil(lambda: size() == size().boundedTo(QSize(800, 460)))


@pytest.mark.parametrize("dock", ["Modules", "History", "Evaluate", "Log"])
def test_the_window_is_not_wider_than_a_small_screen(demo_window, qtbot, dock):
    demo_window.show()
    demo_window.docks.show(dock)
    qtbot.waitUntil(lambda: demo_window.minimumSizeHint().width() <= 800)


@pytest.mark.parametrize("key", [spec.key for spec in VIEWS])
def test_each_view_fits_a_low_screen_beside_the_dock_that_evaluates(demo_window, settle, key):
    demo_window.show()
    demo_window.show_evaluation()
    demo_window.views.bring_forward(key)
    settle()
    demo_window.resize(1280, LOW_SCREEN_PX)
    for _ in range(2):  # the layout of the view, then that of the window
        QApplication.processEvents()
    assert demo_window.minimumSizeHint().height() <= LOW_SCREEN_PX


def test_every_tab_is_in_sight_with_large_texts(demo_window, qtbot):
    demo_window.commands.preferences.change("density", "large")
    demo_window.resize(1280, 800)
    demo_window.views.bring_forward("compare")
    demo_window.views.front.show_pictures()

    def shown():
        return [bar for bar in demo_window.views.findChildren(QTabBar) if bar.isVisible()]

    qtbot.waitUntil(lambda: len(shown()) == 2)  # the views, and the kinds of comparison
    assert all(bar.width() >= bar.sizeHint().width() for bar in shown())
