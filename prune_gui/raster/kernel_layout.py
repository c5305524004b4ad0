"""A layout that shows all kernels of a convolution side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.raster.slice_layout import GAP


@dataclass(frozen=True, slots=True)
class KernelLayout:
    """Rows and columns of kernels, with a gap of one row or column between them.

    A kernel has the dimensions after the first two: its last dimension runs across, the others run
    down.

    Attributes:
        shape: the shape of the parameter.
        down: number of kernels in a column of the grid.
        across: number of kernels in a row of the grid.
        height: rows of a kernel.
        width: columns of a kernel.
    """

    shape: tuple[int, ...]
    down: int
    across: int
    height: int
    width: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> KernelLayout | None:
        """Return the layout of a parameter, or None if it is better shown as a matrix.

        Output channels run down and input channels across. If there is only one input channel, as
        in a depthwise convolution, the kernels are arranged as nearly square as possible.
        """
        if len(shape) < 3 or math.prod(shape[2:]) <= 1 or shape[1] == shape[-1] == 1:
            return None
        across = shape[1] if shape[1] > 1 else _squarest(shape[0])
        height, width = math.prod(shape[2:-1]), shape[-1]
        return cls(shape, shape[0] * shape[1] // across, across, height, width)

    @property
    def rows(self) -> int:
        """The number of rows, gaps included."""
        return self.down * self.pitch[0] - (self.pitch[0] - self.height)

    @property
    def columns(self) -> int:
        """The number of columns, gaps included."""
        return self.across * self.pitch[1] - (self.pitch[1] - self.width)

    @property
    def pitch(self) -> tuple[int, int]:
        """Distance (rows, columns) from one kernel to the next; a side of length 1 has no gap."""
        return self.height + (self.height > 1), self.width + (self.width > 1)

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each row in `rows`, or `GAP` between kernels."""
        kernel, line = np.divmod(np.arange(rows.start, rows.stop), self.pitch[0])
        return np.where(
            line < self.height,
            kernel * (self.across * self.height * self.width) + line * self.width,
            GAP,
        )

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each column in `columns`, or `GAP` between kernels."""
        kernel, line = np.divmod(np.arange(columns.start, columns.stop), self.pitch[1])
        return np.where(line < self.width, kernel * (self.height * self.width) + line, GAP)

    def holds(self, row: int, column: int) -> bool:
        """Return whether there is an element at (row, column)."""
        inside = 0 <= row < self.rows and 0 <= column < self.columns
        return inside and row % self.pitch[0] < self.height and column % self.pitch[1] < self.width

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of the element at (row, column)."""
        row_offset = self.row_offsets(range(row, row + 1))[0]
        column_offset = self.column_offsets(range(column, column + 1))[0]
        return int(row_offset + column_offset)

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of the element at (row, column), one number per dimension."""
        return tuple(map(int, np.unravel_index(self.flat(row, column), self.shape)))


def _squarest(size: int) -> int:
    """Return the smallest divisor of `size` that is at least its square root."""
    return next(d for d in range(max(1, math.isqrt(size - 1) + 1), size + 1) if size % d == 0)
