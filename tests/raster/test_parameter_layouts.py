"""Layouts have every element of what they show once, where numpy has it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.projections import Heads
from prune_gui.monitor import Monitor
from prune_gui.raster.density import head_shares
from prune_gui.raster.parameter_layouts import GAP, HeadBands, KernelLayout, SliceLayout, head_bands

SHAPES = st.lists(st.integers(1, 5), max_size=5).map(tuple)
LABELS = ("0", "1", "2")


def shown(layout):
    """Return the flat index at each position, `GAP` where there is no element."""
    found = np.full((layout.rows, layout.columns), GAP)
    down = layout.offsets(0, range(layout.rows))
    across = layout.offsets(1, range(layout.columns))
    for row, column in np.ndindex(found.shape):
        has_element = down[row] != GAP and across[column] != GAP
        assert layout.holds(row, column) == has_element
        if has_element:
            found[row, column] = layout.flat(row, column)
            assert down[row] + across[column] == found[row, column]
            assert layout.position(found[row, column]) == (row, column)
            assert layout.index(row, column) == np.unravel_index(found[row, column], layout.shape)
    for offsets in (down, across):
        assert np.all(np.diff(offsets[offsets != GAP]) > 0)
        assert offsets[0] != GAP != offsets[-1]
    assert layout.position(int(np.prod(layout.shape))) is None
    assert not layout.holds(layout.rows, 0)
    assert not layout.holds(0, -1)
    return found


@given(SHAPES, st.data())
def test_a_slice_layout_equals_a_numpy_slice(shape, data):
    entries = np.arange(np.prod(shape)).reshape(shape)
    flattened = shown(SliceLayout.flattened(shape))
    assert flattened.ravel().tolist() == entries.ravel().tolist()
    if len(shape) > 1:
        assert len(flattened) == shape[0]
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        at = [data.draw(st.integers(0, size - 1)) for size in shape]
        cut = entries[tuple(slice(None) if d in dims else at[d] for d in range(len(shape)))]
        expected = cut if dims[0] < dims[1] else cut.T
        assert shown(SliceLayout.section(shape, *dims, at)).tolist() == expected.tolist()


@given(SHAPES.filter(KernelLayout.of))
def test_a_kernel_layout_has_every_element_once_and_each_kernel_contiguously(shape):
    layout = KernelLayout.of(shape)
    found = shown(layout)
    kernels = np.arange(np.prod(shape)).reshape(layout.down, layout.across, -1, shape[-1])
    for kernel in np.ndindex(layout.down, layout.across):
        row, column = np.multiply(kernel, layout.pitch)
        here = found[row : row + layout.height, column : column + layout.width]
        np.testing.assert_array_equal(here, kernels[kernel])
    assert np.count_nonzero(found != GAP) == kernels.size


@pytest.mark.parametrize(
    ("dims", "at"),
    [((0, 0), (0, 0, 0)), ((0, 3), (0, 0, 0)), ((0, 1), (0, 0)), ((0, 1), (0, 0, 9))],
)
def test_a_section_that_does_not_exist_is_refused(dims, at):
    with pytest.raises(ValueError, match=r"section|outside"):
        SliceLayout.section((2, 3, 4), *dims, at)


@given(st.integers(1, 20_000))
def test_a_wrapped_vector_has_every_element_once_in_order(size):
    layout = SliceLayout.wrapped((size,))
    if layout is not None:
        assert layout.rows * layout.columns == size
        assert layout.row_stride == layout.columns <= 16 * layout.rows
        assert layout.index(1, 0) == (layout.columns,)


@pytest.mark.parametrize(
    ("size", "block"), [(1024, (32, 32)), (768, (24, 32)), (100, None), (10_007, None)]
)
def test_a_vector_is_wrapped_if_that_gives_a_nearly_square_rectangle(size, block):
    layout = SliceLayout.wrapped((size,))
    assert (layout and (layout.rows, layout.columns)) == block


@pytest.mark.parametrize(
    ("shape", "kernels", "rows"),
    [
        ((8, 3, 5, 5), (8, 3), 47),  # output channels run down and input channels across
        ((96, 1, 3, 3), (8, 12), 31),  # depthwise: nearly square
        ((4, 3, 5), (4, 3), 4),  # kernels of one row have no gap
    ],
)
def test_kernels_are_arranged_by_their_channels(shape, kernels, rows):
    layout = KernelLayout.of(shape)
    assert ((layout.down, layout.across), layout.rows) == (kernels, rows)


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (4, 3, 1, 1), (4, 1, 5, 1)])
def test_a_matrix_has_no_kernel_layout(shape):
    assert KernelLayout.of(shape) is None


@pytest.mark.parametrize("dim", [0, 1])
def test_the_share_of_each_head_is_that_of_its_channels(resolved, dim):
    shape = (12, 5) if dim == 0 else (5, 12)
    weights = torch.randn(shape)
    resolution = resolved({"method": "l1_unstructured", "amount": 0.4}, w=weights)
    layout = SliceLayout.flattened(shape)
    bands = head_bands(Heads(dim, 4, LABELS), layout)
    assert bands == HeadBands(dim == 0, 4, LABELS)
    pruned = ~resolution.mask("w").numpy()
    expected = [part.mean() for part in np.split(pruned, 3, axis=dim)]
    shares = head_shares(resolution, "w", layout, bands, Monitor())
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


def test_heads_of_a_vector_are_columns_unless_it_is_wrapped():
    heads, shape = Heads(0, 128, LABELS), (384,)
    assert head_bands(heads, SliceLayout.flattened(shape)) == HeadBands(False, 128, LABELS)
    assert head_bands(heads, SliceLayout.wrapped(shape)) is None
    assert head_bands(None, SliceLayout.flattened(shape)) is None
