"""What the axes of a picture are called, and the numbers along them."""

from __future__ import annotations

import math
from typing import Final

import pyqtgraph as pg

TIMES: Final = "\N{MULTIPLICATION SIGN}"


def dim_label(name: str, shape: tuple[int, ...], dim: int) -> str:
    """Return what the channels along a dimension of a parameter are.

    Layers that multiply keep (output, input, kernel...) in torch. An embedding does not, and of
    other layers the name tells nothing.
    """
    if len(shape) < 2 or dim > 1 or "embed" in name.lower():
        return f"dim {dim}"
    return f"dim {dim}: {'output' if dim == 0 else 'input'} channel"


def plane_labels(
    name: str, shape: tuple[int, ...], dims: tuple[int, int] | None
) -> tuple[str, str]:
    """Return what runs down and what runs across a plane.

    Args:
        name: of the parameter.
        shape: of the parameter.
        dims: of a section; None for the flattened plane.
    """
    if dims is not None:
        return dim_label(name, shape, dims[0]), dim_label(name, shape, dims[1])
    if len(shape) < 2:
        return "", "entry"
    if len(shape) == 2:
        return dim_label(name, shape, 0), dim_label(name, shape, 1)
    if "embed" in name.lower():
        return "dim 0", "dims 1 and up, flattened"
    return "dim 0: output channel", f"input channel {TIMES} kernel, flattened"


class IndexAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of whole numbers from 0 on, written out: 12,288.

    Attributes:
        end: the number after the last; None if there is none.
    """

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.end: int | None = None
        self.setStyle(maxTextLevel=0)

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:  # noqa: N802
        """Return spacings as pyqtgraph does, but none below one."""
        return [(max(1.0, spacing), at) for spacing, at in super().tickSpacing(low, high, size)]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick; there is none where there is no entry."""
        end = math.inf if self.end is None else self.end
        return [f"{round(value):,}" if 0 <= value < end else "" for value in values]


class CountAxis(IndexAxis):
    """An axis of counts; on a logarithmic one only the powers of ten are written."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        if not self.logMode:
            return super().tickStrings(values, scale, spacing)
        return [f"{10 ** round(v):,}" if v >= 0 and v == round(v) else "" for v in values]
