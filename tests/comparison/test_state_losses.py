"""What is lost between two states, and how views show the weights that a step corrects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import prune_gui
from prune_gui import parallel
from prune_gui.comparison.mask_overlap import shares, until
from prune_gui.comparison.state_losses import compute_losses, empty_losses
from prune_gui.monitor import Monitor
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe import Resolution
from prune_gui.session.changes import changed_parameters
from prune_gui.statistics import element_values
from prune_gui.statistics.element_values import element_at
from prune_gui.statistics.histogram import bin_edges, histogram, value_range

HALF = {"method": "l1_unstructured", "amount": 0.5}
ROW = {"method": "channels", "channels": [0], "dim": 0}


def every(_):
    return True


def _losses(left, right, before=None, wanted=every):
    return compute_losses(empty_losses(left, right, before), wanted, Monitor())


def _weights(seed, *shape):
    weights = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    weights.view(-1)[::3] = 0
    return weights


@given(
    seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
    start=st.sampled_from(["dense", "zeros"]),
    steps=st.lists(st.sampled_from([HALF, ROW]), max_size=2),
    chunk=st.sampled_from([1, 7, 1 << 20]),
)
def test_losses_are_those_of_the_arrays(resolved, seed, dtype, start, steps, chunk):
    left = resolved(start=start, w=_weights(seed, 4, 5))
    right = resolved(*steps, w=_weights(seed + 1, 4, 5).to(dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found = _losses(left, right)
    before, after = (
        (side.checkpoint.read("w") * side.mask("w")).double().numpy() for side in (left, right)
    )
    zeros = before == 0, after == 0
    assert list(found) == ["w"]
    assert found.before[0] == zeros[0].mean()
    assert found.after[0] == zeros[1].mean()
    assert found.iou[0] == (zeros[0] & zeros[1]).sum() / (zeros[0] | zeros[1]).sum()
    overlap = found.overlap(0)
    assert overlap.both == (zeros[0] & zeros[1]).sum()
    assert overlap.left == (zeros[0] & ~zeros[1]).sum()
    assert overlap.kept == 20 - (zeros[0] | zeros[1]).sum()
    assert overlap.iou == found.iou[0]
    assert found.lost[0] == pytest.approx((before[zeros[1]] ** 2).sum() / (before**2).sum())
    assert found.change[0] == pytest.approx(np.linalg.norm(after - before))


def test_the_parameter_that_lost_most_is_known_and_weights_that_are_not_finite_do_not_count(
    resolved,
):
    tensors = {"v": torch.tensor([float("nan"), 1.0, 2.0]), "w": torch.zeros(2), "x": torch.ones(4)}
    left = resolved(**tensors)
    right = resolved({"method": "l1_unstructured", "amount": 2, "targets": ["v"]}, **tensors)
    found = _losses(left, right)
    assert found.worst[0] == "v"
    assert np.isnan(found.lost[1])
    assert np.isnan(found.iou[2])
    assert _losses(left, left).worst is None


def test_only_parameters_on_both_sides_are_compared_and_other_shapes_are_not_guessed(resolved):
    left = resolved(v=torch.ones(2), w=torch.ones(2), y=torch.ones(1))
    right = resolved(w=torch.full((3,), 2.0), v=torch.ones(2), x__running_mean=torch.ones(1))
    found = _losses(left, right)
    assert list(found) == ["w", "v"]
    assert found.omitted == 1
    assert found.unmatched.tolist() == [True, False]
    for measure in (found.lost, found.before, found.after, found.change, found.iou):
        assert np.isnan(measure[0])


def test_states_without_a_common_parameter_have_nothing_to_list(resolved):
    found = _losses(resolved(a=_weights(0, 4, 5)), resolved(b=_weights(1, 4, 5)))
    assert list(found.listed) == list(found.weights) == []
    assert found.omitted == 2


def test_what_a_compact_file_lacks_is_lost(resolved):
    weights = torch.arange(1.0, 7.0).view(3, 2)
    whole = resolved(w=weights)
    step = {"method": "channels", "channels": [0], "dim": 0}
    smaller, pruned = resolved(step, w=weights[1:]), resolved(step, w=weights)
    found = _losses(whole, smaller)
    assert found.sizes.tolist() == [6]
    assert found.lost[0] == pytest.approx((1 + 4 + 9 + 16) / 91)
    assert (found.before[0], found.after[0]) == (0, pytest.approx(4 / 6))
    back = _losses(smaller, pruned)
    assert back.lost[0] == 0
    assert (back.before[0], back.after[0]) == (pytest.approx(4 / 6), pytest.approx(2 / 6))
    assert back.overlap(0).both == 2


def test_changed_parameters_are_read_first_and_after_an_edit_only_those(resolved):
    tensors = {"a__w": torch.ones(2), "b__w": torch.ones(9), "c__w": torch.ones(3)}
    left = resolved(**tensors)
    [step] = resolved({**HALF, "targets": ["b.w"]}, **tensors).recipe.steps
    right = left.with_step(step, Monitor())
    asked = []
    first = _losses(left, right, wanted=lambda info: asked.append(info.name) or len(asked) < 2)
    assert asked == ["b.w", "a.w"]
    assert not first.is_complete
    assert first.progress == 9 / 14
    assert np.isnan(first.after).tolist() == [True, False, True]
    known = empty_losses(left, left, _losses(left, right, first))
    assert known.measures["known"].tolist() == [True, False, True]


def test_running_statistics_lose_no_energy_and_are_listed_where_they_differ(resolved):
    norm = {"n__weight": torch.ones(2), "n__running_mean": torch.full((2,), 9.0)}
    other = norm | {"n__running_mean": torch.zeros(2)}
    step = {**HALF, "targets": ["n.weight"]}
    same, changed = (_losses(resolved(**norm), resolved(step, **right)) for right in (norm, other))
    assert list(same.listed) == ["n.weight"]
    assert list(changed.listed) == ["n.weight", "n.running_mean"]
    for found in (same, changed):
        assert list(found) == ["n.weight", "n.running_mean"]
        assert found.worst == ("n.weight", 0.5)
        assert found.measures["energy"].sum() == 2
        assert found.measures["lost"].sum() == 1


LAYOUT = SliceLayout.flattened((6, 8))
SIZE = 48


@pytest.fixture
def corrected(on_disk, tmp_path):
    """Return the resolution of a pruned and refitted layer."""
    layer = nn.Sequential(nn.Linear(8, 6))
    checkpoint = on_disk(layer.state_dict())
    with torch.no_grad(), prune_gui.record(layer, "second_moments", "means") as recording:
        layer(torch.randn(100, 8) + 1)
    recording.save(tmp_path)
    steps = [
        {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5},
        {"method": "refit", "targets": ["*"], "moments": "second_moments.safetensors"},
        {"method": "bias_correction", "targets": ["*"], "means": "means.safetensors"},
    ]
    recipe = prune_gui.Recipe.validated({"steps": steps}, "recipe", tmp_path)
    return prune_gui.resolve(recipe, checkpoint)


def final_values(resolution: Resolution) -> np.ndarray:
    return resolution.values("0.weight").detach().numpy()


def test_the_values_are_the_corrected_ones(corrected):
    values = final_values(corrected)
    dense = corrected.checkpoint.read("0.weight").numpy()
    assert (values != dense).any()
    numbers, _ = element_values.weights(corrected, "0.weight")(0, SIZE)
    np.testing.assert_array_equal(numbers, values.ravel())
    change, _ = element_values.corrections(corrected, "0.weight")(0, SIZE)
    np.testing.assert_allclose(change, (values - dense).ravel(), atol=1e-7)
    row, column = np.argwhere(values != dense)[0]
    assert element_at(corrected, "0.weight", LAYOUT.flat(row, column)).value == values[row, column]


def test_the_histogram_counts_the_corrected_values(corrected):
    values = final_values(corrected)
    low, high = value_range(corrected, "0.weight", Monitor())
    assert (low, high) == (values.min(), values.max())
    edges = bin_edges(low, high, 10, symmetric=True)
    found = histogram(corrected, "0.weight", edges, Monitor())
    np.testing.assert_array_equal(found.counts.sum(0), np.histogram(values, edges)[0])


def test_a_comparison_tells_kept_weights_that_a_step_corrected(corrected):
    states = [until(corrected, steps, ["0.weight"]) for steps in (1, 2)]
    found = shares(*states, "0.weight", CellGrid.over(LAYOUT, (6, 8)), Monitor())
    dense = corrected.checkpoint.read("0.weight").numpy()
    np.testing.assert_array_equal(found.corrected > 0, final_values(corrected) != dense)
    np.testing.assert_array_equal(found.both > 0, ~corrected.mask("0.weight").numpy())


def test_a_state_of_one_bias_knows_the_weight_from_which_it_follows(corrected):
    bias = until(corrected, 3, ["0.bias"]).values("0.bias")
    assert torch.equal(bias, corrected.values("0.bias"))
    assert torch.equal(
        until(corrected, 2, ["0.bias"]).values("0.bias"), corrected.checkpoint.read("0.bias")
    )


def test_a_change_of_any_step_concerns_corrected_parameters(corrected):
    others = [step for step in corrected.recipe.steps if step.method.name != "l1_unstructured"]
    changed = prune_gui.resolve(corrected.recipe.with_steps(tuple(others)), corrected.checkpoint)
    assert {"0.weight", "0.bias"} <= changed_parameters(corrected, changed)
