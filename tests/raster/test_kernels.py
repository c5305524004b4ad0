import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.raster import cell_kernels
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.statistics import kernels
from prune_gui.statistics.channel_statistics import channels
from prune_gui.statistics.histogram import bin_edges, histogram, value_range

LOOPS = (
    cell_kernels.count_cells,
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


def both(loop, *inputs, outputs):
    """Run the compiled loop and its twin in numpy; return the outputs of the loop if they agree."""
    results = []
    for run in (loop, loop._interpret):
        results.append([array.copy() for array in outputs])
        run(*inputs, *results[-1])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    return results[0]


@given(edges(), edges(), st.booleans(), st.integers(1, 6), st.integers(0, 99))
def test_numpy_counts_the_same_cells_as_the_compiled_loops(down, across, turned, codes, seed):
    (row_edges, rows), (column_edges, columns) = down, across
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    slots = np.arange(256).astype(np.uint8) % codes
    counts = np.ones((codes, row_edges.size - 1, column_edges.size - 1), np.int64)
    generator = np.random.default_rng(seed)
    known = np.arange(codes, dtype=np.uint8)
    elements = generator.integers(0, codes, height * width, np.uint8)
    if height and width:
        strides = (1, height) if turned else (width, 1)
        inputs = elements, known, slots, strides, (row_edges, column_edges), (rows, columns)
        [found] = both(cell_kernels.count_cells, *inputs, outputs=[counts])
        assert (found - counts)[1:].sum() == np.count_nonzero(elements)
    lines = (
        np.arange(height) * width,
        np.arange(width),
        np.searchsorted(row_edges, np.arange(*rows), side="right") - 1,
        np.searchsorted(column_edges, np.arange(*columns), side="right") - 1,
    )
    any_code = generator.integers(0, 256, height * width, np.uint8)
    [found] = both(cell_kernels.add_codes, any_code, slots, lines, outputs=[counts])
    assert (found - counts).sum() == elements.size


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
