import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps import text as map_text
from prune_gui.gui.views.maps.text import MAX_CHARACTERS, is_bright, short, texts
from prune_gui.raster.colours import DARK, LIGHT, ramp, rgb
from prune_gui.raster.layouts import KernelLayout, SliceLayout


@given(st.floats(-1e9, 1e9))
def test_short_texts_are_near_their_numbers(number):
    text = short(number)
    assert len(text) <= MAX_CHARACTERS
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
def test_numbers_have_the_expected_short_texts(number, text):
    assert short(number) == text


@pytest.mark.parametrize("at_once", [1, 1 << 16])
@pytest.mark.parametrize(
    "layout",
    [
        SliceLayout.flattened((4, 18)),
        SliceLayout.flattened((4, 18)).transposed,
        KernelLayout.of((4, 2, 3, 3)),
        SliceLayout.section((4, 2, 3, 3), 3, 0, (0, 1, 1, 0)),
    ],
)
def test_each_element_has_the_text_of_its_own_number(layout, at_once, monkeypatch):
    monkeypatch.setattr(map_text, "MAX_SPAN_ELEMENTS", at_once)
    known = np.ones(72, np.bool_)
    known[::5] = False

    def measure(start, stop):
        return np.arange(start, stop, dtype=np.float32), known[start:stop]

    rows, columns = range(1, layout.rows), range(layout.columns - 1)
    result = texts(measure, layout, rows, columns)
    assert result.shape == (len(rows), len(columns))
    for (i, j), text in np.ndenumerate(result):
        position = rows[i], columns[j]
        has_text = layout.holds(*position) and known[layout.flat(*position)]
        assert text == (str(layout.flat(*position)) if has_text else "")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_texts_are_legible_on_every_colour_of_an_element(theme):
    shades = [theme.kept, *theme.steps, theme.draft, theme.in_file]
    ramps = [ramp(theme, signed=signed).table()[:, :3] for signed in (False, True)]
    pixels = np.concatenate([np.uint8([rgb(shade) for shade in shades]), *ramps])
    srgb = pixels / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    contrast = np.where(is_bright(pixels), (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05))
    assert contrast.min() >= 4.5
