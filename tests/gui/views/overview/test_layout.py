"""The layout of the grid: each parameter has a cell, and many blocks are beside each other."""

import pytest

from prune_gui.architecture.blocks import sections
from prune_gui.gui.views.overview.layout import (
    MAX_SIDE_PX,
    READABLE_SIDE_PX,
    Arrangement,
    GridLayout,
    TextSizes,
)

TEXTS = TextSizes(line=12, labels=(30, 30, 30), heads=(20, 20, 20), number=36, caption=60)


NAMES = [f"layers.{i}.{path}.weight" for i in range(4) for path in ("fc1", "fc2")]


@pytest.fixture
def arrangement():
    shapes = dict.fromkeys([*NAMES, "embed.weight", "head.weight"], (4, 4))
    return Arrangement(tuple(sections(shapes)))


@pytest.fixture
def layout(arrangement):
    return GridLayout(arrangement, 400, TEXTS, side=40, strip_rows=2)


def test_visible_parameters_come_first(arrangement):
    names = list(arrangement.positions)
    assert arrangement.visible_first((NAMES[4], NAMES[3], "gone"))[:3] == [
        NAMES[4],
        NAMES[3],
        names[0],
    ]
    assert sorted(arrangement.visible_first(NAMES[3:5])) == sorted(names)
    assert arrangement.visible_first(()) == names


@pytest.mark.parametrize(
    ("start", "across", "down", "end"),
    [
        ("layers.0.fc1.weight", 1, 0, "layers.0.fc2.weight"),
        ("layers.0.fc2.weight", 1, 0, "layers.0.fc2.weight"),
        ("layers.0.fc2.weight", 0, 2, "layers.2.fc2.weight"),
        ("layers.3.fc2.weight", 0, 1, "head.weight"),
        ("head.weight", 0, -1, "layers.3.fc1.weight"),
        ("layers.1.fc1.weight", 0, -9, "embed.weight"),
        ("layers.0.fc2.weight", 0, -1, "embed.weight"),
    ],
)
def test_arrows_move_to_the_adjacent_parameter(arrangement, start, across, down, end):
    assert arrangement.neighbour(start, across, down) == end


def test_moves_skip_gaps():
    names = [*NAMES[:6], "layers.3.fc2.weight"]
    gapped = Arrangement(tuple(sections(dict.fromkeys(names, (4, 4)))))
    assert gapped.neighbour("layers.2.fc1.weight", 0, 1) == "layers.3.fc2.weight"
    assert gapped.neighbour("layers.3.fc2.weight", -1, 0) == "layers.3.fc2.weight"


def test_thumbnails_are_in_their_cells_and_these_within_the_whole(arrangement, layout):
    cells = {position: layout.cell(position) for position in arrangement.positions.values()}
    assert len({(cell.x, cell.y) for cell in cells.values()}) == len(cells)
    for position, cell in cells.items():
        tile = layout.tile(position)
        assert cell.x <= tile.x <= tile.x + tile.width <= cell.x + cell.width <= layout.size[0]
        assert cell.y <= tile.y <= tile.y + tile.height < cell.y + cell.height <= layout.size[1]


def test_rows_that_overlap_a_range_are_found_in_all_strips(arrangement, layout):
    assert [(i, list(rows)) for i, rows in layout.rows_between(0, layout.size[1])] == [
        (0, [0]),
        (1, [0, 1, 2, 3]),
        (2, [0]),
    ]
    tile = layout.tile(arrangement.positions[NAMES[2]])
    assert [(i, list(rows)) for i, rows in layout.rows_between(tile.y + 1, tile.y + 9)] == [
        (1, [1, 3])
    ]


def fitting(arrangement, width, height):
    return GridLayout.fitting(arrangement, width, height, TEXTS)


def blocks(count):
    names = [f"layers.{i}.{path}.weight" for i in range(count) for path in ("fc1", "fc2")]
    return Arrangement(tuple(sections(dict.fromkeys(names, (4, 4)))))


@pytest.mark.parametrize("size", [(400, 500), (900, 900), (250, 400)])
def test_cells_fill_the_space_without_scrolling_if_they_fit(arrangement, size):
    layout = fitting(arrangement, *size)
    assert layout.size[0] <= size[0]
    assert layout.size[1] <= size[1]
    assert layout.size[0] > 0.7 * size[0] or layout.side == MAX_SIDE_PX


@pytest.mark.parametrize("count", [24, 48, 96])
def test_many_blocks_are_in_strips_beside_each_other_all_in_sight(count):
    layout = fitting(blocks(count), 600, 600)
    assert layout.placed[0].strips > 1
    assert layout.size[0] <= 600
    assert layout.size[1] <= 600


def test_more_blocks_scroll_down_and_keep_a_readable_size():
    layout = fitting(blocks(2000), 400, 400)
    assert layout.size[0] <= 400
    assert layout.size[1] > 400
    assert layout.has_texts
    assert layout.side == READABLE_SIDE_PX


def test_headings_that_are_whole_come_before_large_cells():
    arrangement = blocks(30)
    narrow = fitting(arrangement, 500, 900)
    texts = TEXTS._replace(heads=(narrow.placed[0].space + 10,))
    wider = GridLayout.fitting(arrangement, 500, 900, texts)
    assert wider.placed[0].space >= texts.heads[0]
    assert wider.side < narrow.side


def test_headings_that_are_cut_less_come_before_large_cells():
    arrangement = blocks(20)
    narrow = fitting(arrangement, 500, 300)
    texts = TEXTS._replace(heads=(120,))
    wider = GridLayout.fitting(arrangement, 500, 300, texts)
    assert narrow.placed[0].space < 60 < 100 < wider.placed[0].space < texts.heads[0]
    assert wider.size[1] <= 300
