"""All kernels of a convolution side by side, as on a photographer's contact sheet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.raster.slice_layout import GAP, unravelled


@dataclass(frozen=True, slots=True)
class KernelGrid:
    """A grid of small pictures, one per kernel, with a line of no entries between them.

    A kernel is whatever lies beyond the first two dimensions: its last dimension runs across, the
    others run down.

    Attributes:
        shape: of the parameter.
        down: kernels below each other.
        across: kernels side by side.
        height: rows of a kernel.
        width: columns of a kernel.
    """

    shape: tuple[int, ...]
    down: int
    across: int
    height: int
    width: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> KernelGrid | None:
        """Return the sheet of a parameter, or None if it is better seen as a matrix.

        Output channels run down and input channels across. If there is one input channel only, as
        in a depthwise convolution, the kernels make a block about as high as it is wide.
        """
        if len(shape) < 3 or math.prod(shape[2:]) <= 1 or shape[1] == shape[-1] == 1:
            return None
        across = shape[1] if shape[1] > 1 else _squarest(shape[0])
        height, width = math.prod(shape[2:-1]), shape[-1]
        return cls(shape, shape[0] * shape[1] // across, across, height, width)

    @property
    def rows(self) -> int:
        """How many lines lie below each other, those between kernels included."""
        return self.down * self.pitch[0] - (self.pitch[0] - self.height)

    @property
    def columns(self) -> int:
        """How many lines lie side by side, those between kernels included."""
        return self.across * self.pitch[1] - (self.pitch[1] - self.width)

    @property
    def pitch(self) -> tuple[int, int]:
        """How many rows and columns it is from a kernel to the next; single lines need no gap."""
        return self.height + (self.height > 1), self.width + (self.width > 1)

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each of some rows, or `GAP` between kernels."""
        kernel, line = np.divmod(np.arange(rows.start, rows.stop), self.pitch[0])
        return np.where(
            line < self.height,
            kernel * (self.across * self.height * self.width) + line * self.width,
            GAP,
        )

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each of some columns, or `GAP` between kernels."""
        kernel, line = np.divmod(np.arange(columns.start, columns.stop), self.pitch[1])
        return np.where(line < self.width, kernel * (self.height * self.width) + line, GAP)

    def holds(self, row: int, column: int) -> bool:
        """Tell whether there is an entry at a place of the picture."""
        inside = 0 <= row < self.rows and 0 <= column < self.columns
        return inside and row % self.pitch[0] < self.height and column % self.pitch[1] < self.width

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of an entry."""
        down, across = (
            self.row_offsets(range(row, row + 1)),
            self.column_offsets(range(column, column + 1)),
        )
        return int(down[0] + across[0])

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an entry along every dimension of the parameter."""
        return unravelled(self.flat(row, column), self.shape)


def _squarest(size: int) -> int:
    """Return the least divisor that is not below the square root."""
    return next(d for d in range(max(1, math.isqrt(size - 1) + 1), size + 1) if size % d == 0)
