import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.kernel_grid_density import density_of
from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.monitor import Monitor

HALF = {"method": "l1_unstructured", "amount": 0.5}
RANDOM = {"method": "random_unstructured", "amount": 0.3}


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 4).filter(KernelGrid.of),
    steps=st.lists(st.sampled_from([HALF, RANDOM]), max_size=2),
    cells=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_every_cell_of_a_kernel_grid_agrees_with_the_full_mask(resolved, shape, steps, cells):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution = resolved(*steps, w=weights)
    codes = resolution.pruned_by("w").numpy().reshape(-1)
    kernel_grid = KernelGrid.of(shape)
    found = density_of(
        resolution,
        "w",
        kernel_grid,
        range(kernel_grid.rows),
        range(kernel_grid.columns),
        cells,
        Monitor(),
    )
    high, wide = found.share.shape
    for i, j in np.ndindex(high, wide):
        rows = range(i * kernel_grid.rows // high, (i + 1) * kernel_grid.rows // high)
        columns = range(j * kernel_grid.columns // wide, (j + 1) * kernel_grid.columns // wide)
        inside = [
            codes[kernel_grid.flat(row, column)]
            for row in rows
            for column in columns
            if kernel_grid.holds(row, column)
        ]
        if not inside:
            assert np.isnan(found.share[i, j])
            continue
        assert found.share[i, j] == np.float32(np.count_nonzero(inside) / len(inside))
        counts = np.bincount(inside, minlength=256)[1:]
        assert found.step[i, j] == (counts.argmax() + 1 if counts.any() else 0)


def test_a_slice_layout_gives_the_plain_density(resolved):
    resolution = resolved(HALF, w=torch.arange(12.0).view(3, 4))
    found = density_of(
        resolution, "w", SliceLayout.flattened((3, 4)), range(3), range(4), (3, 4), Monitor()
    )
    np.testing.assert_array_equal(found.step, resolution.pruned_by("w").numpy())
