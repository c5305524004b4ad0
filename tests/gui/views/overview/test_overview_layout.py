"""The geometry of the overview."""

import pytest

from prune_gui.architecture.blocks import sections
from prune_gui.gui.views.overview.layout import (
    MAX_SIDE_PX,
    MIN_SIDE_PX,
    Arrangement,
    OverviewLayout,
)

NAMES = [f"layers.{i}.{path}.weight" for i in range(4) for path in ("fc1", "fc2")]


@pytest.fixture
def arrangement():
    shapes = dict.fromkeys([*NAMES, "embed.weight", "head.weight"], (4, 4))
    return Arrangement(tuple(sections(shapes)))


@pytest.fixture
def layout(arrangement):
    return OverviewLayout(arrangement, 40, 12, 30, 36, 60)


def test_names_are_in_reading_order(arrangement):
    assert list(arrangement.positions) == [*NAMES, "embed.weight", "head.weight"]
    assert arrangement.positions["layers.2.fc2.weight"] == (0, 2, 1)
    assert arrangement.ranks["embed.weight"] == 8


def test_visible_parameters_come_first_then_those_around_them(arrangement):
    first = arrangement.nearest_first((NAMES[3], NAMES[4]))
    assert first[:6] == [NAMES[3], NAMES[4], NAMES[5], NAMES[2], NAMES[6], NAMES[1]]
    assert sorted(first) == sorted(arrangement.positions)
    assert arrangement.nearest_first(None) == list(arrangement.positions)
    assert arrangement.nearest_first(("gone", "gone")) == list(arrangement.positions)


@pytest.mark.parametrize(
    ("start", "across", "down", "end"),
    [
        ("layers.0.fc1.weight", 1, 0, "layers.0.fc2.weight"),
        ("layers.0.fc2.weight", 1, 0, "layers.0.fc2.weight"),
        ("layers.0.fc2.weight", 0, 2, "layers.2.fc2.weight"),
        ("layers.3.fc2.weight", 0, 1, "head.weight"),
        ("head.weight", 0, -1, "layers.3.fc2.weight"),
        ("layers.1.fc1.weight", 0, -9, "layers.0.fc1.weight"),
        ("embed.weight", 9, 0, "head.weight"),
    ],
)
def test_arrows_move_to_the_adjacent_parameter(arrangement, start, across, down, end):
    assert arrangement.neighbour(start, across, down) == end


def test_moves_skip_gaps():
    names = [*NAMES[:6], "layers.3.fc2.weight"]
    gapped = Arrangement(tuple(sections(dict.fromkeys(names, (4, 4)))))
    assert gapped.neighbour("layers.2.fc1.weight", 0, 1) == "layers.3.fc2.weight"
    assert gapped.neighbour("layers.3.fc2.weight", -1, 0) == "layers.3.fc2.weight"


def test_the_parameter_at_a_point_is_the_one_drawn_there(arrangement, layout):
    for name, position in arrangement.positions.items():
        tile = layout.tile(position)
        assert layout.name_at(tile.x + 1, tile.y + 1) == name
        assert layout.name_at(tile.x + tile.width - 1, tile.y + tile.height + 2) == name
        cell = layout.cell(position)
        assert cell.y + cell.height <= layout.size[1]
        assert cell.x + cell.width <= layout.size[0]
    assert layout.name_at(5, 60) is None
    assert layout.name_at(9_999, 60) is None
    assert layout.name_at(60, -5) is None
    assert layout.name_at(60, 99_999) is None


def test_rows_that_overlap_a_range_are_found(arrangement, layout):
    assert [(i, list(rows)) for i, rows in layout.rows_between(0, layout.size[1])] == [
        (0, [0, 1, 2, 3]),
        (1, [0]),
    ]
    tile = layout.tile(arrangement.positions[NAMES[4]])
    assert [(i, list(rows)) for i, rows in layout.rows_between(tile.y + 1, tile.y + 9)] == [
        (0, [2])
    ]


@pytest.mark.parametrize("size", [(400, 500), (900, 900), (250, 400)])
def test_thumbnails_fill_the_space_without_scrolling_if_they_fit(arrangement, size):
    layout = OverviewLayout.fitting(arrangement, size, 12, 30, 36, 60)
    assert layout.size[0] <= size[0]
    assert layout.size[1] <= size[1]
    larger = OverviewLayout(arrangement, layout.side + 1, 12, 30, 36, layout.loose_pitch)
    too_large = larger.size[0] > size[0] or larger.size[1] > size[1]
    assert too_large or layout.side == MAX_SIDE_PX


def test_many_rows_scroll_down_and_keep_a_readable_size(arrangement):
    layout = OverviewLayout.fitting(arrangement, (400, 100), 12, 30, 36, 60)
    assert layout.size[0] <= 400
    assert layout.size[1] > 100
    assert layout.side > MIN_SIDE_PX
    assert OverviewLayout.fitting(arrangement, (50, 100), 12, 30, 36, 60).side == MIN_SIDE_PX
