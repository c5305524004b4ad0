"""What the axes of a picture are called, and the numbers along them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pyqtgraph as pg

from prune_gui.audit.sheet import Sheet

if TYPE_CHECKING:
    from prune_gui.audit.plane import Layout

TIMES: Final = "\N{MULTIPLICATION SIGN}"


def dim_label(name: str, shape: tuple[int, ...], dim: int) -> str:
    """Return what the channels along a dimension of a parameter are.

    Layers that multiply keep (output, input, kernel...) in torch. An embedding does not, and of
    other layers the name tells nothing.
    """
    if len(shape) < 2 or dim > 1 or "embed" in name.lower():
        return f"dim {dim}"
    return f"dim {dim}: {'output' if dim == 0 else 'input'} channel"


KERNEL_DIMS: Final = {
    "1d": ("kernel position",),
    "2d": ("kernel row", "kernel column"),
    "3d": ("kernel plane", "kernel row", "kernel column"),
}


def dim_names(kind: str, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return what runs along each dimension of a parameter.

    Args:
        kind: of its module, as `kinds.kind_of` tells; "" if that is not known.
        name: of the parameter.
        shape: of the parameter.
    """
    dims = tuple(f"dim {dim}" for dim in range(len(shape)))
    kernel = KERNEL_DIMS.get(kind[-2:], ())
    if kernel and len(shape) == 2 + len(kernel):
        ends = ("input channel", "output channel")
        return (*(ends if "Transpose" in kind else ends[::-1]), *kernel)
    if len(shape) == 2:
        return _matrix(kind, name) or dims
    if len(shape) == 1 and (kind == "Linear" or kernel):
        return ("output channel",)
    if len(shape) == 1 and kind.endswith("Norm"):
        return ("feature",) if kind in ("LayerNorm", "RMSNorm") else ("channel",)
    return dims if len(shape) > 1 else ("entry",) * len(shape)


def _matrix(kind: str, name: str) -> tuple[str, str] | None:
    """Return what runs down and across a matrix; None if nobody can tell."""
    last = name.rpartition(".")[2]
    if kind == "Embedding":
        return "position" if "pos" in name.lower() else "token", "feature"
    if kind == "Conv1D":
        return "input channel", "output channel"
    if kind.startswith(("LSTM", "GRU", "RNN")):
        down = "hidden unit" if kind.startswith("RNN") else f"gate {TIMES} hidden unit"
        return down, "input" if "_ih" in last else "hidden unit"
    if "embed" in name.lower():
        return None
    return "output channel", "input channel"


def layout_labels(
    names: tuple[str, ...], layout: Layout, dims: tuple[int, int] | None
) -> tuple[str, str]:
    """Return what runs down and what runs across a picture.

    Args:
        names: of the dimensions.
        layout: of the picture.
        dims: of a section; None where all entries are shown.
    """
    if dims is not None:
        return names[dims[0]], names[dims[1]]
    if isinstance(layout, Sheet):
        if layout.across != layout.shape[1]:
            return names[0], f"{names[0]} within a row of {layout.across}"
        return f"{names[0]}, a kernel each", f"{names[1]}, a kernel each"
    if len(names) < 2:
        what = names[0] if names else "entry"
        return ("", what) if layout.rows == 1 else (f"row of {layout.columns:,}", what)
    return names[0], f" {TIMES} ".join(names[1:])


def axis_scales(layout: Layout) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return for both axes what a line counts, and the number after the last.

    Of a sheet it is channels that are counted, of which rows may have several.
    """
    if isinstance(layout, Sheet):
        per_row = layout.shape[0] // layout.down
        down = per_row / layout.pitch[0], layout.shape[0]
        return down, (1 / layout.pitch[1], layout.across)
    return (1.0, layout.rows), (1.0, layout.columns)


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
        counted = [value * scale for value in values]
        return [f"{round(value):,}" if 0 <= value < end else "" for value in counted]


class CountAxis(IndexAxis):
    """An axis of counts; on a logarithmic one only the powers of ten are written."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick."""
        if not self.logMode:
            return super().tickStrings(values, scale, spacing)
        return [f"{10 ** round(v):,}" if v >= 0 and v == round(v) else "" for v in values]
