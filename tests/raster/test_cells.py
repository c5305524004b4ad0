import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.raster import cell_grid
from prune_gui.raster import density as density_module
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.cell_statistics import (
    cell_statistics,
    max_weight_magnitude,
    means,
    pruned_shares,
    reach_of,
)
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe import Resolution
from prune_gui.statistics.element_values import absolute, scores, sizes, weights

HALF = {"method": "l1_unstructured", "amount": 0.5}
CASES = {
    "shape": st.lists(st.integers(1, 6), max_size=4).map(tuple),
    "dtype": st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.float8_e5m2]),
    "chunk": st.sampled_from([1, 7, 64, 1 << 20]),
    "data": st.data(),
}


def _layout(data, shape):
    kinds = [SliceLayout.flattened(shape), KernelLayout.of(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        at = [data.draw(st.integers(0, size - 1)) for size in shape]
        kinds.append(SliceLayout.section(shape, *dims, at))
    return data.draw(st.sampled_from([kind for kind in kinds if kind]))


def _draw_span(data, size):
    start = data.draw(st.integers(0, size - 1))
    return range(start, data.draw(st.integers(start + 1, size)))


def _laid_out(layout, numbers):
    """Return the number at each position; NaN in gaps."""
    found = np.full((layout.rows, layout.columns), np.nan)
    for position in np.ndindex(found.shape):
        if layout.holds(*position):
            found[position] = numbers[layout.flat(*position)]
    return found


def _with_non_finite(shape, dtype):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    return tensor.masked_fill(drawn < 0.1, torch.nan).masked_fill(drawn > 0.9, torch.inf).to(dtype)


@given(measure=st.sampled_from([weights, sizes]), skip=st.sampled_from([0, 5, 1 << 13]), **CASES)
def test_every_cell_equals_that_of_numpy(resolved, shape, dtype, measure, chunk, skip, data):
    resolution = resolved(w=_with_non_finite(shape, dtype))
    entries = resolution.checkpoint.read("w").double().reshape(-1).numpy()
    entries = np.abs(entries) if measure is sizes else entries
    layout = _layout(data, shape)
    rows, columns = _draw_span(data, layout.rows), _draw_span(data, layout.columns)
    wanted = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_grid, "CHUNK_ELEMENTS", chunk)
        patch.setattr(cell_grid, "_SKIP", skip)
        grid = CellGrid.over(layout, wanted, rows, columns)
        found = cell_statistics(measure(resolution, "w"), grid, Monitor())
    assert found.mean.shape == found.farthest.shape == found.non_finite.shape == grid.shape
    is_element = ~np.isnan(_laid_out(layout, np.zeros(len(entries))))
    numbers = _laid_out(layout, entries)
    for i, j in np.ndindex(grid.shape):
        part = slice(*grid.row_edges[i : i + 2]), slice(*grid.column_edges[j : j + 2])
        inside = numbers[part][is_element[part]]
        finite = inside[np.isfinite(inside)]
        assert found.non_finite[i, j] == (len(finite) < len(inside))
        if len(finite):
            assert found.mean[i, j] == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12)
            farthest = np.abs(finite).max()  # of two equal magnitudes the positive one
            assert found.farthest[i, j] == (farthest if farthest in finite else -farthest)
        else:  # also between kernels
            assert np.isnan(found.mean[i, j])
            assert np.isnan(found.farthest[i, j])
    finite = entries[np.isfinite(entries)]
    reach = reach_of(measure(resolution, "w"), entries.size, Monitor())
    assert reach == np.abs(finite).max(initial=0.0)


@pytest.mark.parametrize("cells", [(2, 1), (1, 1), (2, 2)])
def test_of_two_equal_magnitudes_the_positive_value_is_returned(resolved, cells):
    tensor = torch.tensor([[-2.0, 1.0], [1.0, 2.0], [2.0, 0.0], [0.0, -2.0]])
    grid = CellGrid.over(SliceLayout.flattened((4, 2)), cells)
    found = cell_statistics(weights(resolved(w=tensor), "w"), grid, Monitor())
    assert found.farthest.max() == 2.0
    assert found.farthest.min() == (2.0 if cells[1] == 1 else -2.0)


