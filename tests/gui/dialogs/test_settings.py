"""The settings dialog."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QSpinBox, QWidget

from prune_gui import parallel
from prune_gui.engine import Job
from prune_gui.gui.cluster import RunOnField
from prune_gui.gui.dialogs.settings import SettingsDialog
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.pruning import devices
from prune_gui.session import Settings

NON_DEFAULTS = {
    "theme": "dark",
    "density": "compact",
    "language": "zh_CN",
    "threads": 3,
    "device": "cpu",
    "run_on": "local:2",
    "picture_memory": 256,
    "fetch_limit": 20,
    "form": "masks",
    "keep_unsaved": False,
}


@pytest.fixture
def dialog(window, qtbot):
    window.menu_actions["settings"].trigger()
    found = window.findChild(SettingsDialog)
    yield found
    found.close()
    parallel.use_threads(None)  # for the engines of later tests
    devices.use_device("automatic")


def choose(dialog, name, value):
    field = getattr(dialog, name)
    if isinstance(field, QComboBox):
        field.setCurrentIndex(field.findData(value))
    elif isinstance(field, QSpinBox):
        field.setValue(value)
    elif isinstance(field, RunOnField):
        field.set_address(value)
    else:
        field.setChecked(value)


@pytest.mark.parametrize(("name", "value"), NON_DEFAULTS.items())
def test_a_change_is_saved_immediately_and_changes_nothing_else(dialog, window, name, value):
    choose(dialog, name, value)
    assert window.commands.settings == Settings(**{name: value})
    assert Settings.load() == Settings(**{name: value})


def test_the_dialog_shows_the_settings_and_restores_the_defaults(qtbot):
    preferences = Preferences(Settings(**NON_DEFAULTS))
    dialog = SettingsDialog(preferences)
    qtbot.addWidget(dialog)
    assert dialog.theme.currentText() == "Dark"
    assert dialog.threads.text() == "3"
    assert dialog.picture_memory.text() == "256 MB"
    assert dialog.form.currentText() == "Masks"
    assert not dialog.keep_unsaved.isChecked()
    dialog.restore.click()
    assert preferences.now == Settings()
    assert dialog.threads.text() == "Automatic"


def test_another_change_keeps_an_address_that_is_half_typed(dialog):
    dialog.run_on.place.setCurrentText("Dask cluster")
    dialog.run_on.address.setText("tcp://")
    choose(dialog, "keep_unsaved", False)
    assert dialog.run_on.address.text() == "tcp://"
    dialog.restore.click()
    assert dialog.run_on.place.currentText() == "This machine"


def test_return_accepts_an_address_and_keeps_the_dialog_open(dialog, window, qtbot):
    dialog.run_on.place.setCurrentText("Dask cluster")
    qtbot.keyClicks(dialog.run_on.address, "local:2")
    qtbot.keyClick(dialog.run_on.address, Qt.Key.Key_Return)
    assert window.commands.settings.run_on == "local:2"
    assert dialog.isVisible()


def test_the_number_of_threads_changes_without_a_restart(dialog, workbench, qtbot):
    def threads_of_engine():
        seen = []
        workbench.bridge.run(Job("Looking", lambda _: torch.get_num_threads()), seen.append)
        qtbot.waitUntil(lambda: bool(seen), timeout=60_000)
        return seen[0]

    default = parallel.default_threads()
    choose(dialog, "threads", default + 3)
    assert threads_of_engine() == default + 3
    choose(dialog, "threads", 0)
    assert threads_of_engine() == default


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_corrections_are_computed_on_the_chosen_device(dialog, qtbot, monkeypatch, name):
    card = torch.device("cuda")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: card)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert devices.chosen_device() == card
    choose(dialog, "device", name)
    expected = card if name == "gpu" else torch.device("cpu")
    qtbot.waitUntil(lambda: devices.chosen_device() == expected)


def test_the_default_form_is_preselected_in_the_save_dialog(dialog, demo_window, monkeypatch):
    offered = []
    monkeypatch.setattr(SaveDialog, "exec", lambda box: offered.append(box.form) or 0)
    choose(dialog, "form", "reparametrized")
    demo_window.menu_actions["save_checkpoint"].trigger()
    assert offered == ["reparametrized"]


def test_every_field_has_an_accessible_name(dialog):
    assert all(box.accessibleName() for kind in (QComboBox, QSpinBox) for box in find(dialog, kind))


def find(dialog, kind) -> list[QWidget]:
    return dialog.findChildren(kind)


def test_a_number_is_not_applied_while_it_is_typed(dialog, window, qtbot):
    dialog.threads.setFocus()
    dialog.threads.selectAll()
    qtbot.keyClicks(dialog.threads, "12")
    assert window.commands.settings.threads is None
    qtbot.keyClick(dialog.threads, Qt.Key.Key_Tab)
    assert window.commands.settings.threads == 12
    choose(dialog, "threads", 0)
