"""Numbers as they are written into the entries of a picture. No Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import GAP
from prune_gui.language import number

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.audit.statistics.element_values import Measure

Texts = np.ndarray[tuple[int, ...], np.dtype[np.str_]]
WIDEST = 7
"""Characters."""
AT_ONCE = 1 << 16
"""Entries that may be read for the few of a line."""


def short(value: float) -> str:
    """Return a number in few characters: "0.0312", "-1.5", "3e-07"."""
    if value == 0 or not np.isfinite(value):
        return number(value, "g")
    for digits in (3, 2, 1):
        if len(text := number(value, f".{digits}g")) <= WIDEST:
            break
    return text


def texts(measure: Measure, layout: ParameterLayout, rows: range, columns: range) -> Texts:
    """Return a text for each entry of a rectangle; "" where there is none, or no number."""
    found = np.full((len(rows), len(columns)), "", f"U{WIDEST}")
    across = layout.column_offsets(columns)
    there = np.flatnonzero(across != GAP)
    for i, offset in enumerate(layout.row_offsets(rows)):
        if offset != GAP and there.size:
            found[i, there] = _line(measure, offset + across[there])
    return found


def _line(measure: Measure, flat: NDArray[np.int64]) -> list[str]:
    """Return the texts of some entries, given by ascending flat indices."""
    first, span = int(flat[0]), int(flat[-1] - flat[0]) + 1
    if span > AT_ONCE:
        return [text for one in flat for text in _line(measure, one[None])]
    numbers, known = measure(first, first + span)
    return [short(float(numbers[i])) if known.size == 0 or known[i] else "" for i in flat - first]
