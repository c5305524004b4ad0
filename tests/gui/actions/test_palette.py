"""The command palette and the list of shortcuts."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTreeWidget

from prune_gui.gui.actions.menus import ACTIONS
from prune_gui.gui.actions.palette import IN_PICTURES, Palette, Shortcuts, keys, listed


def shown(palette):
    items = [palette._list.topLevelItem(row) for row in range(palette._list.topLevelItemCount())]
    return [item.text(0) for item in items]


def test_typing_filters_commands_and_enter_runs_one(
    demo_window, workbench, make_step, settle, qtbot
):
    workbench.edit(lambda session: session.add(make_step()))
    settle()
    demo_window.menu_actions["palette"].trigger()
    palette = demo_window.findChild(Palette)
    assert palette._list.accessibleName()
    qtbot.keyClicks(palette._line, "undo")
    assert shown(palette) == ["Edit: Undo: Add L1 unstructured"]
    qtbot.keyClick(palette._line, Qt.Key.Key_Return)
    assert workbench.session.steps == ()


def test_the_arrow_keys_move_in_the_filtered_list(demo_window, qtbot):
    demo_window.menu_actions["palette"].trigger()
    palette = demo_window.findChild(Palette)
    qtbot.keyClicks(palette._line, "view")
    first = palette._list.currentItem().text(0)
    qtbot.keyClick(palette._line, Qt.Key.Key_Down)
    assert palette._list.currentItem().text(0) != first
    palette.close()


def test_recent_files_are_listed_unless_they_are_gone(window, demo_checkpoint, tmp_path, qtbot):
    gone = tmp_path / "gone.safetensors"
    for path in (demo_checkpoint, gone):
        window.commands.preferences.remember(path)
    window.menu_actions["palette"].trigger()
    palette = window.findChild(Palette)
    qtbot.keyClicks(palette._line, "recent: safetensors")
    qtbot.waitUntil(lambda: shown(palette) == [f"Recent: {demo_checkpoint}"])
    palette.close()


def test_disabled_actions_are_not_listed(window, qtbot):
    window.menu_actions["palette"].trigger()
    palette = window.findChild(Palette)
    assert not [text for text in shown(palette) if "Save" in text]
    assert [text for text in shown(palette) if "Open" in text]
    palette.close()


def test_a_dock_can_be_shown_from_the_palette(window, qtbot):
    assert not window.log.isVisible()
    assert enter(window, qtbot, "view: log") == ["View: Log"]
    assert window.log.isVisible()


def test_no_shortcut_is_an_editing_key_of_line_edits(window):
    """A line edit on Linux or macOS would handle such a key itself."""
    used = {keys(action) for _, action in listed(window.menu_actions)}
    assert not used & {"Ctrl+A", "Ctrl+B", "Ctrl+E", "Ctrl+H", "Ctrl+K", "Ctrl+U"}


def test_every_action_is_listed_and_every_key_shown(window, qtbot):
    every = [action for _, action in listed(window.menu_actions)]
    assert {action.objectName() for action in every} == set(ACTIONS)
    window.menu_actions["shortcuts"].trigger()
    tree = window.findChild(Shortcuts).findChildren(QTreeWidget)[0]
    branches = [tree.topLevelItem(row) for row in range(tree.topLevelItemCount())]
    shown_keys = [
        branch.child(i).text(1) for branch in branches for i in range(branch.childCount())
    ]
    assert sorted(shown_keys) == sorted(
        [*filter(None, map(keys, every)), *(key for _, key in IN_PICTURES)]
    )
    window.findChild(Shortcuts).close()


def enter(window, qtbot, text):
    """Open the palette, type a text and press Enter; return the texts that matched."""
    window.menu_actions["palette"].trigger()
    palette = next(p for p in window.findChildren(Palette) if p.isVisible())
    qtbot.keyClicks(palette._line, text)
    qtbot.waitUntil(lambda: bool(shown(palette)))  # recent files are added later
    texts = shown(palette)
    qtbot.keyClick(palette._line, Qt.Key.Key_Return)
    return texts


def test_views_and_parameters_are_reached_from_the_palette(demo_window, workbench, qtbot):
    assert enter(demo_window, qtbot, "view: norms") == ["View: Norms"]
    assert demo_window.views.current is demo_window.views.view("norms")
    assert enter(demo_window, qtbot, "conv2 weight") == ["Parameter: features.conv2.weight"]
    assert workbench.chosen == "features.conv2.weight"


def test_recent_files_are_opened_from_the_palette(
    window, workbench, demo_checkpoint, settle, qtbot
):
    window.commands.preferences.remember(demo_checkpoint)
    assert enter(window, qtbot, demo_checkpoint.name) == [f"Recent: {demo_checkpoint}"]
    settle()
    assert workbench.session.checkpoint.path == demo_checkpoint


def test_every_standard_key_of_an_action_works(demo_window, active, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step()))
    for key in ("Ctrl+Y", "Ctrl+Shift+Z"):
        demo_window.menu_actions["undo"].trigger()
        QTest.keySequence(demo_window.tree.tree, QKeySequence(key))
        assert len(workbench.session.steps) == 1
