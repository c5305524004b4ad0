from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.rendering.compare_picture import Shades, legend, paint, split, total_text
from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.raster.colours import DARK, LIGHT

SHADES = ("#000000", "#646464", "#ff0000")
share = st.floats(0, 1, width=32)


def _pixel(both, alone, shades=SHADES):
    one = [np.array([[value]], np.float32) for value in (both, alone)]
    return paint(shades[0], *zip(one, shades[1:], strict=True))[0, 0].tolist()


def test_uniform_cells_have_the_exact_colour():
    assert _pixel(0, 0) == [0, 0, 0, 255]
    assert _pixel(1, 0) == [100, 100, 100, 255]
    assert _pixel(0, 1) == [255, 0, 0, 255]


@given(share, share)
def test_a_lone_pruned_element_is_always_visible(both, alone):
    both *= 1 - alone
    red, green, _, _ = _pixel(both, alone)
    assert (red - green > 20) == (alone > 0)
    if alone < 1:
        assert red < 255
    if both > 0 and alone == 0:
        assert 20 < green <= 100


def test_each_theme_has_four_distinct_shades():
    for colours in (LIGHT, DARK):
        shades = Shades.of(colours)
        assert len({shades.kept, shades.both, shades.left, shades.right}) == 4


def test_the_legend_shows_only_colours_that_occur():
    text = legend(Overlap("w", 10, 0, 30, 100), LIGHT).replace("&nbsp;", " ")
    assert "pruned in both 10 (10.0 %)" in text
    assert "only right 30 (30.0 %)" in text
    assert "kept in both 60 (60.0 %)" in text
    assert "only left" not in text
    assert "IoU 0.250" in text


def test_the_total_text_says_when_nothing_differs():
    none = Counter()
    assert "both prune the same 1,200 weights" in total_text(Overlap("", 1200, 0, 0, 5000), none)
    assert total_text(Overlap("", 0, 0, 0, 0), none).startswith("No parameter")
    assert "5 only left" in total_text(Overlap("", 1200, 5, 0, 5000), none)


def test_a_split_picture_has_the_left_side_up_to_the_column():
    left, right = np.zeros((2, 5, 4), np.uint8), np.ones((2, 5, 4), np.uint8)
    for columns, at, first in (
        (range(10), 3.5, 2),  # two columns per cell
        (range(10), -9.0, 0),
        (range(10), 99.0, 5),
        (range(10, 15), 12.5, 3),
    ):
        row = split(left, right, columns, at)[0, :, 0].tolist()
        assert row == [0] * first + [1] * (5 - first)
