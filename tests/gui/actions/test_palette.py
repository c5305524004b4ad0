"""The command palette and the list of keys."""

from __future__ import annotations

from PySide6.QtCore import Qt

from prune_gui.gui.actions.palette import IN_PICTURES, Palette, Shortcuts, keys, listed
from prune_gui.gui.actions.table import TABLE


def shown(palette):
    items = [palette._list.topLevelItem(row) for row in range(palette._list.topLevelItemCount())]
    return [item.text(0) for item in items if not item.isHidden()]


def test_typing_finds_a_command_and_enter_runs_it(demo_window, workbench, make_step, settle, qtbot):
    workbench.edit(lambda session: session.add(make_step()))
    settle()
    demo_window.show_palette()
    palette = demo_window.findChild(Palette)
    qtbot.keyClicks(palette._line, "undo")
    assert shown(palette) == ["Edit: Undo: Add L1 unstructured"]
    qtbot.keyClick(palette._line, Qt.Key.Key_Return)
    assert workbench.session.steps == ()


def test_the_arrows_choose_among_what_is_found(demo_window, qtbot):
    demo_window.show_palette()
    palette = demo_window.findChild(Palette)
    qtbot.keyClicks(palette._line, "view")
    first = palette._list.currentItem().text(0)
    qtbot.keyClick(palette._line, Qt.Key.Key_Down)
    assert palette._list.currentItem().text(0) != first
    palette.close()


def test_what_cannot_be_done_now_is_not_offered(window, qtbot):
    window.show_palette()
    palette = window.findChild(Palette)
    assert not [text for text in shown(palette) if "Save" in text]
    assert [text for text in shown(palette) if "Open" in text]
    palette.close()


def test_a_dock_is_shown_by_its_name(window, qtbot):
    window.show_palette()
    palette = window.findChild(Palette)
    qtbot.keyClicks(palette._line, "view: log")
    assert shown(palette) == ["View: Log"]
    qtbot.keyClick(palette._line, Qt.Key.Key_Return)
    assert window.log.isVisible()


def test_no_key_is_one_that_an_editing_line_takes_for_itself(window):
    """As on Linux or macOS; whoever types in the form would press it in vain."""
    used = {keys(action) for _, action in listed(window.acts)}
    assert not used & {"Ctrl+A", "Ctrl+B", "Ctrl+E", "Ctrl+H", "Ctrl+K", "Ctrl+U"}


def test_every_action_is_listed_and_every_key_shown(window, qtbot):
    every = [action for _, action in listed(window.acts)]
    assert {action.objectName() for action in every} == {act.name for act in TABLE}
    window.show_shortcuts()
    tree = window.findChild(Shortcuts).findChildren(type(Palette(window.acts, window)._list))[0]
    branches = [tree.topLevelItem(row) for row in range(tree.topLevelItemCount())]
    found = [branch.child(i).text(1) for branch in branches for i in range(branch.childCount())]
    assert sorted(found) == sorted(
        [*filter(None, map(keys, every)), *(key for _, key in IN_PICTURES)]
    )
    window.findChild(Shortcuts).close()


def test_a_screen_reader_can_name_the_list_of_commands(window):
    window.show_palette()
    palette = window.findChild(Palette)
    assert palette._list.accessibleName()
    palette.close()
