import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.gui.views.maps import cell_labels
from prune_gui.gui.views.maps.cell_labels import WIDEST, short, texts


@given(st.floats(-1e9, 1e9))
def test_a_number_is_short_and_near_what_it_stands_for(number):
    text = short(number)
    assert len(text) <= WIDEST
    assert float(text) == pytest.approx(number, rel=0.5)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-1.0, "-1"),
        (0.03125, "0.0312"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1.234e-7, "1.2e-07"),
    ],
)
def test_numbers_as_they_are_written(number, text):
    assert short(number) == text


@pytest.mark.parametrize("at_once", [1, 1 << 16])
@pytest.mark.parametrize(
    "layout",
    [
        SliceLayout.flattened((4, 18)),
        SliceLayout.flattened((4, 18)).transposed,
        KernelGrid.of((4, 2, 3, 3)),
        SliceLayout.section((4, 2, 3, 3), 3, 0, (0, 1, 1, 0)),
    ],
)
def test_each_entry_carries_its_own_number(layout, at_once, monkeypatch):
    monkeypatch.setattr(cell_labels, "AT_ONCE", at_once)
    every = np.ones(72, np.bool_)
    every[::5] = False

    def measure(start, stop):
        return np.arange(start, stop, dtype=np.float32), every[start:stop]

    rows, columns = range(1, layout.rows), range(layout.columns - 1)
    found = texts(measure, layout, rows, columns)
    assert found.shape == (len(rows), len(columns))
    for (i, j), text in np.ndenumerate(found):
        place = rows[i], columns[j]
        known = layout.holds(*place) and every[layout.flat(*place)]
        assert text == (str(layout.flat(*place)) if known else "")
