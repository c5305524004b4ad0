import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.raster import cell_grid as cells_module
from prune_gui.raster.cell_statistics import cell_statistics, max_weight_magnitude, reach_of
from prune_gui.raster.layouts import KernelLayout, SliceLayout
from prune_gui.statistics.element_values import sizes, weights


def _layout(data, shape):
    kinds = [SliceLayout.flattened(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        at = [data.draw(st.integers(0, size - 1)) for size in shape]
        kinds.append(SliceLayout.section(shape, *dims, at))
    if kernel_layout := KernelLayout.of(shape):
        kinds.append(kernel_layout)
    return data.draw(st.sampled_from(kinds))


def _draw_span(data, size):
    start = data.draw(st.integers(0, size - 1))
    return range(start, data.draw(st.integers(start + 1, size)))


def _edges(lines, cells):
    cells = min(cells, len(lines))
    return [lines.start + i * len(lines) // cells for i in range(cells + 1)]


def _cells(layout, entries, down, across):
    """Yield the elements of each cell; gaps are omitted."""
    for i in range(len(down) - 1):
        for j in range(len(across) - 1):
            positions = np.ndindex(down[i + 1] - down[i], across[j + 1] - across[j])
            found = [(down[i] + row, across[j] + column) for row, column in positions]
            flat = [layout.flat(*position) for position in found if layout.holds(*position)]
            yield (i, j), entries[flat].astype(np.float64)


@given(
    shape=st.lists(st.integers(1, 6), max_size=4).map(tuple),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.float8_e5m2]),
    measure=st.sampled_from([weights, sizes]),
    chunk=st.sampled_from([1, 7, 64, 1 << 20]),
    skip=st.sampled_from([0, 5, 1 << 13]),
    data=st.data(),
)
def test_every_cell_equals_that_of_numpy(resolved, shape, dtype, measure, chunk, skip, data):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    tensor = tensor.masked_fill(drawn < 0.1, torch.nan).masked_fill(drawn > 0.9, torch.inf)
    resolution = resolved(w=tensor.to(dtype))
    entries = resolution.checkpoint.read("w").double().reshape(-1).numpy()
    entries = np.abs(entries) if measure is sizes else entries
    layout = _layout(data, shape)
    rows, columns = _draw_span(data, layout.rows), _draw_span(data, layout.columns)
    wanted = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "CHUNK_ELEMENTS", chunk)
        patch.setattr(cells_module, "_SKIP", skip)
        found = cell_statistics(measure(resolution, "w"), layout, rows, columns, wanted, Monitor())
    expected = dict(_cells(layout, entries, _edges(rows, wanted[0]), _edges(columns, wanted[1])))
    assert found.mean.shape == found.farthest.shape == found.non_finite.shape
    assert found.mean.size == len(expected)
    for cell, inside in expected.items():
        finite = inside[np.isfinite(inside)]
        assert found.non_finite[cell] == (len(finite) < len(inside))
        if len(finite):
            assert found.mean[cell] == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12)
            farthest = np.abs(finite).max()
            assert found.farthest[cell] == (farthest if farthest in finite else -farthest)
        else:
            assert np.isnan(found.mean[cell])
            assert np.isnan(found.farthest[cell])
    finite = entries[np.isfinite(entries)]
    reach = reach_of(measure(resolution, "w"), entries.size, Monitor())
    assert reach == np.abs(finite).max(initial=0.0)


def test_one_large_weight_in_a_million_is_visible_in_its_cell(resolved):
    tensor = torch.full((1000, 1000), 0.01)
    tensor[123, 456] = -7.0
    found = cell_statistics(
        weights(resolved(w=tensor), "w"),
        SliceLayout.flattened((1000, 1000)),
        range(1000),
        range(1000),
        (10, 10),
        Monitor(),
    )
    assert found.farthest[1, 4] == -7.0
    assert np.count_nonzero(found.farthest < 0) == 1


def test_of_two_equal_magnitudes_the_positive_value_is_returned(resolved):
    tensor = torch.tensor([[-2.0, 1.0], [1.0, 2.0], [2.0, 0.0], [0.0, -2.0]])
    measure = weights(resolved(w=tensor), "w")
    plane = SliceLayout.flattened((4, 2))
    for cells in ((2, 1), (1, 1), (2, 2)):
        found = cell_statistics(measure, plane, range(4), range(2), cells, Monitor())
        assert found.farthest.max() == 2.0
    assert (
        cell_statistics(measure, plane, range(4), range(2), (2, 1), Monitor()).farthest.min() == 2.0
    )


def test_a_cell_between_kernels_has_no_number(resolved):
    kernel_layout = KernelLayout.of((2, 2, 3, 3))
    measure = weights(resolved(w=torch.ones(2, 2, 3, 3)), "w")
    found = cell_statistics(
        measure,
        kernel_layout,
        range(kernel_layout.rows),
        range(kernel_layout.columns),
        (7, 7),
        Monitor(),
    )
    assert np.isnan(found.mean[3]).all()
    assert np.isnan(found.mean[:, 3]).all()
    assert np.count_nonzero(found.mean == 1.0) == 36


def test_it_can_be_cancelled(resolved):
    stop = threading.Event()
    stop.set()
    measure = weights(resolved(w=torch.randn(10, 10)), "w")
    with pytest.raises(Cancelled):
        cell_statistics(
            measure,
            SliceLayout.flattened((10, 10)),
            range(10),
            range(10),
            (5, 5),
            Monitor(cancel=stop),
        )


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
