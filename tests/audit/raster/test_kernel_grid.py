import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.slice_layout import GAP

SHAPES = st.lists(st.integers(1, 5), min_size=3, max_size=5).map(tuple).filter(KernelGrid.of)


@given(SHAPES)
def test_a_kernel_grid_has_every_element_once_and_each_kernel_contiguously(shape):
    kernel_grid = KernelGrid.of(shape)
    positions = [
        (row, column)
        for row in range(kernel_grid.rows)
        for column in range(kernel_grid.columns)
        if kernel_grid.holds(row, column)
    ]
    flat = [kernel_grid.flat(*position) for position in positions]
    assert sorted(flat) == list(range(int(np.prod(shape))))
    kernels = np.arange(np.prod(shape)).reshape(kernel_grid.down, kernel_grid.across, -1, shape[-1])
    for position, entry in zip(positions, flat, strict=True):
        kernel = [at // step for at, step in zip(position, kernel_grid.pitch, strict=True)]
        within = [at % step for at, step in zip(position, kernel_grid.pitch, strict=True)]
        assert kernels[*kernel, *within] == entry
        assert kernel_grid.index(*position) == np.unravel_index(entry, shape)


@given(SHAPES)
def test_offsets_ascend_and_gaps_have_no_elements(shape):
    kernel_grid = KernelGrid.of(shape)
    down, across = (
        kernel_grid.row_offsets(range(kernel_grid.rows)),
        kernel_grid.column_offsets(range(kernel_grid.columns)),
    )
    for row, column in np.ndindex(kernel_grid.rows, kernel_grid.columns):
        assert kernel_grid.holds(row, column) == (down[row] != GAP and across[column] != GAP)
    assert np.all(np.diff(down[down != GAP]) > 0)
    assert np.all(np.diff(across[across != GAP]) > 0)
    assert down[0] != GAP != down[-1]
    assert across[0] != GAP != across[-1]


def test_output_channels_run_down_and_input_channels_across():
    kernel_grid = KernelGrid.of((8, 3, 5, 5))
    assert (kernel_grid.down, kernel_grid.across) == (8, 3)
    assert kernel_grid.index(6, 0) == (1, 0, 0, 0)
    assert kernel_grid.index(0, 6) == (0, 1, 0, 0)


def test_kernels_of_a_depthwise_convolution_are_arranged_nearly_square():
    kernel_grid = KernelGrid.of((96, 1, 3, 3))
    assert (kernel_grid.down, kernel_grid.across) == (8, 12)


def test_kernels_of_one_row_have_no_gap():
    assert KernelGrid.of((4, 3, 5)).rows == 4


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (4, 3, 1, 1), (4, 1, 5, 1)])
def test_a_matrix_has_no_kernel_grid(shape):
    assert KernelGrid.of(shape) is None
