"""A correction is offered only if a recording of this model lies beside the checkpoint."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import prune_gui
from prune_gui.recipe.correction.planning import correction_beside


def save_recording(model, statistic, folder):
    folder.mkdir(exist_ok=True)
    with prune_gui.record(model, statistic) as recording:
        model(torch.randn(5, 6))
    return recording.save(folder)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.fixture
def checkpoint(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(model.state_dict(), path)
    with prune_gui.open_checkpoint(path) as opened:
        yield opened


@pytest.mark.parametrize("folder", [".", "statistics"])
def test_second_moments_beside_a_checkpoint_make_a_refit_possible(
    model, checkpoint, tmp_path, folder
):
    [path] = save_recording(model, "second_moments", tmp_path / folder)
    step = correction_beside(checkpoint)
    assert (step.method.name, step.method.moments) == ("refit", str(path))
    prune_gui.resolve(prune_gui.Recipe(steps=(step,)), checkpoint)


def test_refit_precedes_bias_correction(model, checkpoint, tmp_path):
    save_recording(model, "means", tmp_path)
    assert correction_beside(checkpoint).method.name == "bias_correction"
    save_recording(model, "second_moments", tmp_path / "b")
    assert correction_beside(checkpoint).method.name == "refit"


def test_recordings_of_other_models_and_other_files_are_passed_over(checkpoint, tmp_path):
    assert correction_beside(checkpoint) is None
    save_recording(nn.Sequential(nn.Linear(6, 5)), "second_moments", tmp_path / "other")
    (tmp_path / "second_moments.safetensors").write_bytes(b"broken")
    (tmp_path / "x" / "second_moments.safetensors").mkdir(parents=True)
    save_file({"0.weight": torch.zeros(6, 6)}, tmp_path / "means.safetensors")
    assert correction_beside(checkpoint) is None
