import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.comparison.mask_overlap import (
    Overlap,
    comparable,
    shares,
    summed,
    until,
)
from prune_gui.monitor import Monitor
from prune_gui.raster import density as density_module
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.parameter_layouts import SliceLayout

HALF = {"method": "l1_unstructured", "amount": 0.5}
CHANNELS = {"method": "ln_structured", "amount": 0.25, "dim": 0}
RANDOM = {"method": "random_unstructured", "amount": 0.3, "seed": 1}
steps = st.lists(st.sampled_from([HALF, CHANNELS, RANDOM]), max_size=3)


def _weights(shape, seed=0):
    random = torch.Generator().manual_seed(seed)
    weights = torch.randn(shape, generator=random)
    weights[torch.rand(shape, generator=random) < 0.2] = 0
    return weights


def _gone(resolution, name="w"):
    return ~resolution.mask(name).numpy()


def _classes(left, right):
    return left & right, left & ~right, right & ~left


@given(steps, st.integers(0, 3), st.booleans())
def test_the_resolution_until_a_step_equals_that_of_the_first_steps(resolved, chosen, first, zeros):
    start = "zeros" if zeros else "dense"
    tensors = {"w": _weights((8, 6)), "v": _weights((4, 5), 1)}
    whole = resolved(*chosen, start=start, **tensors)
    alone = resolved(*chosen[:first], start=start, **tensors)
    found = until(whole, first)
    assert found.counts == alone.counts
    assert found.recipe == alone.recipe
    for name in tensors:
        assert torch.equal(found.pruned_by(name), alone.pruned_by(name))


@given(
    steps=st.tuples(steps, steps),
    chunk=st.sampled_from([7, 64, 1 << 21]),
    turned=st.booleans(),
    cells=st.tuples(st.integers(1, 12), st.integers(1, 12)),
)
def test_the_shares_of_a_cell_agree_with_its_elements(resolved, steps, chunk, turned, cells):
    left, right = (
        resolved(*some, start="zeros", w=_weights((9, 7), i)) for i, some in enumerate(steps)
    )
    layout, rows, columns = SliceLayout.flattened((9, 7)), range(1, 8), range(2, 7)
    masks = _gone(left), _gone(right)
    if turned:
        layout, rows, columns = layout.transposed, columns, rows
        masks = tuple(mask.T for mask in masks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density_module, "CHUNK_ELEMENTS", chunk)
        grid = CellGrid.over(layout, cells, rows, columns)
        found = shares(left, right, "w", grid, Monitor())
    down, across = min(cells[0], len(rows)), min(cells[1], len(columns))
    for got, whole in zip((found.both, found.left, found.right), _classes(*masks), strict=True):
        part = whole[rows.start : rows.stop, columns.start : columns.stop]
        expected = [
            [cell.mean() for cell in _split(row, len(columns), across, axis=1)]
            for row in _split(part, len(rows), down, axis=0)
        ]
        np.testing.assert_array_equal(got, np.array(expected, np.float32))


def _split(array, size, cells, axis):
    return np.split(array, [i * size // cells for i in range(1, cells)], axis=axis)


def test_parameters_are_compared_that_both_sides_can_prune_with_one_shape(resolved):
    left = resolved(w=torch.ones(2, 3), n=torch.ones(3).int(), only=torch.ones(2), i=torch.ones(1))
    right = resolved(w=torch.ones(3, 2), n=torch.ones(3), v=torch.ones(2), i=torch.ones(1))
    assert not any(comparable(left, right, name) for name in ("w", "n", "only", "v"))
    assert comparable(left, right, "i")


def test_several_overlaps_add_up():
    rows = [Overlap("a", 1, 2, 3, 10), Overlap("b", 5, 0, 1, 7)]
    assert summed(rows) == Overlap("", 6, 2, 4, 17)
    assert summed([]).iou == 1.0
