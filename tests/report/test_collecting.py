"""The content of a report agrees with a plain computation in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.report.collecting import report_on_files, report_on_stack

VALUES = st.sampled_from([0.0, -0.0, 0.5, -1.0, 3.0])
ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=9), elements=VALUES)


@given(weights=ARRAYS, data=st.data())
def test_zeros_and_energy_are_those_of_the_arrays(report_on, weights, data):
    before = data.draw(hnp.arrays(np.float32, weights.shape, elements=VALUES))
    file = {"w": torch.from_numpy(weights)}
    found = report_on(file, reference={"w": torch.from_numpy(before)}).files[0]
    [layer] = found.layers
    nonzero = weights != 0
    assert (layer.zeros, layer.total) == ((~nonzero).sum(), weights.size)
    assert layer.norm == pytest.approx(np.linalg.norm(weights.astype(float)))
    assert layer.norm_before == pytest.approx(np.linalg.norm(before.astype(float)))
    energy = (before.astype(float) ** 2).sum()
    if energy:
        kept = (before[nonzero].astype(float) ** 2).sum() / energy
        assert layer.kept_energy == found.kept_energy == pytest.approx(kept)
    else:
        assert layer.kept_energy is None
    if weights.ndim > 1:
        assert layer.dead_channels == (~nonzero.reshape(len(weights), -1).any(1)).sum()


@given(left=ARRAYS, data=st.data())
def test_overlaps_are_those_of_the_zeros(report_on, left, data):
    right = data.draw(hnp.arrays(np.float32, left.shape, elements=VALUES))
    files = [{"w": torch.from_numpy(side), "b": torch.ones(2)} for side in (left, right)]
    found = report_on(files[0], {**files[1], "new": torch.ones(3)})
    [pair] = found.pairs
    zero, other = left == 0, right == 0
    assert (pair.left, pair.right, pair.omitted) == ("A", "B", 1)
    assert pair.total.both == (zero & other).sum()
    assert pair.total.left == (zero & ~other).sum()
    assert pair.total.right == (~zero & other).sum()


def test_without_a_reference_nothing_is_claimed_about_the_past(report_on):
    [layer] = report_on({"w": torch.tensor([[0.0, 1.0]])}).files[0].layers
    assert (layer.norm_before, layer.kept_energy, layer.norm) == (None, None, 1.0)


def test_parameters_that_the_reference_lacks_have_no_past(report_on):
    reference = {"w": torch.ones(2, 2), "other": torch.ones(3)}
    file = {"w": torch.eye(2), "other": torch.full((4,), 2.0), "new": torch.ones(1)}
    found = report_on(file, reference=reference).files[0]
    by_name = {each.name: each for each in found.layers}
    assert by_name["w"].kept_energy == 0.5
    assert found.kept_energy is None  # without a part of what the reference has
    assert by_name["other"].norm_before is by_name["new"].norm_before is None


def test_a_reference_of_another_model_is_refused(report_on):
    with pytest.raises(CheckpointError, match="has no parameter of"):
        report_on({"w": torch.eye(2)}, reference={"other": torch.eye(2)})


def test_what_a_compact_file_keeps_is_relative_to_the_reference(report_on):
    reference = {"w": torch.arange(1.0, 7.0).view(3, 2), "b": torch.tensor([1.0, 0.0, 2.0])}
    file = {"w": reference["w"][1:].clone(), "b": reference["b"][1:].clone()}
    found = report_on(file, reference=reference).files[0]
    weights, bias = found.layers
    assert weights.kept_energy == pytest.approx(86 / 91)
    assert bias.kept_energy == pytest.approx(4 / 5)
    assert found.kept_energy == pytest.approx(90 / 96)
    assert weights.norm_before == pytest.approx(91**0.5)


def test_a_stack_is_reported_by_step_and_with_the_other_zeros_of_the_file(resolved):
    weights = torch.tensor([[2.0, 1.0, 2.0, 3.0], [-4.0, 5.0, 6.0, 0.0]])
    resolution = resolved(
        {"method": "ln_structured", "amount": 1, "dim": 0, "n": 2},
        {"method": "channels", "channels": [0], "dim": 1},
        fc__weight=weights,
    )
    found = report_on_stack(resolution, resolution.checkpoint, Monitor()).files[0]
    [layer] = found.layers
    assert layer.by_code == {1: 4, 2: 1, IN_FILE: 1}
    assert [(step.number, step.pruned) for step in found.steps] == [(1, 4), (2, 1)]
    assert layer.kept_energy == pytest.approx(61 / 95)
    assert layer.norm_before == pytest.approx(95**0.5)
    untouched = report_on_stack(resolved(fc__weight=weights), None, Monitor()).files[0]
    assert untouched.layers[0].by_code == {IN_FILE: 1}
    assert untouched.steps == ()


def test_the_energy_that_a_stack_keeps_is_relative_to_the_reference(resolved, in_memory):
    step = {"method": "channels", "channels": [0], "dim": 1}
    pruned = resolved(step, fc__weight=torch.tensor([[1.0, 0.0], [0.5, 3.0]]))
    dense = in_memory({"fc.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]])})
    file = report_on_stack(pruned, dense, Monitor()).files[0]
    assert (file.kept_energy, file.reference) == (pytest.approx(16 / 30), dense.path.name)
    assert file.layers[0].by_code == {1: 2, IN_FILE: 1}
    [layer] = report_on_stack(pruned, None, Monitor()).files[0].layers
    assert (layer.kept_energy, layer.norm_before, layer.norm) == (None, None, 3.0)
    assert layer.by_code == {1: 2, IN_FILE: 1}


def test_what_was_zero_before_pruning_is_no_fault_of_it(report_on):
    file = {"w": torch.zeros(2, 2), "b": torch.zeros(2)}
    weights, bias = report_on(file).files[0].layers
    assert weights.warnings[0] == "no weights remain"
    assert bias.warnings == ()
    reference = {"w": torch.zeros(2, 2), "b": torch.ones(2)}
    weights, bias = report_on(file, reference=reference).files[0].layers
    assert "no weights remain" not in weights.warnings


def test_running_statistics_have_no_energy(report_on):
    before = {"w.weight": torch.ones(4), "w.running_var": torch.full((4,), 1e4)}
    file = before | {"w.weight": torch.tensor([1.0, 0.0, 1.0, 0.0])}
    file["w.running_var"] = torch.tensor([1e4, 0.0, 0.0, 0.0])
    found = report_on(file, reference=before).files[0]
    assert found.kept_energy == 0.5
    assert (found.layers[1].norm, found.layers[1].norm_before) == (None, None)
    assert (found.zeros, found.total, sum(found.by_code.values())) == (2, 4, 2)


def test_folders_are_left_out_unless_asked_for(in_memory):
    checkpoint = in_memory({"w": torch.ones(2)})
    without, named = (
        report_on_files([checkpoint], None, Monitor(), with_folders=flag).files[0]
        for flag in (False, True)
    )
    assert without.folder == ""
    assert named.folder == str(checkpoint.path.absolute().parent)


def test_a_file_without_prunable_parameters_has_no_layers(report_on):
    found = report_on({"steps": torch.tensor(7)}).files[0]
    assert (found.layers, found.total, found.sparsity, found.kept_energy) == ((), 0, 0.0, None)


def test_a_reparametrized_file_knows_its_past_without_a_reference(report_on):
    mask = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    file = {"w_orig": torch.full((2, 2), 2.0), "w_mask": mask, "v": torch.full((2,), 2.0)}
    found = report_on(file).files[0]
    assert [layer.zeros for layer in found.layers] == [2, 0]
    assert found.kept_energy == pytest.approx(16 / 24)


def test_masks_are_zeros_of_the_weights_that_they_prune(report_on):
    mask = torch.tensor([[True, False], [True, True]])
    weights = torch.tensor([[3.0, 1.0], [0.0, 4.0]])
    [layer] = report_on({"w": mask}, reference={"w": weights}).files[0].layers
    assert (layer.zeros, layer.norm, layer.kept_energy) == (1, 5.0, pytest.approx(25 / 26))
    [alone] = report_on({"w": mask}).files[0].layers
    assert (alone.zeros, alone.norm) == (1, None)
