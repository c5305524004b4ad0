"""The menu and the dialog of presets."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QInputDialog

from prune_gui.gui.actions.palette import Palette
from prune_gui.gui.dialogs.presets import TITLES, PresetDialog
from prune_gui.recipe import Recipe
from prune_gui.session import Presets
from prune_gui.session.presets import SHIPPED


@pytest.fixture
def answer_names(monkeypatch):
    """Return a function that sets the names typed into the next dialogs; None cancels one."""

    def prepare(*names):
        left = list(names)

        def answer(*_, text=""):
            name = left.pop(0)
            return (name or "", name is not None)

        monkeypatch.setattr(QInputDialog, "getText", answer)
        return left

    return prepare


@pytest.fixture
def dialog(demo_window, make_step):
    Presets().save("mine", Recipe(steps=(make_step(),)))
    demo_window.menu_actions["manage_presets"].trigger()
    found = demo_window.findChild(PresetDialog)
    yield found
    found.close()


def offered(window):
    return [action.text() for action in window._presets.fill()]


def test_every_shipped_preset_has_a_title():
    assert set(TITLES) == set(SHIPPED)


def test_adding_a_preset_is_one_undo_entry(demo_window, workbench, settle):
    workbench.edit(lambda session: session.append("first"))
    [chosen] = [a for a in demo_window._presets.fill() if a.text() == "Three rounds of 20 %"]
    assert chosen.toolTip().count("L1 unstructured, global, 20 %") == 3
    chosen.trigger()
    settle()
    assert len(workbench.session.steps) == 3
    assert demo_window.menu_actions["undo"].text() == "&Undo: Add preset Three rounds of 20 %"
    demo_window.menu_actions["undo"].trigger()
    assert not workbench.session.steps


def test_the_stack_is_saved_under_a_name_and_offered(
    demo_window, workbench, make_step, answer_names, answer_box
):
    assert not demo_window.menu_actions["save_preset"].isEnabled()
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    answer_names("R&D 2:4")
    demo_window.menu_actions["save_preset"].trigger()
    assert offered(demo_window)[-1] == "R&&D 2:4"
    asked = answer_box("Replace")
    workbench.edit(lambda session: session.add(make_step(amount=0.75)))
    answer_names("R&D 2:4")
    demo_window.menu_actions["save_preset"].trigger()
    assert asked == ["A preset R&D 2:4 already exists. Replace it?"]
    [preset] = Presets()
    assert [step.method.amount for step in preset.steps] == [0.25, 0.75]


def test_an_invalid_name_is_an_error_and_nothing_is_saved(
    demo_window, workbench, make_step, answer_names, qtbot
):
    workbench.edit(lambda session: session.add(make_step()))
    answer_names(" ")
    with qtbot.waitSignal(workbench.failed) as failed:
        demo_window.menu_actions["save_preset"].trigger()
    assert "needs a name" in str(failed.args[1])
    assert not list(Presets())


def test_a_broken_file_is_one_disabled_action_in_the_menu(demo_window):
    Presets().folder.mkdir(parents=True)
    (Presets().folder / "broken.yaml").write_text("steps: 3")
    assert len(offered(demo_window)) == len(SHIPPED)
    last = demo_window._presets.actions()[-1]
    assert not last.isEnabled()
    assert "broken.yaml" in last.toolTip()
    assert "\n" not in last.text()


def test_the_palette_lists_the_presets_while_a_file_is_open(demo_window, workbench):
    demo_window.menu_actions["palette"].trigger()
    palette = demo_window.findChild(Palette)
    QTest.keyClicks(palette._line, "lamp")
    assert palette._list.topLevelItem(0).text(0) == "Preset: LAMP, 80 %"
    QTest.keyClick(palette._line, Qt.Key.Key_Return)
    assert workbench.session.steps[0].method.name == "lamp"


def test_the_preset_menu_is_disabled_without_a_file(window):
    assert not window._presets.isEnabled()


def test_own_presets_are_renamed_and_removed(dialog, answer_names, answer_box):
    answer_names("yours")
    dialog.rename.click()
    assert [preset.name for preset in Presets()] == ["yours"]
    assert dialog.list.currentItem().text() == "yours"
    answer_box("Cancel")
    dialog.remove.click()
    assert "yours" in Presets()
    answer_box("Remove")
    dialog.remove.click()
    assert not list(Presets())
    assert dialog.list.count() == 0
    assert not dialog.rename.isEnabled()


def test_replacing_a_preset_of_the_same_name_is_confirmed(
    dialog, answer_names, answer_box, make_step
):
    Presets().save("other", Recipe())
    dialog.list.setCurrentRow(0)
    left = answer_names("other", None)
    asked = answer_box("Cancel")
    dialog.rename.click()
    assert len(asked) == 1
    assert not left
    assert sorted(preset.name for preset in Presets()) == ["mine", "other"]


def test_enter_on_a_preset_renames_it_once_and_closes_nothing(dialog, answer_names, qtbot):
    left = answer_names("yours", "theirs")
    dialog.list.setCurrentRow(0)
    qtbot.keyClick(dialog.list, Qt.Key.Key_Return)
    assert left == ["theirs"]
    assert dialog.list.currentItem().text() == "yours"
    assert dialog.isVisible()
