from collections import Counter

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.comparison.summary import summarize
from prune_gui.gui.views.compare.data import Shades, paint, split
from prune_gui.gui.views.compare.text import (
    legend,
    points,
    share_text,
    summary_rows,
    total_text,
    worst_names,
)
from prune_gui.monitor import Monitor
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


HALF = {"method": "l1_unstructured", "amount": 0.5}


def _texts(summary):
    return {row.title: [cell.text for cell in row.cells] for row in summary_rows(summary)}


def _summary(left, right, name="w", wanted=True):
    return summarize(name, left, right, right, None, lambda _: wanted, Monitor())


def test_there_is_a_column_for_the_parameter_and_one_for_all(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]]), "v": torch.ones(1, 4)}
    step = {**HALF, "targets": ["w"]}
    texts = _texts(_summary(resolved(**tensors), resolved(step, **tensors)))
    assert texts["Sparsity"] == ["0.0 %", "0.0 %", "50.0 %", "25.0 %", "+50.0 pp", "+25.0 pp"]
    assert texts["Pruned"] == ["0", "0", "2", "2", "+2", "+2"]
    minus = "\N{MINUS SIGN}"
    energies = ["100 %", "100 %", "83.33 %", "85.29 %", f"{minus}16.67 pp", f"{minus}14.71 pp"]
    assert texts["Kept energy"] == energies
    dash = "\N{EN DASH}"
    assert texts["Worst layer"] == ["", dash, "", "83.33 %", "", dash]


def test_the_worst_layers_are_named(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]])}
    summary = _summary(resolved(**tensors), resolved(HALF, **tensors))
    assert worst_names(summary) == ("", "Worst on the right: w")
    assert worst_names(None) == ("", "")


def test_unknown_numbers_are_an_ellipsis(resolved):
    left = resolved(HALF, w=torch.arange(8.0).reshape(2, 4))
    texts = _texts(_summary(left, left, wanted=False))
    assert texts["Kept energy"] == ["…"] * 6
    assert texts["Sparsity"][0] == "50.0 %"
    assert set(_texts(None)["Sparsity"]) == {"…"}


def test_a_parameter_that_one_side_lacks_has_dashes(resolved):
    left, right = resolved(v=torch.ones(4)), resolved(w=torch.ones(4))
    assert _texts(_summary(left, right))["Sparsity"][::2] == ["\N{EN DASH}"] * 3


def test_large_numbers_are_short_with_the_exact_number_in_the_tip(resolved):
    left, right = (resolved(*steps, w=torch.ones(100, 100)) for steps in ((), (HALF,)))
    row = next(r for r in summary_rows(_summary(left, right)) if r.title == "Pruned")
    assert [(row.cells[i].text, row.cells[i].tip) for i in (2, 4)] == [
        ("5.0 k", "5,000 of 10,000"),
        ("+5.0 k", "+5,000"),
    ]


def test_shares_and_their_differences_have_a_sign_and_a_unit():
    assert [points(change, 1) for change in (0.5, 0.0, -0.0001, -0.125)] == [
        "+50.0 pp",
        "0.0 pp",
        "0.0 pp",
        "\N{MINUS SIGN}12.5 pp",
    ]
    assert [share_text(share) for share in (1.0, 0.5)] == ["100 %", "50.00 %"]
    assert share_text(float("nan")) == points(float("nan"), 1) == "\N{EN DASH}"
