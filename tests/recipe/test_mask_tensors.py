"""Which tensors of a file are masks, and what they count as pruned."""

import pytest
import torch
from applied import CancelAfter, applied
from safetensors.torch import save_file

from prune_gui import parallel
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.auxiliary_files import mask_step, masks_in

STEP = "steps: [{method: l1_unstructured, targets: ['*'], amount: 2}]"


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8])
def test_boolean_tensors_and_integers_of_0_and_1_are_masks(on_disk, dtype):
    mask = torch.tensor([[1, 0, 0], [1, 1, 0]]).to(dtype)
    ones, scalar = torch.ones(4, dtype=dtype), torch.ones((), dtype=dtype)
    file = on_disk({"mask": mask, "ones": ones, "scalar": scalar})
    layers, counts = masks_in(file, Monitor())
    assert counts == {"mask": (3, 6), "ones": (0, 4)}
    assert layers.keys() == counts.keys()


def test_other_integers_and_floating_point_numbers_are_not_masks(on_disk, monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 2)
    late = torch.tensor([0, 1, 1, 2], dtype=torch.uint8)
    file = on_disk(
        {
            "late": late,
            "negative": torch.tensor([0, -1], dtype=torch.int8),
            "wide": torch.tensor([0, 1]),
            "weight": torch.tensor([0.0, 1.0]),
            "empty": torch.zeros(0, dtype=torch.bool),
        }
    )
    assert masks_in(file, Monitor()) == ({}, {})


def test_reading_masks_can_be_cancelled(on_disk):
    with pytest.raises(Cancelled):
        masks_in(on_disk({"mask": torch.ones(4, dtype=torch.bool)}), Monitor(cancel=CancelAfter(0)))


def test_a_file_of_masks_resolves_to_what_the_masks_prune(on_disk, tmp_path):
    file = on_disk({"a": torch.arange(6.0), "b": torch.arange(8.0).reshape(2, 4)})
    pruned = resolve(Recipe.from_yaml(STEP), file)
    export(pruned, tmp_path / "masks.safetensors", "masks")
    with applied(tmp_path / "masks.safetensors", Recipe()) as shown:
        assert shown.counts == {"a": (2, 6), "b": (2, 8)}
        assert shown.total == (4, 14)
        for name in shown.counts:
            assert torch.equal(shown.mask(name), pruned.mask(name))


def test_masks_beside_weights_do_not_count_as_pruned(on_disk):
    file = on_disk({"weight": torch.ones(4), "causal": torch.tensor([True, False])})
    assert resolve(Recipe(), file).counts == {"weight": (0, 4)}


def test_zeros_of_a_file_in_the_form_of_masks_are_pruned_in_floating_point_masks_too(on_disk):
    metadata = {"prune_gui.version": "1", "prune_gui.form": "masks", "prune_gui.pruned": '{"a": 2}'}
    masks = on_disk({"a": torch.tensor([0.0, 1.0, 0.0])}, metadata=metadata)
    assert resolve(Recipe(), masks).counts == {"a": (2, 3)}


SAVED = "steps: [{method: l1_unstructured, targets: [a, c], amount: 3}]"


@pytest.fixture
def checkpoint(on_disk):
    weights = {"a": torch.arange(8.0).reshape(2, 4), "b": torch.ones(8), "c": torch.arange(6.0)}
    return on_disk({**weights, "n": torch.tensor(3)})


@pytest.mark.parametrize("form", ["masks", "reparametrized"])
def test_a_saved_mask_as_a_step_prunes_the_same_elements(checkpoint, tmp_path, form):
    saved = resolve(Recipe.from_yaml(SAVED), checkpoint)
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
