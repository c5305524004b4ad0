from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.raster.layouts import SliceLayout

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@given(SHAPES)
def test_a_flattened_layout_has_every_element_once_in_order(shape):
    layout = SliceLayout.flattened(shape)
    positions = list(product(range(layout.rows), range(layout.columns)))
    assert [layout.flat(*position) for position in positions] == list(range(int(np.prod(shape))))
    assert [layout.index(*position) for position in positions] == list(np.ndindex(shape))


@given(SHAPES.filter(lambda shape: len(shape) > 1), st.data())
def test_a_section_equals_a_numpy_slice(shape, data):
    row_dim, column_dim = data.draw(st.permutations(range(len(shape))))[:2]
    at = [data.draw(st.integers(0, size - 1)) for size in shape]
    layout = SliceLayout.section(shape, row_dim, column_dim, at)
    entries = np.arange(np.prod(shape)).reshape(shape)
    cut = tuple(slice(None) if d in (row_dim, column_dim) else at[d] for d in range(len(shape)))
    expected = entries[cut] if row_dim < column_dim else entries[cut].T
    shown = [[layout.flat(r, c) for c in range(layout.columns)] for r in range(layout.rows)]
    assert shown == expected.tolist()


def test_the_layout_of_a_0_d_parameter_has_one_element():
    layout = SliceLayout.flattened(())
    assert (layout.rows, layout.columns, layout.index(0, 0)) == (1, 1, ())


@pytest.mark.parametrize(
    ("dims", "at"),
    [((0, 0), (0, 0, 0)), ((0, 3), (0, 0, 0)), ((0, 1), (0, 0)), ((0, 1), (0, 0, 9))],
)
def test_a_section_that_does_not_exist_is_refused(dims, at):
    with pytest.raises(ValueError, match=r"section|outside"):
        SliceLayout.section((2, 3, 4), *dims, at)


@given(SHAPES, st.data())
def test_offsets_agree_with_flat_indices(shape, data):
    kinds = [SliceLayout.flattened(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        kinds.append(SliceLayout.section(shape, *dims, [size - 1 for size in shape]))
    layout = data.draw(st.sampled_from(kinds))
    down = layout.row_offsets(range(layout.rows))
    across = layout.column_offsets(range(layout.columns))
    for position in product(range(layout.rows), range(layout.columns)):
        assert layout.holds(*position)
        assert down[position[0]] + across[position[1]] == layout.flat(*position)
    assert not layout.holds(layout.rows, 0)
    assert not layout.holds(0, -1)


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
