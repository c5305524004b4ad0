import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.raster import cell_kernels
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.density import density
from prune_gui.raster.layouts import SliceLayout
from prune_gui.statistics import kernels
from prune_gui.statistics.channel_statistics import channels
from prune_gui.statistics.histogram import bin_edges, histogram, value_range

LOOPS = (
    cell_kernels.count_cells,
    cell_kernels.sum_up_cells,
    kernels.count_bins,
    kernels.widen_range,
    kernels.count_channel_steps,
    kernels.count_between,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nothing_is_compiled_after_warm_up(resolved, dtype):
    cell_kernels.warm_up()
    kernels.warm_up()
    known = [set(loop.dispatcher.signatures) for loop in LOOPS]
    weights, half = torch.ones(3, 4).to(dtype), {"method": "l1_unstructured", "amount": 0.5}
    resolution = resolved(half, w=weights)
    layout = SliceLayout.flattened((3, 4))
    for either in (layout, layout.transposed):
        density(resolution, "w", CellGrid.over(either, (2, 2)), Monitor())
    edges = bin_edges(*value_range(resolution, "w", Monitor()), 4, symmetric=True)
    for moved in (resolution, resolved(half, half, w=weights)):
        before = histogram(moved, "w", edges, Monitor())
        histogram(moved, "w", edges, Monitor(), before)
    channels(resolution, "w", 1, Monitor())
    assert [set(loop.dispatcher.signatures) for loop in LOOPS] == known


@st.composite
def edges(draw):
    """Edges of cells, and a range of rows or columns that they cover."""
    sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=5))
    limits = np.cumsum([0, *sizes])
    start, stop = sorted(draw(st.tuples(*[st.integers(0, limits[-1])] * 2)))
    return limits, (start, stop)


@given(edges(), edges(), st.booleans(), st.integers(1, 6), st.integers(0, 99))
def test_numpy_counts_the_same_cells_as_the_compiled_loop(down, across, transposed, codes, seed):
    (row_edges, rows), (column_edges, columns) = down, across
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    strides = (1, height) if transposed else (width, 1)
    known = np.arange(codes, dtype=np.uint8)
    slots = np.arange(256).astype(np.uint8) % codes
    elements = np.random.default_rng(seed).integers(0, codes, height * width, np.uint8)
    shape = (codes, row_edges.size - 1, column_edges.size - 1)
    found = np.ones((2, *shape), np.int64)
    for run, counts in zip(
        (cell_kernels.count_cells, cell_kernels.count_cells._interpret), found, strict=True
    ):
        if height and width:
            run(elements, known, slots, *strides, row_edges, column_edges, rows, columns, counts)
    assert np.array_equal(*found)
    assert found[0][1:].sum() - found[0][1:].size == np.count_nonzero(elements)


@given(st.tuples(*[st.integers(1, 4)] * 3), st.integers(0, 99))
def test_numpy_sums_up_the_same_cells_as_the_compiled_loop(shape, seed):
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 3, shape)  # many are equal
    counts[0] = 0
    known = np.arange(0, 2 * shape[0], 2, dtype=np.uint8)
    elements = generator.integers(10, 20, shape[1:])
    results = []
    for run in (cell_kernels.sum_up_cells, cell_kernels.sum_up_cells._interpret):
        share, step = np.empty(shape[1:], np.float32), np.empty(shape[1:], np.uint8)
        run(counts, known, elements, share, step)
        results.append((share, step))
    (share, step), (share_in_numpy, step_in_numpy) = results
    np.testing.assert_array_equal(share, share_in_numpy)
    np.testing.assert_array_equal(step, step_in_numpy)
    assert np.array_equal(step == 0, counts.sum(axis=0) == 0)


@given(edges(), edges(), st.integers(1, 6), st.integers(0, 99))
def test_numpy_adds_the_same_codes_as_the_compiled_loop(down, across, codes, seed):
    (row_edges, rows), (column_edges, columns) = down, across
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    slots = np.arange(256).astype(np.uint8) % codes
    elements = np.random.default_rng(seed).integers(0, 256, height * width, np.uint8)
    offsets = np.arange(height) * width, np.arange(width)
    cells = (
        np.searchsorted(row_edges, np.arange(*rows), side="right") - 1,
        np.searchsorted(column_edges, np.arange(*columns), side="right") - 1,
    )
    found = np.ones((2, codes, row_edges.size - 1, column_edges.size - 1), np.int64)
    for run, counts in zip(
        (cell_kernels.add_codes, cell_kernels.add_codes._interpret), found, strict=True
    ):
        run(elements, slots, *offsets, *cells, counts)
    assert np.array_equal(*found)
    assert found[0].sum() - found[0].size == elements.size


@given(
    dtype=st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
    size=st.integers(0, 100),
    last_tie=st.integers(-5, 105),
    bounds=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    some=st.booleans(),
)
def test_elements_between_the_limits_are_counted_up_to_the_last_tie(
    dtype, size, last_tie, bounds, some
):
    generator = np.random.default_rng(size)
    bits = generator.integers(0, 9, size, dtype, endpoint=True)
    remaining_mask = generator.random(size) < 0.5 if some else None
    least, threshold = map(dtype, bounds)
    goes = (bits < threshold) | ((bits == threshold) & (np.arange(size) <= last_tie))
    expected = (bits >= least) & goes & (True if remaining_mask is None else remaining_mask)
    found = kernels.count_between(bits, remaining_mask, least, threshold, last_tie)
    assert found == np.count_nonzero(expected)
