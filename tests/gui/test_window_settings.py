"""Faults, the layout, the theme and the actions of the window."""

from __future__ import annotations

import base64
from pathlib import Path

from PySide6.QtWidgets import QDockWidget, QMenu

from prune_gui.errors import CheckpointError
from prune_gui.gui.actions import menus
from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.location import Location
from prune_gui.resources import is_shipped, resource
from prune_gui.session import Settings


def own(names):
    """Return the names in a menu that are actions of the table."""
    filled = (
        menus.SEPARATOR,
        menus.RECENT,
        menus.STATES,
        menus.DOCKS,
        menus.PRESETS,
    )
    return [n for n in names if n not in filled]


def test_the_message_of_a_fault_names_the_log_file(window, workbench):
    workbench.failed.emit("Resolving", ZeroDivisionError("division by zero"))
    text = window._errors._box.text()
    assert text == "Resolving failed because of an internal error. See the log at prune-gui.log."
    window._errors._box.accept()


def test_the_details_of_a_fault_contain_its_traceback(window, workbench):
    try:
        1 // 0  # noqa: B018
    except ZeroDivisionError as error:
        workbench.failed.emit("Resolving", error)
    details = window._errors._box.detailedText()
    assert " Error: Resolving failed\nTraceback" in details
    assert details.endswith("ZeroDivisionError: integer division or modulo by zero")
    window._errors._box.accept()


def test_the_details_of_an_error_are_its_log_entry(window, workbench):
    error = CheckpointError("It is gone.")
    error.__cause__ = FileNotFoundError(2, "No such file")
    workbench.failed.emit("Opening", error)
    details = window._errors._box.detailedText()
    assert details.endswith(
        " Warning: Opening: It is gone.\nFileNotFoundError: [Errno 2] No such file"
    )
    window._errors._box.accept()


def test_the_log_dock_is_hidden_initially_and_shown_by_its_action(window):
    dock = window.log.parent()
    assert dock.isHidden()
    action = dock.toggleViewAction()
    assert action in [a for menu in window.menuBar().findChildren(QMenu) for a in menu.actions()]
    action.trigger()
    assert window.log.isVisible()


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
    assert base64.b64decode(state) == window.saveState().data()
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


def test_every_action_is_in_one_menu_and_shortcuts_are_unique(window):
    listed = [spec.name for spec in menus.TABLE]
    assert len(set(listed)) == len(listed)
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


def test_shipped_files_are_recognised(tmp_path):
    assert is_shipped(resource("demo", "digits_cnn.yaml"))
    assert not is_shipped(tmp_path / "digits_cnn.yaml")
