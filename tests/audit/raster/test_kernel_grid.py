import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.slice_layout import GAP

SHAPES = st.lists(st.integers(1, 5), min_size=3, max_size=5).map(tuple).filter(KernelGrid.of)


@given(SHAPES)
def test_a_sheet_shows_every_entry_once_and_each_kernel_as_a_picture(shape):
    sheet = KernelGrid.of(shape)
    places = [
        (row, column)
        for row in range(sheet.rows)
        for column in range(sheet.columns)
        if sheet.holds(row, column)
    ]
    flat = [sheet.flat(*place) for place in places]
    assert sorted(flat) == list(range(int(np.prod(shape))))
    kernels = np.arange(np.prod(shape)).reshape(sheet.down, sheet.across, -1, shape[-1])
    for place, entry in zip(places, flat, strict=True):
        kernel = [at // step for at, step in zip(place, sheet.pitch, strict=True)]
        within = [at % step for at, step in zip(place, sheet.pitch, strict=True)]
        assert kernels[*kernel, *within] == entry
        assert sheet.index(*place) == np.unravel_index(entry, shape)


@given(SHAPES)
def test_offsets_ascend_and_gaps_are_where_nothing_is_held(shape):
    sheet = KernelGrid.of(shape)
    down, across = (
        sheet.row_offsets(range(sheet.rows)),
        sheet.column_offsets(range(sheet.columns)),
    )
    for row, column in np.ndindex(sheet.rows, sheet.columns):
        assert sheet.holds(row, column) == (down[row] != GAP and across[column] != GAP)
    assert np.all(np.diff(down[down != GAP]) > 0)
    assert np.all(np.diff(across[across != GAP]) > 0)
    assert down[0] != GAP != down[-1]
    assert across[0] != GAP != across[-1]


def test_output_channels_run_down_and_input_channels_across():
    sheet = KernelGrid.of((8, 3, 5, 5))
    assert (sheet.down, sheet.across) == (8, 3)
    assert sheet.index(6, 0) == (1, 0, 0, 0)
    assert sheet.index(0, 6) == (0, 1, 0, 0)


def test_a_depthwise_convolution_makes_a_block():
    sheet = KernelGrid.of((96, 1, 3, 3))
    assert (sheet.down, sheet.across) == (8, 12)


def test_kernels_of_one_row_lie_below_each_other_without_a_gap():
    assert KernelGrid.of((4, 3, 5)).rows == 4


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (4, 3, 1, 1), (4, 1, 5, 1)])
def test_there_is_no_sheet_of_what_is_a_matrix_anyhow(shape):
    assert KernelGrid.of(shape) is None
