from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.views.layers.treemap import Rect, squarify, treemap

WHOLE = Rect(3.0, 5.0, 400.0, 300.0)
NAMES = st.lists(st.sampled_from("ab0"), min_size=1, max_size=4).map(".".join)
TENSORS = st.dictionaries(NAMES, st.integers(1, 10_000), min_size=1, max_size=25).map(
    lambda sizes: [TensorInfo(name, (size,), "float32") for name, size in sizes.items()]
)


def within(inner, outer):
    slack = 1e-6
    return (
        inner.x >= outer.x - slack
        and inner.y >= outer.y - slack
        and inner.x + inner.width <= outer.x + outer.width + slack
        and inner.y + inner.height <= outer.y + outer.height + slack
    )


def overlap(a, b):
    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    return max(across, 0.0) * max(down, 0.0)


@given(st.lists(st.integers(1, 1_000_000), min_size=1, max_size=30))
def test_areas_are_proportional_to_the_weights_and_do_not_overlap(weights):
    weights = sorted(weights, reverse=True)
    pieces = squarify(weights, WHOLE)
    for weight, piece in zip(weights, pieces, strict=True):
        assert piece.area == pytest.approx(WHOLE.area * weight / sum(weights), rel=1e-6)
        assert within(piece, WHOLE)
    for a, b in combinations(pieces, 2):
        assert overlap(a, b) <= 1e-6 * WHOLE.area


def test_the_example_of_the_paper_gives_its_result():
    pieces = squarify([6, 6, 4, 3, 2, 2, 1], Rect(0, 0, 6, 4))
    expected = [(0, 0, 3, 2), (0, 2, 3, 2), (3, 0, 12 / 7, 7 / 3), (33 / 7, 0, 9 / 7, 7 / 3)]
    for piece, corners in zip(pieces, expected, strict=False):
        assert (piece.x, piece.y, piece.width, piece.height) == pytest.approx(corners)


@given(TENSORS)
def test_every_parameter_has_its_area_inside_its_modules(infos):
    cells = treemap(infos, WHOLE, least=0.0)
    closed = [cell for cell in cells if not cell.is_open]
    entries = sum(info.numel for info in infos)
    assert sorted(cell.node.tensor.name for cell in closed) == sorted(i.name for i in infos)
    for cell in cells:
        share = cell.node.numel / entries
        assert cell.rect.area == pytest.approx(WHOLE.area * share, rel=1e-6)
    for position, inner in enumerate(cells):
        above = [
            outer
            for outer in cells[:position]
            if outer.is_open and set(inner.node.tensors) <= set(outer.node.tensors)
        ]
        assert bool(above) == (position > 0)
        assert all(within(inner.rect, outer.rect) for outer in above)


@given(TENSORS, st.integers(1, 10))
def test_no_more_cells_than_wanted_cover_the_whole(infos, most):
    closed = [cell for cell in treemap(infos, WHOLE, most, 0.0) if not cell.is_open]
    assert len(closed) <= most
    assert sum(cell.rect.area for cell in closed) == pytest.approx(WHOLE.area)
    assert sum(cell.node.numel for cell in closed) == sum(info.numel for info in infos)


def test_modules_with_too_small_parts_stay_closed():
    infos = [
        TensorInfo(name, (n,), "float32") for name, n in {"a.w": 9990, "b.c.w": 5, "b.d": 5}.items()
    ]
    cells = treemap(infos, Rect(0, 0, 100, 100), least=40.0)
    assert {cell.node.path for cell in cells if not cell.is_open} == {"a.w", "b"}
    assert treemap([], WHOLE) == ()


def test_no_module_is_divided_finely_while_similar_ones_stay_closed():
    infos = [
        TensorInfo(f"{layer}.experts.{expert}.w", (8, 8), "float32")
        for layer in range(40)
        for expert in range(256)
    ]
    cells = treemap(infos, Rect(0, 0, 200, 200), most=1000)
    assert {cell.node.path for cell in cells if not cell.is_open} == {
        f"{layer}.experts" for layer in range(40)
    }