@given(
    shape=st.lists(st.integers(0, 6), max_size=3).map(tuple),
    dtype=st.sampled_from(
        [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]
    ),
    non_finite=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_the_reach_from_raw_bits_equals_that_from_values(resolved, shape, dtype, non_finite, seed):
    random = torch.Generator().manual_seed(seed)
    tensor, drawn = (torch.rand(shape, generator=random) - 0.5 for _ in range(2))
    tensor = tensor.masked_fill(drawn + 0.5 < non_finite, torch.nan)
    tensor = tensor.masked_fill(drawn > 0.4, -torch.inf)
    resolution = resolved(w=tensor.to(dtype))
    size = resolution.checkpoint.tensors["w"].numel
    by_numbers = reach_of(weights(resolution, "w"), size, Monitor())
    assert max_weight_magnitude(resolution, "w", Monitor()) == by_numbers


def _check_means(found, numbers, layout):
    """Compare profiles with the means of the finite numbers, computed one by one."""
    positions = _laid_out(layout, np.where(np.isfinite(numbers), numbers, np.nan))
    for line, axis in ((found.rows, 1), (found.columns, 0)):
        present = ~np.isnan(positions).all(axis)
        assert np.isnan(line[~present]).all()
        lines = np.compress(present, positions, 1 - axis)
        np.testing.assert_allclose(line[present], np.nanmean(lines, axis), rtol=1e-12, atol=1e-14)


@given(**CASES)
def test_means_are_those_of_the_finite_numbers_along_each_axis(resolved, dtype, shape, chunk, data):
    resolution, layout = resolved(HALF, w=_with_non_finite(shape, dtype)), _layout(data, shape)
    values = resolution.checkpoint.read("w").double().reshape(-1).numpy()
    pruned = (~resolution.mask("w")).double().numpy().reshape(-1)
    measure = weights(resolution, "w")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_grid, "CHUNK_ELEMENTS", chunk)
        _check_means(means(measure, layout, Monitor()), values, layout)
        _check_means(means(absolute(measure), layout, Monitor()), np.abs(values), layout)
        _check_means(pruned_shares(resolution, "w", layout, Monitor()), pruned, layout)


def test_unranked_elements_do_not_count_in_the_mean_score(resolved):
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    channels = {"method": "channels", "dim": 0, "channels": [0]}
    resolution = resolved(channels, HALF, w=weights)
    found = means(scores(resolution, "w", 2), SliceLayout.flattened((2, 2)), Monitor())
    assert np.isnan(found.rows[0])
    assert found.rows[1] == 3.5
    assert found.columns.tolist() == [3, 4]


RANDOM = {"method": "random_unstructured", "amount": 0.3, "seed": 1}
ROWS = {"method": "l1_unstructured", "amount": 0.4, "scope": "row"}
DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def grid(shape, cells, **rectangle):
    return CellGrid.over(SliceLayout.flattened(shape), cells, **rectangle)


def _check_cells(found, codes, cells):
    """Compare a density with the codes of the elements in each cell, by definition."""
    down, across = cells.row_edges, cells.column_edges
    assert found.share.shape == cells.shape
    for i, j in np.ndindex(cells.shape):
        positions = np.ndindex(down[i + 1] - down[i], across[j + 1] - across[j])
        every = [(down[i] + row, across[j] + column) for row, column in positions]
        inside = [codes[cells.layout.flat(*one)] for one in every if cells.layout.holds(*one)]
        if not inside:
            assert np.isnan(found.share[i, j])
            continue
        assert found.share[i, j] == np.float32(np.count_nonzero(inside) / len(inside))
        assert found.step[i, j] in ({*inside} - {0} or {0})


