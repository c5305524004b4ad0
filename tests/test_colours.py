import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.raster.colours import DARK, LIGHT, TABLE_SIZE, ramp

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK])
NUMBERS = st.floats(-1e6, 1e6)


def _lightness(table):
    return table[:, :3] @ np.array([0.2126, 0.7152, 0.0722])


@THEMES
def test_an_unsigned_ramp_has_monotonic_lightness(theme):
    change = np.diff(_lightness(ramp(theme, signed=False).table()))
    assert np.all(change < 1) if theme is LIGHT else np.all(change > -1)
    assert abs(change.sum()) > 150


@THEMES
def test_both_sides_of_a_signed_ramp_contrast_with_zero(theme):
    light = _lightness(ramp(theme, signed=True).table())
    middle = TABLE_SIZE // 2
    assert abs(light[middle] - light[0]) > 90
    assert abs(light[middle] - light[-1]) > 90
    table = ramp(theme, signed=True).table().astype(int)
    assert table[40, 0] > table[40, 2]  # orange below zero
    assert table[-40, 2] > table[-40, 0]  # blue above


@given(NUMBERS, NUMBERS, st.booleans())
def test_ramp_indices_are_monotonic(a, b, signed):
    indices = ramp(LIGHT, signed=signed).indices(np.array([min(a, b), max(a, b)]), 1e6)
    assert indices[0] <= indices[1]


def test_the_ends_and_the_middle_have_the_expected_indices():
    signed, upwards = ramp(LIGHT, signed=True), ramp(LIGHT, signed=False)
    assert signed.indices(np.array([-2.0, 0.0, 2.0]), 2.0).tolist() == [0, 127, 254]
    assert upwards.indices(np.array([0.0, 0.5, 2.0]), 2.0).tolist() == [0, 127, 254]
    assert upwards.indices(np.array([np.nan, np.inf, 0.0]), 0.0).tolist() == [0, 254, 0]
