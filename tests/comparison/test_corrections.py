"""What the views show of kept weights that a step corrects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import prune_gui
from prune_gui.comparison.mask_overlap import shares, until
from prune_gui.monitor import Monitor
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe import Resolution
from prune_gui.session.changes import changed_parameters
from prune_gui.statistics import element_values
from prune_gui.statistics.element_values import element_at
from prune_gui.statistics.histogram import bin_edges, histogram, value_range

LAYOUT = SliceLayout.flattened((6, 8))
SIZE = 48


@pytest.fixture
def corrected(tmp_path):
    """Return the resolution of a pruned and refitted layer."""
    layer = nn.Sequential(nn.Linear(8, 6))
    save_file(layer.state_dict(), tmp_path / "dense.safetensors")
    with torch.no_grad(), prune_gui.record(layer, "second_moments", "means") as recording:
        layer(torch.randn(100, 8) + 1)
    recording.save(tmp_path)
    steps = [
        {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5},
        {"method": "refit", "targets": ["*"], "moments": "second_moments.safetensors"},
        {"method": "bias_correction", "targets": ["*"], "means": "means.safetensors"},
    ]
    recipe = prune_gui.Recipe.validated({"steps": steps}, "recipe", tmp_path)
    with prune_gui.open_checkpoint(tmp_path / "dense.safetensors") as checkpoint:
        yield prune_gui.resolve(recipe, checkpoint)


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
