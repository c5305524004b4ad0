from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.slice_layout import SliceLayout

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@given(SHAPES)
def test_a_flattened_plane_shows_every_entry_once_in_order(shape):
    plane = SliceLayout.flattened(shape)
    places = list(product(range(plane.rows), range(plane.columns)))
    assert [plane.flat(*place) for place in places] == list(range(int(np.prod(shape))))
    assert [plane.index(*place) for place in places] == list(np.ndindex(shape))


@given(SHAPES.filter(lambda shape: len(shape) > 1), st.data())
def test_a_section_shows_what_numpy_slicing_shows(shape, data):
    row_dim, column_dim = data.draw(st.permutations(range(len(shape))))[:2]
    at = [data.draw(st.integers(0, size - 1)) for size in shape]
    plane = SliceLayout.section(shape, row_dim, column_dim, at)
    entries = np.arange(np.prod(shape)).reshape(shape)
    cut = tuple(slice(None) if d in (row_dim, column_dim) else at[d] for d in range(len(shape)))
    expected = entries[cut] if row_dim < column_dim else entries[cut].T
    shown = [[plane.flat(r, c) for c in range(plane.columns)] for r in range(plane.rows)]
    assert shown == expected.tolist()


def test_a_plane_without_dimensions_is_one_entry():
    plane = SliceLayout.flattened(())
    assert (plane.rows, plane.columns, plane.index(0, 0)) == (1, 1, ())


@pytest.mark.parametrize(
    ("dims", "at"),
    [((0, 0), (0, 0, 0)), ((0, 3), (0, 0, 0)), ((0, 1), (0, 0)), ((0, 1), (0, 0, 9))],
)
def test_a_section_that_does_not_exist_is_refused(dims, at):
    with pytest.raises(ValueError, match=r"section|outside"):
        SliceLayout.section((2, 3, 4), *dims, at)


@given(SHAPES, st.data())
def test_offsets_say_the_same_as_flat_indices(shape, data):
    kinds = [SliceLayout.flattened(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        kinds.append(SliceLayout.section(shape, *dims, [size - 1 for size in shape]))
    plane = data.draw(st.sampled_from(kinds))
    down = plane.row_offsets(range(plane.rows))
    across = plane.column_offsets(range(plane.columns))
    for place in product(range(plane.rows), range(plane.columns)):
        assert plane.holds(*place)
        assert down[place[0]] + across[place[1]] == plane.flat(*place)
    assert not plane.holds(plane.rows, 0)
    assert not plane.holds(0, -1)


@given(st.integers(1, 20_000))
def test_a_wrapped_row_shows_every_entry_once_in_order(size):
    plane = SliceLayout.wrapped((size,))
    if plane is not None:
        assert plane.rows * plane.columns == size
        assert plane.row_stride == plane.columns <= 16 * plane.rows
        assert plane.index(1, 0) == (plane.columns,)


@pytest.mark.parametrize(
    ("size", "block"), [(1024, (32, 32)), (768, (24, 32)), (100, None), (10_007, None)]
)
def test_a_row_is_wrapped_where_that_gives_a_block(size, block):
    plane = SliceLayout.wrapped((size,))
    assert (plane and (plane.rows, plane.columns)) == block
