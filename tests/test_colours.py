from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.raster.colours import DARK, LIGHT, TABLE_SIZE, pruned_ramps, ramp, rgb

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK])
NUMBERS = st.floats(-1e6, 1e6)


SRGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LMS_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
"""How linear sRGB looks with a type of colour vision (Machado et al., 2009, severity 1)."""
MIN_DISTANCE = 0.05
"""In OKLab, whose unit is the distance of black and white: about 2.5 just noticeable ones."""


def _linear(colour):
    shares = np.array(rgb(colour)) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def _contrast(a, b):
    """Return the contrast of two colours as WCAG 2 defines it."""
    low, high = sorted(_linear(colour) @ (0.2126, 0.7152, 0.0722) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def _oklab(colour, vision):
    seen = np.clip(VISIONS[vision] @ _linear(colour), 0, 1)
    return LMS_TO_OKLAB @ np.cbrt(SRGB_TO_LMS @ seen)


def _pruned(theme):
    return (*theme.steps, theme.draft, theme.in_file, theme.zero)


@THEMES
def test_pruned_contrasts_with_kept_and_background(theme):
    for colour in _pruned(theme):
        assert _contrast(colour, theme.kept) >= 4.5
        assert _contrast(colour, theme.background) >= 4.5


@THEMES
@pytest.mark.parametrize("vision", VISIONS)
def test_states_can_be_distinguished_with_any_colour_vision(theme, vision):
    for a, b in combinations((theme.kept, *_pruned(theme)), 2):
        assert np.linalg.norm(_oklab(a, vision) - _oklab(b, vision)) >= MIN_DISTANCE, (a, b)


@THEMES
def test_curves_contrast_with_the_background(theme):
    assert min(_contrast(colour, theme.background) for colour in theme.curves) >= 3


@THEMES
@pytest.mark.parametrize("vision", VISIONS)
def test_curves_can_be_distinguished_from_each_other_and_from_states(theme, vision):
    for at, curve in enumerate(theme.curves):
        for other in (*theme.curves[:at], theme.kept, *_pruned(theme)):
            distance = np.linalg.norm(_oklab(curve, vision) - _oklab(other, vision))
            assert distance >= MIN_DISTANCE, (curve, other)


@THEMES
@pytest.mark.parametrize("vision", VISIONS)
def test_zeros_of_the_file_look_unlike_what_is_pruned_in_it(theme, vision):
    distance = np.linalg.norm(_oklab(theme.in_file, vision) - _oklab(theme.zero, vision))
    assert distance >= 4 * MIN_DISTANCE


@THEMES
def test_a_ramp_goes_from_kept_to_the_colour_of_each_state(theme):
    table = pruned_ramps(theme, np.linspace(0, 1, 5))
    assert {tuple(colour) for colour in table[:, 0].tolist()} == {(*rgb(theme.kept), 255)}
    assert table[1:, -1, :3].tolist() == [list(rgb(colour)) for colour in _pruned(theme)]


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
