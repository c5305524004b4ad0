"""A file of masks as a step: which parameters it targets, and what it prunes."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.mask_tensors import mask_step

STEP = "steps: [{method: l1_unstructured, targets: [a, c], amount: 3}]"


@pytest.fixture
def checkpoint(tmp_path):
    weights = {"a": torch.arange(8.0).reshape(2, 4), "b": torch.ones(8), "c": torch.arange(6.0)}
    save_file({**weights, "n": torch.tensor(3)}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as opened:
        yield opened


@pytest.mark.parametrize("form", ["masks", "reparametrized"])
def test_a_saved_mask_as_a_step_prunes_the_same_elements(checkpoint, tmp_path, form):
    saved = resolve(Recipe.from_yaml(STEP), checkpoint)
    export(saved, tmp_path / "out.safetensors", form)
    step = mask_step(tmp_path / "out.safetensors", checkpoint, Monitor())
    resolution = resolve(Recipe(steps=(step,)), checkpoint)
    assert resolution.counts == saved.counts
    assert set(resolution.outcomes[0].pruned) == {"a", "c"}
    for name in "ac":
        assert torch.equal(resolution.mask(name), saved.mask(name))


@pytest.mark.parametrize(
    "masks",
    [
        {"a": torch.ones(4, 2, dtype=torch.bool)},  # another shape
        {"z": torch.ones(2, 4, dtype=torch.bool)},  # another name
        {"a": torch.full((2, 4), 7, dtype=torch.int8)},  # weights of 8 bits
        {"a": torch.ones(2, 4)},  # weights
        {"n": torch.tensor(True)},  # of a tensor that is not prunable
    ],
)
def test_masks_that_fit_no_parameter_make_no_step(checkpoint, tmp_path, masks):
    save_file(masks, tmp_path / "masks.safetensors")
    assert mask_step(tmp_path / "masks.safetensors", checkpoint, Monitor()) is None


def test_masks_of_foreign_programs_fit_by_name_and_shape(checkpoint, tmp_path):
    masks = {"a": torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]], dtype=torch.uint8)}
    other = {"c": torch.ones(5, dtype=torch.bool)}
    save_file({**masks, **other}, tmp_path / "masks.safetensors")
    step = mask_step(tmp_path / "masks.safetensors", checkpoint, Monitor())
    assert step.targets == ("a",)
    assert resolve(Recipe(steps=(step,)), checkpoint).counts["a"] == (2, 8)