def test_cells_show_steps_in_proportion_to_what_they_pruned(resolved):
    weights = torch.randn(400, 400)
    resolution = resolved({"method": "n_m"}, RANDOM, w=weights)
    found = density(resolution, "w", grid((400, 400), (50, 50)), Monitor())
    counts = resolution.pruned_by("w").flatten().bincount()[1:].numpy()
    for step, count in enumerate(counts, start=1):
        share = np.count_nonzero(found.step == step) / found.step.size
        assert share == pytest.approx(count / counts.sum(), abs=0.03)
    part = grid((400, 400), (10, 50), rows=range(80, 160))
    assert np.array_equal(density(resolution, "w", part, Monitor()).step, found.step[10:20])


@pytest.mark.slow
@given(
    shape=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    steps=st.lists(st.sampled_from([HALF, RANDOM, ROWS]), max_size=3),
    zeros=st.booleans(),
    non_finite=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    chunk=st.sampled_from([1, 7, 64, 1 << 21]),
    gap=st.sampled_from([0, 5, 1 << 15]),
    data=st.data(),
)
def test_every_cell_agrees_with_the_full_mask(
    resolved, shape, steps, zeros, non_finite, dtype, chunk, gap, data
):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    for value in (0, 1, -1, *([math.nan, math.inf, -math.inf] if non_finite else [])):
        weights[torch.rand(shape) < 0.2] = value  # many are equal
    resolution = resolved(*steps, start="zeros" if zeros else "dense", w=weights.to(dtype))
    layout = _layout(data, shape)
    rows, columns = _draw_span(data, layout.rows), _draw_span(data, layout.columns)
    cells = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density_module, "CHUNK_ELEMENTS", chunk)
        patch.setattr(cell_grid, "CHUNK_ELEMENTS", chunk)
        patch.setattr(density_module, "_GAP", gap)
        of_part = CellGrid.over(layout, cells, rows, columns)
        found = density(resolution, "w", of_part, Monitor())
    _check_cells(found, resolution.pruned_by("w").numpy().reshape(-1), of_part)


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 4).filter(KernelLayout.of),
    steps=st.lists(st.sampled_from([HALF, RANDOM]), max_size=2),
    cells=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_every_cell_of_a_kernel_layout_agrees_with_the_full_mask(resolved, shape, steps, cells):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution = resolved(*steps, w=weights)
    kernels = CellGrid.over(KernelLayout.of(shape), cells)
    found = density(resolution, "w", kernels, Monitor())
    _check_cells(found, resolution.pruned_by("w").numpy().reshape(-1), kernels)


def test_a_rectangle_computes_only_the_rows_that_it_covers(resolved, calls_of):
    resolution = resolved(HALF, w=torch.randn(1000, 100))
    asked = calls_of(Resolution, "pruned_by_within")
    density(resolution, "w", grid((1000, 100), (5, 50), rows=range(500, 510)), Monitor())
    assert min(start for _, _, start, *_ in asked) == 50_000
    assert max(stop for _, _, _, stop, *_ in asked) == 51_000
    assert sum(stop - start for _, _, start, stop, *_ in asked) == 1000


def test_rows_are_computed_in_few_calls_for_any_cell_size(resolved, calls_of, monkeypatch):
    resolution = resolved(HALF, w=torch.randn(40, 1000))
    asked = calls_of(Resolution, "pruned_by_within")
    monkeypatch.setattr(density_module, "CHUNK_ELEMENTS", 5000)
    monkeypatch.setattr(cell_grid, "CHUNK_ELEMENTS", 5000)
    density(resolution, "w", grid((40, 1000), (2, 10)), Monitor())
    spans = sorted(call[2:4] for call in asked)
    assert spans == [(start, start + 5000) for start in range(0, 40_000, 5000)]
