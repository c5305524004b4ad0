import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.raster import cell_grid as cells_module
from prune_gui.raster.cell_statistics import means, pruned_shares
from prune_gui.raster.layouts import KernelLayout, SliceLayout
from prune_gui.statistics.element_values import absolute, scores, weights

HALF = {"method": "l1_unstructured", "amount": 0.5}
CHANNELS = {"method": "ln_structured", "amount": 1, "n": 2, "dim": 0}


CASES = {
    "shape": st.lists(st.integers(1, 6), max_size=4).map(tuple),
    "chunk": st.sampled_from([1, 7, 1 << 20]),
    "data": st.data(),
}


def _layout(shape, data):
    kinds = [SliceLayout.flattened(shape), KernelLayout.of(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        kinds.append(SliceLayout.section(shape, *dims, [0] * len(shape)))
    return data.draw(st.sampled_from([kind for kind in kinds if kind]))


def _check(found, numbers, layout):
    """Compare profiles with the means of the finite numbers, computed one by one."""
    positions = np.full((layout.rows, layout.columns), np.nan)
    for position in np.ndindex(positions.shape):
        if layout.holds(*position) and np.isfinite(numbers[layout.flat(*position)]):
            positions[position] = numbers[layout.flat(*position)]
    for line, axis in ((found.rows, 1), (found.columns, 0)):
        present = ~np.isnan(positions).all(axis)
        assert np.isnan(line[~present]).all()
        lines = np.compress(present, positions, 1 - axis)
        np.testing.assert_allclose(line[present], np.nanmean(lines, axis), rtol=1e-12, atol=1e-14)


@given(**CASES)
def test_pruned_shares_are_the_means_of_the_mask_along_each_axis(resolved, shape, chunk, data):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution, layout = resolved(HALF, w=tensor), _layout(shape, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "CHUNK_ELEMENTS", chunk)
        found = pruned_shares(resolution, "w", layout, Monitor())
    _check(found, (~resolution.mask("w")).double().numpy().reshape(-1), layout)


@given(
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.float8_e5m2]),
    **CASES,
)
def test_means_are_those_of_the_finite_numbers_along_each_axis(resolved, dtype, shape, chunk, data):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    non_finite = data.draw(st.lists(st.integers(0, tensor.numel() - 1), max_size=3))
    tensor.view(-1)[non_finite] = data.draw(
        st.sampled_from([float("nan"), float("inf"), -float("inf")])
    )
    resolution, layout = resolved(w=tensor), _layout(shape, data)
    values = tensor.double().numpy().reshape(-1)
    measure = weights(resolution, "w")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "CHUNK_ELEMENTS", chunk)
        found = means(measure, layout, Monitor())
        of_sizes = means(absolute(measure), layout, Monitor())
    _check(found, values, layout)
    _check(of_sizes, np.abs(values), layout)


def test_unranked_elements_do_not_count_in_the_mean_score(resolved):
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    channels = {"method": "channels", "dim": 0, "channels": [0]}
    resolution = resolved(channels, HALF, w=weights)
    found = means(scores(resolution, "w", 2), SliceLayout.flattened((2, 2)), Monitor())
    assert np.isnan(found.rows[0])
    assert found.rows[1] == 3.5
    assert found.columns.tolist() == [3, 4]


def test_a_pruned_channel_is_visible_in_the_profile(resolved):
    weights = torch.ones(4, 3)
    weights[2] = 0.5
    found = pruned_shares(
        resolved(CHANNELS, w=weights), "w", SliceLayout.flattened((4, 3)), Monitor()
    )
    assert found.rows.tolist() == [0, 0, 1, 0]
    assert found.columns.tolist() == [0.25] * 3
