import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.plane import Plane
from prune_gui.audit.sheet import Sheet
from prune_gui.gui.views import written
from prune_gui.gui.views.written import WIDEST, short, texts


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
        Plane.flattened((4, 18)),
        Plane.flattened((4, 18)).transposed,
        Sheet.of((4, 2, 3, 3)),
        Plane.section((4, 2, 3, 3), 3, 0, (0, 1, 1, 0)),
    ],
)
def test_each_entry_carries_its_own_number(layout, at_once, monkeypatch):
    monkeypatch.setattr(written, "AT_ONCE", at_once)
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
