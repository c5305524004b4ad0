"""The menu of the state dicts of a checkpoint."""

from __future__ import annotations

import torch
from safetensors.torch import save
from waiting import change


def test_the_menu_opens_another_state_dict_of_the_file(window, open_file, qtbot, tmp_path):
    assert not window._states.isEnabled()
    path = tmp_path / "training.pt"
    model = {"w": torch.ones(2, 2), "b": torch.ones(2)}
    torch.save({"a&b": model, "ema": {"w": torch.ones(3, 3)}}, path)
    open_file(path)
    assert window._states.isEnabled()
    window._states.aboutToShow.emit()
    actions = window._states.actions()
    assert [(act.text(), act.isChecked()) for act in actions] == [("a&&b", True), ("ema", False)]
    with change(qtbot, window.workbench, "resolution"):
        actions[1].trigger()
    assert window.workbench.session.checkpoint.state_dict == "ema"
    window._states.aboutToShow.emit()
    assert [act.isChecked() for act in window._states.actions()] == [False, True]


def test_the_menu_is_disabled_for_a_file_with_one_state_dict(window, open_file, demo_checkpoint):
    open_file(demo_checkpoint)
    assert not window._states.isEnabled()


def test_a_file_with_an_undecodable_name_opens_and_is_not_recent(window, open_file, tmp_path):
    path = tmp_path / "a\nb\udcff.safetensors"
    path.write_bytes(save({"w": torch.ones(2, 2)}))
    open_file(path)
    assert "a\\nb\\udcff.safetensors" in window.windowTitle()
    assert window.commands.settings.recent == ()
