import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.raster.layouts import GAP, KernelLayout

SHAPES = st.lists(st.integers(1, 5), min_size=3, max_size=5).map(tuple).filter(KernelLayout.of)


@given(SHAPES)
def test_a_kernel_layout_has_every_element_once_and_each_kernel_contiguously(shape):
    kernel_layout = KernelLayout.of(shape)
    positions = [
        (row, column)
        for row in range(kernel_layout.rows)
        for column in range(kernel_layout.columns)
        if kernel_layout.holds(row, column)
    ]
    flat = [kernel_layout.flat(*position) for position in positions]
    assert sorted(flat) == list(range(int(np.prod(shape))))
    kernels = np.arange(np.prod(shape)).reshape(
        kernel_layout.down, kernel_layout.across, -1, shape[-1]
    )
    for position, entry in zip(positions, flat, strict=True):
        kernel = [at // step for at, step in zip(position, kernel_layout.pitch, strict=True)]
        within = [at % step for at, step in zip(position, kernel_layout.pitch, strict=True)]
        assert kernels[*kernel, *within] == entry
        assert kernel_layout.index(*position) == np.unravel_index(entry, shape)


@given(SHAPES)
def test_offsets_ascend_and_gaps_have_no_elements(shape):
    kernel_layout = KernelLayout.of(shape)
    down, across = (
        kernel_layout.row_offsets(range(kernel_layout.rows)),
        kernel_layout.column_offsets(range(kernel_layout.columns)),
    )
    for row, column in np.ndindex(kernel_layout.rows, kernel_layout.columns):
        assert kernel_layout.holds(row, column) == (down[row] != GAP and across[column] != GAP)
    assert np.all(np.diff(down[down != GAP]) > 0)
    assert np.all(np.diff(across[across != GAP]) > 0)
    assert down[0] != GAP != down[-1]
    assert across[0] != GAP != across[-1]


def test_output_channels_run_down_and_input_channels_across():
    kernel_layout = KernelLayout.of((8, 3, 5, 5))
    assert (kernel_layout.down, kernel_layout.across) == (8, 3)
    assert kernel_layout.index(6, 0) == (1, 0, 0, 0)
    assert kernel_layout.index(0, 6) == (0, 1, 0, 0)


def test_kernels_of_a_depthwise_convolution_are_arranged_nearly_square():
    kernel_layout = KernelLayout.of((96, 1, 3, 3))
    assert (kernel_layout.down, kernel_layout.across) == (8, 12)


def test_kernels_of_one_row_have_no_gap():
    assert KernelLayout.of((4, 3, 5)).rows == 4


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (4, 3, 1, 1), (4, 1, 5, 1)])
def test_a_matrix_has_no_kernel_layout(shape):
    assert KernelLayout.of(shape) is None
