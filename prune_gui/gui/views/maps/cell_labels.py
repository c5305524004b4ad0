"""Numbers as short texts for the elements of a picture. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import format_number
from prune_gui.raster.slice_layout import GAP

if TYPE_CHECKING:
    from prune_gui.gui.views.maps.tiles import Pixels
    from prune_gui.raster.slice_layout import ParameterLayout
    from prune_gui.statistics.element_values import Measure

BLACK_TEXT_MIN_LUMINANCE = 0.179
"""Luminance above which black has more contrast than white: both have 4.6 there (WCAG 2.2)."""
Texts = np.ndarray[tuple[int, ...], np.dtype[np.str_]]
MAX_CHARACTERS = 7
"""Maximum length of a text."""
MAX_SPAN_ELEMENTS = 1 << 16
"""Maximum span of flat indices that is read at once for the elements of one row."""


def short(value: float) -> str:
    """Return a number as a short text: "0.0312", "-1.5", "3e-07"."""
    if value == 0 or not np.isfinite(value):
        return format_number(value, "g")
    for digits in (3, 2, 1):
        if len(text := format_number(value, f".{digits}g")) <= MAX_CHARACTERS:
            break
    return text


def is_bright(pixels: Pixels) -> NDArray[np.bool_]:
    """Return whether a text on each sRGB pixel, uint8 (..., 3 or 4), should be black, not white."""
    shares = np.arange(256) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    luminance = linear[pixels[..., :3]] @ np.array([0.2126, 0.7152, 0.0722])
    bright: NDArray[np.bool_] = luminance > BLACK_TEXT_MIN_LUMINANCE
    return bright


def texts(measure: Measure, layout: ParameterLayout, rows: range, columns: range) -> Texts:
    """Return str (rows, columns), a text per element; "" where there is no element or no number."""
    result = np.full((len(rows), len(columns)), "", f"U{MAX_CHARACTERS}")
    column_offsets = layout.column_offsets(columns)
    filled = np.flatnonzero(column_offsets != GAP)
    for i, offset in enumerate(layout.row_offsets(rows)):
        if offset != GAP and filled.size:
            result[i, filled] = _row_texts(measure, offset + column_offsets[filled])
    return result


def _row_texts(measure: Measure, flat: NDArray[np.int64]) -> list[str]:
    """Return the texts of elements, given by ascending flat indices."""
    first, span_length = int(flat[0]), int(flat[-1] - flat[0]) + 1
    if span_length > MAX_SPAN_ELEMENTS:
        return [text for index in flat for text in _row_texts(measure, index[None])]
    numbers, known_mask = measure(first, first + span_length)
    return [
        short(float(numbers[i])) if known_mask.size == 0 or known_mask[i] else ""
        for i in flat - first
    ]
