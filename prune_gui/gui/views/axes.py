"""What the axes of a picture are called, and the numbers along them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pyqtgraph as pg

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.gui.formatting import TIMES
from prune_gui.language import later, number, tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout

BEYOND: Final = 8
"""Pixels that a number may reach beyond the ends of its axis: half of a 0 under the first entry."""
PLAIN: Final = 5
"""The power of ten from which on numbers are written as such, as pyqtgraph does below 0.0001."""


KERNEL_DIMS: Final = {
    "1d": (later("kernel position"),),
    "2d": (later("kernel row"), later("kernel column")),
    "3d": (later("kernel plane"), later("kernel row"), later("kernel column")),
}


def dim_names(kind: str, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return what runs along each dimension of a parameter.

    Args:
        kind: of its module, as `kinds.kind_of` tells; "" if that is not known.
        name: of the parameter.
        shape: of the parameter.
    """
    dims = tuple(tr("dim {dim}", dim=dim) for dim in range(len(shape)))
    kernel = tuple(map(tr, KERNEL_DIMS.get(kind[-2:], ())))
    if kernel and len(shape) == 2 + len(kernel):
        ends = (tr("input channel"), tr("output channel"))
        return (*(ends if "Transpose" in kind else ends[::-1]), *kernel)
    if len(shape) == 2:
        return _matrix(kind, name) or dims
    if len(shape) == 1 and (kind == "Linear" or kernel):
        return (tr("output channel"),)
    if len(shape) == 1 and kind.endswith("Norm"):
        return (tr("feature"),) if kind in ("LayerNorm", "RMSNorm") else (tr("channel"),)
    return dims if len(shape) > 1 else (tr("entry"),) * len(shape)


def dim_labels(names: tuple[str, ...]) -> list[str]:
    """Return the number of each dimension with what runs along it: "dim 0: output channel".

    Args:
        names: of the dimensions, as `dim_names` gives them.
    """
    plain = [tr("dim {dim}", dim=dim) for dim in range(len(names))]
    return [
        label if name == label else tr("dim {dim}: {name}", dim=dim, name=name)
        for dim, (label, name) in enumerate(zip(plain, names, strict=True))
    ]


def _matrix(kind: str, name: str) -> tuple[str, str] | None:
    """Return what runs down and across a matrix; None if nobody can tell."""
    last = name.rpartition(".")[2]
    if kind == "Embedding":
        return tr("position") if "pos" in name.lower() else tr("token"), tr("feature")
    if kind == "Conv1D":
        return tr("input channel"), tr("output channel")
    if kind.startswith(("LSTM", "GRU", "RNN")):
        unit = tr("hidden unit")
        down = unit if kind.startswith("RNN") else tr("gate \N{MULTIPLICATION SIGN} hidden unit")
        return down, tr("input") if "_ih" in last else unit
    if "embed" in name.lower():
        return None
    return tr("output channel"), tr("input channel")


def layout_labels(
    names: tuple[str, ...], layout: ParameterLayout, dims: tuple[int, int] | None
) -> tuple[str, str]:
    """Return what runs down and what runs across a picture.

    Args:
        names: of the dimensions.
        layout: of the picture.
        dims: of a section; None where all entries are shown.
    """
    if dims is not None:
        return names[dims[0]], names[dims[1]]
    if isinstance(layout, KernelGrid):
        if layout.across != layout.shape[1]:
            across = tr("{dim} within a row of {count}", dim=names[0], count=layout.across)
            return names[0], across
        return tr("{dim}, a kernel each", dim=names[0]), tr("{dim}, a kernel each", dim=names[1])
    if len(names) < 2:
        what = names[0] if names else tr("entry")
        return "" if layout.rows == 1 else tr("row of {count:,}", count=layout.columns), what
    return names[0], f" {TIMES} ".join(names[1:])


def axis_scales(layout: ParameterLayout) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return for both axes what a line counts, and the number after the last.

    Of a sheet it is channels that are counted, of which rows may have several.
    """
    if isinstance(layout, KernelGrid):
        per_row = layout.shape[0] // layout.down
        down = per_row / layout.pitch[0], layout.shape[0]
        return down, (1 / layout.pitch[1], layout.across)
    return (1.0, layout.rows), (1.0, layout.columns)


class ValueAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of numbers as pyqtgraph writes them, but for the decimal sign."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        point = number(0.5, ".1f").strip("05")
        return [text.replace(".", point) for text in super().tickStrings(values, scale, spacing)]

    def logTickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick: 10 beside 0.1 and 1, where pyqtgraph would write 10¹."""
        texts = super().logTickStrings(values, scale, spacing)
        return [
            f"{10**value:g}" if 1 <= value < PLAIN else text
            for value, text in zip(values, texts, strict=True)
        ]


class IndexAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of whole numbers from 0 on, written out: 12,288.

    Attributes:
        end: the number after the last; None if there is none.
    """

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.end: int | None = None
        self.setStyle(maxTextLevel=0)
        if orientation == "bottom":
            self.setStyle(hideOverlappingLabels=BEYOND)

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:  # noqa: N802
        """Return spacings as pyqtgraph does, but none below one."""
        return [(max(1.0, spacing), at) for spacing, at in super().tickSpacing(low, high, size)]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick; there is none where there is no entry."""
        end = math.inf if self.end is None else self.end
        counted = [value * scale for value in values]
        return [number(round(value)) if 0 <= value < end else "" for value in counted]


class CountAxis(IndexAxis):
    """An axis of counts; on a logarithmic one only the powers of ten are written."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        if not self.logMode:
            return super().tickStrings(values, scale, spacing)
        return [number(10 ** round(v)) if v >= 0 and v == round(v) else "" for v in values]
