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
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe import Resolution

HALF = {"method": "l1_unstructured", "amount": 0.5}
CHANNELS = {"method": "ln_structured", "amount": 0.25, "dim": 0}
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


def _draw_layout(data, shape):
    kinds = [SliceLayout.flattened(shape), KernelLayout.of(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        at = [data.draw(st.integers(0, size - 1)) for size in shape]
        kinds.append(SliceLayout.section(shape, *dims, at))
    return data.draw(st.sampled_from([kind for kind in kinds if kind]))


def _draw_span(data, size):
    start = data.draw(st.integers(0, size - 1))
    return range(start, data.draw(st.integers(start + 1, size)))


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
        counts = np.bincount(inside, minlength=256)[1:]
        assert found.step[i, j] == (counts.argmax() + 1 if counts.any() else 0)


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
    layout = _draw_layout(data, shape)
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


@pytest.fixture
def asked(monkeypatch):
    """Return a list that grows with each span whose codes are computed."""
    spans, within = [], Resolution.pruned_by_within

    def watch(self, name, start, stop, out=None):
        spans.append((start, stop))
        return within(self, name, start, stop, out)

    monkeypatch.setattr(Resolution, "pruned_by_within", watch)
    return spans


def test_a_rectangle_computes_only_the_rows_that_it_covers(resolved, asked):
    resolution = resolved(HALF, w=torch.randn(1000, 100))
    density(resolution, "w", grid((1000, 100), (5, 50), rows=range(500, 510)), Monitor())
    assert min(start for start, _ in asked) == 50_000
    assert max(stop for _, stop in asked) == 51_000
    assert sum(stop - start for start, stop in asked) == 1000


def test_rows_are_computed_in_few_calls_for_any_cell_size(resolved, asked, monkeypatch):
    resolution = resolved(HALF, w=torch.randn(40, 1000))
    monkeypatch.setattr(density_module, "CHUNK_ELEMENTS", 5000)
    monkeypatch.setattr(cell_grid, "CHUNK_ELEMENTS", 5000)
    density(resolution, "w", grid((40, 1000), (2, 10)), Monitor())
    assert sorted(asked) == [(start, start + 5000) for start in range(0, 40_000, 5000)]
