"""The notice that a recording lies beside the checkpoint."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import prune_gui
from prune_gui.gui.panels.notices import CorrectionNotice


@pytest.fixture
def notice(window, open_file, tmp_path):
    """Return the notice of a window with a model that has a recording."""
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    with prune_gui.record(model, "second_moments") as recording:
        model(torch.randn(9, 6))
    recording.save(tmp_path / "statistics")
    open_file(tmp_path / "model.safetensors")
    return window.findChild(CorrectionNotice)


def test_it_appears_when_something_is_pruned_and_drafts_the_correction(
    notice, window, workbench, make_step, settle
):
    assert notice.text == ""
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.weight")))
    settle()
    assert notice.text.startswith("second_moments.safetensors is a recording")
    notice.button.click()
    settle()
    step = workbench.draft.current.step
    assert (step.method.name, step.targets) == ("refit", ("dims>1",))
    assert workbench.resolved.draft_error is None
    assert notice.text == ""
    window.draft.add()
    settle()
    assert workbench.session.steps[-1] == step
    assert notice.text == ""
    workbench.edit(lambda session: session.undo())
    settle()
    assert notice.text != ""


def test_the_user_closes_it_until_the_file_is_opened_again(
    notice, window, workbench, open_file, make_step, settle
):
    step = make_step("l1_unstructured", "*.weight")
    for _ in range(2):
        workbench.edit(lambda session: session.add(step))
        settle()
        assert notice.text != ""
        notice._close.click()
        assert notice.text == ""
        workbench.edit(lambda session: session.clear())
        settle()
        assert notice.text == ""
        workbench.edit(lambda session: session.undo())
        settle()
        assert notice.text == ""
        workbench.session.mark_saved(workbench.session.recipe)
        open_file(workbench.session.checkpoint.path)
