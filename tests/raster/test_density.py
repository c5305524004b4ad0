import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.raster import cell_grid
from prune_gui.raster import density as density_module
from prune_gui.raster.density import density
from prune_gui.raster.layouts import KernelLayout, SliceLayout
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


def _expected(codes, rows, columns, cells):
    """Return share and step per cell by definition, from all codes of a layout."""
    h, w = min(cells[0], len(rows)), min(cells[1], len(columns))
    share, step = np.zeros((h, w), np.float32), np.zeros((h, w), np.uint8)
    down = [rows.start + i * len(rows) // h for i in range(h + 1)]
    across = [columns.start + j * len(columns) // w for j in range(w + 1)]
    for i in range(h):
        for j in range(w):
            cell = codes[down[i] : down[i + 1], across[j] : across[j + 1]]
            share[i, j] = np.float32(np.count_nonzero(cell) / cell.size)
            counts = np.bincount(cell.ravel(), minlength=256)[1:]
            step[i, j] = counts.argmax() + 1 if counts.any() else 0
    return share, step


def _draw_span(data, size):
    start = data.draw(st.integers(0, size - 1))
    return range(start, data.draw(st.integers(start + 1, size)))


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
    for value in (
        0,
        1,
        -1,
        *([math.nan, math.inf, -math.inf] if non_finite else []),
    ):  # many are equal
        weights[torch.rand(shape) < 0.2] = value
    resolution = resolved(*steps, start="zeros" if zeros else "dense", w=weights.to(dtype))
    codes = resolution.pruned_by("w").numpy()
    if len(shape) > 1 and data.draw(st.booleans()):
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        at = [data.draw(st.integers(0, size - 1)) for size in shape]
        layout = SliceLayout.section(shape, *dims, at)
        cut = codes[tuple(slice(None) if d in dims else at[d] for d in range(len(shape)))]
        laid_flat = cut if dims[0] < dims[1] else cut.T
    else:
        layout = SliceLayout.flattened(shape)
        laid_flat = codes.reshape(layout.rows, layout.columns)
    rows, columns = _draw_span(data, layout.rows), _draw_span(data, layout.columns)
    cells = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density_module, "CHUNK_ELEMENTS", chunk)
        patch.setattr(cell_grid, "CHUNK_ELEMENTS", chunk)
        patch.setattr(density_module, "_GAP", gap)
        found = density(resolution, "w", layout, rows, columns, cells, Monitor())
    share, step = _expected(laid_flat, rows, columns, cells)
    np.testing.assert_array_equal(found.share, share)
    np.testing.assert_array_equal(found.step, step)


def test_one_pruned_element_in_a_million_is_visible_in_its_cell(resolved):
    resolution = resolved({**HALF, "amount": 1}, w=torch.arange(1.0, 1_000_001).view(1000, 1000))
    found = density(
        resolution,
        "w",
        SliceLayout.flattened((1000, 1000)),
        range(1000),
        range(1000),
        (10, 10),
        Monitor(),
    )
    assert found.share[0, 0] == np.float32(1e-4)
    assert np.count_nonzero(found.share) == np.count_nonzero(found.step) == 1


def test_many_steps_are_counted_in_one_density(resolved):
    resolution = resolved(CHANNELS, HALF, RANDOM, w=torch.randn(40, 30))
    found = density(
        resolution, "w", SliceLayout.flattened((40, 30)), range(40), range(30), (40, 30), Monitor()
    )
    np.testing.assert_array_equal(found.step, resolution.pruned_by("w").numpy())
    assert set(np.unique(found.step)) == {0, 1, 2, 3}


def test_a_rectangle_computes_only_the_rows_that_it_covers(resolved, monkeypatch):
    resolution = resolved(HALF, w=torch.randn(1000, 100))
    asked = []
    within = Resolution.pruned_by_within

    def watch(self, name, start, stop, out=None):
        asked.append((start, stop))
        return within(self, name, start, stop, out)

    monkeypatch.setattr(Resolution, "pruned_by_within", watch)
    density(
        resolution,
        "w",
        SliceLayout.flattened((1000, 100)),
        range(500, 510),
        range(100),
        (5, 50),
        Monitor(),
    )
    assert min(start for start, _ in asked) == 50_000
    assert max(stop for _, stop in asked) == 51_000
    assert sum(stop - start for start, stop in asked) == 1000


def test_rows_are_computed_in_few_calls_for_any_cell_size(resolved, monkeypatch):
    resolution = resolved(HALF, w=torch.randn(40, 1000))
    asked = []
    within = Resolution.pruned_by_within

    def watch(self, name, start, stop, out=None):
        asked.append((start, stop))
        return within(self, name, start, stop, out)

    monkeypatch.setattr(Resolution, "pruned_by_within", watch)
    monkeypatch.setattr(density_module, "CHUNK_ELEMENTS", 5000)
    monkeypatch.setattr(cell_grid, "CHUNK_ELEMENTS", 5000)
    density(
        resolution,
        "w",
        SliceLayout.flattened((40, 1000)),
        range(40),
        range(1000),
        (2, 10),
        Monitor(),
    )
    assert sorted(asked) == [(start, start + 5000) for start in range(0, 40_000, 5000)]


def test_it_can_be_cancelled(resolved):
    stop = threading.Event()
    stop.set()
    resolution = resolved(HALF, w=torch.randn(10, 10))
    with pytest.raises(Cancelled):
        density(
            resolution,
            "w",
            SliceLayout.flattened((10, 10)),
            range(10),
            range(10),
            (5, 5),
            Monitor(cancel=stop),
        )


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 4).filter(KernelLayout.of),
    steps=st.lists(st.sampled_from([HALF, RANDOM]), max_size=2),
    cells=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_every_cell_of_a_kernel_layout_agrees_with_the_full_mask(resolved, shape, steps, cells):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution = resolved(*steps, w=weights)
    codes = resolution.pruned_by("w").numpy().reshape(-1)
    kernel_layout = KernelLayout.of(shape)
    found = density(
        resolution,
        "w",
        kernel_layout,
        range(kernel_layout.rows),
        range(kernel_layout.columns),
        cells,
        Monitor(),
    )
    high, wide = found.share.shape
    for i, j in np.ndindex(high, wide):
        rows = range(i * kernel_layout.rows // high, (i + 1) * kernel_layout.rows // high)
        columns = range(j * kernel_layout.columns // wide, (j + 1) * kernel_layout.columns // wide)
        inside = [
            codes[kernel_layout.flat(row, column)]
            for row in rows
            for column in columns
            if kernel_layout.holds(row, column)
        ]
        if not inside:
            assert np.isnan(found.share[i, j])
            continue
        assert found.share[i, j] == np.float32(np.count_nonzero(inside) / len(inside))
        counts = np.bincount(inside, minlength=256)[1:]
        assert found.step[i, j] == (counts.argmax() + 1 if counts.any() else 0)
