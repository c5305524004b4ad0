"""Two-dimensional layouts of a parameter of any number of dimensions. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from prune_gui.architecture.projections import Heads

Offsets = NDArray[np.int64]
GAP = -1  # marks a row or column without elements, in place of its offset
MIN_WRAPPED_ELEMENTS = 256  # a vector with fewer elements is shown as a single row


@dataclass(frozen=True, slots=True)
class ParameterLayout:
    """A map between (row, column) and the elements of a parameter.

    The element at (row, column) has the sum of both offsets as its flat (row-major) index, where
    neither is `GAP`. Offsets ascend.
    """

    shape: tuple[int, ...]
    rows: int
    columns: int

    def offsets(self, axis: int, lines: range) -> Offsets:
        """Return the offset of each of some rows (axis 0) or columns (axis 1), or `GAP`."""
        raise NotImplementedError

    def holds(self, row: int, column: int) -> bool:
        """Return whether there is an element at (row, column)."""
        inside = 0 <= row < self.rows and 0 <= column < self.columns
        return inside and GAP not in self._both(row, column)

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of the element at (row, column)."""
        return sum(self._both(row, column))

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of the element at (row, column), one number per dimension."""
        return tuple(map(int, np.unravel_index(self.flat(row, column), self.shape)))

    def position(self, flat: int) -> tuple[int, int] | None:
        """Return the row and column of an element; None if the layout does not show it."""
        down, across = self.offsets(0, range(self.rows)), self.offsets(1, range(self.columns))
        columns = np.flatnonzero(across != GAP)
        rests = np.where(down == GAP, GAP, flat - down)
        nearest = np.searchsorted(across[columns], rests, side="right") - 1
        found = np.flatnonzero(across[columns][nearest] == rests)
        return (int(found[0]), int(columns[nearest[found[0]]])) if found.size else None

    def _both(self, *position: int) -> list[int]:
        return [int(self.offsets(axis, range(at, at + 1))[0]) for axis, at in enumerate(position)]


def flat_span(layout: ParameterLayout, rows: range, columns: range) -> tuple[int, int]:
    """Return the flat indices (start, stop) from the first element of a rectangle to its last."""
    down, across = layout.offsets(0, rows), layout.offsets(1, columns)
    down, across = down[down != GAP], across[across != GAP]
    if not (down.size and across.size):
        return 0, 0
    return int(down[0] + across[0]), int(down[-1] + across[-1]) + 1


@dataclass(frozen=True, slots=True)
class SliceLayout(ParameterLayout):
    """A strided layout without gaps, for example a two-dimensional slice of a parameter."""

    row_stride: int
    column_stride: int = 1
    first: int = 0

    @classmethod
    def flattened(cls, shape: tuple[int, ...]) -> SliceLayout:
        """Return a layout of all elements: dim 0 down, the others across; 0-d and 1-d: one row."""
        rows = shape[0] if len(shape) > 1 else 1
        columns = math.prod(shape[1:] if len(shape) > 1 else shape)
        return cls(shape, rows, columns, columns)

    @classmethod
    def wrapped(cls, shape: tuple[int, ...]) -> SliceLayout | None:
        """Return a layout that wraps a long vector into a full rectangle, as square as possible."""
        size = math.prod(shape)
        if len(shape) != 1 or size < MIN_WRAPPED_ELEMENTS:
            return None
        side = math.isqrt(size)
        widths = (width for width in range(side, 4 * side) if size % width == 0)
        width = next(widths, None)
        return None if width is None else cls(shape, size // width, width, width)

    @classmethod
    def section(
        cls, shape: tuple[int, ...], row_dim: int, column_dim: int, at: Sequence[int]
    ) -> SliceLayout:
        """Return the layout of a slice along two dimensions, at an index of each of the others.

        Raises:
            ValueError: there is no such slice.
        """
        shown = {row_dim, column_dim}
        if len(shown) != 2 or not shown <= set(range(len(shape))) or len(at) != len(shape):
            raise ValueError(f"no section of {shape} along {row_dim} and {column_dim} at {at}")
        rest = [d for d in range(len(shape)) if d not in shown]
        if not all(0 <= at[d] < shape[d] for d in rest):
            raise ValueError(f"{at} lies outside {shape}")
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        return cls(
            shape,
            shape[row_dim],
            shape[column_dim],
            strides[row_dim],
            strides[column_dim],
            sum(at[d] * strides[d] for d in rest),
        )

    @property
    def transposed(self) -> SliceLayout:
        """The same elements with rows and columns swapped."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            row_stride=self.column_stride,
            column_stride=self.row_stride,
        )

    def offsets(self, axis: int, lines: range) -> Offsets:
        """Return the offset of each row or column; none is a gap."""
        first, stride = (0, self.column_stride) if axis else (self.first, self.row_stride)
        return first + np.arange(lines.start, lines.stop, dtype=np.int64) * stride


@dataclass(frozen=True, slots=True)
class KernelLayout(ParameterLayout):
    """All kernels of a convolution side by side, with a gap of one row or column between them.

    A kernel has the dimensions after the first two: its last dimension runs across, the others run
    down. The grid is `down` x `across` kernels of `height` x `width` elements.
    """

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
        across, outputs = shape[1], shape[0]
        if across == 1:  # the smallest divisor that is at least the square root
            sides = range(max(1, math.isqrt(outputs - 1) + 1), outputs + 1)
            across = next(side for side in sides if outputs % side == 0)
        height, width, down = math.prod(shape[2:-1]), shape[-1], shape[0] * shape[1] // across
        rows, columns = _with_gaps(down, height), _with_gaps(across, width)
        return cls(shape, rows, columns, down, across, height, width)

    @property
    def pitch(self) -> tuple[int, int]:
        """Distance (rows, columns) from one kernel to the next; a side of length 1 has no gap."""
        return self.height + (self.height > 1), self.width + (self.width > 1)

    def offsets(self, axis: int, lines: range) -> Offsets:
        """Return the offset of each row or column, or `GAP` between kernels."""
        size, of_kernel, of_line = self.width, self.height * self.width, 1
        if axis == 0:
            size, of_kernel, of_line = self.height, self.across * of_kernel, self.width
        kernel, line = np.divmod(np.arange(lines.start, lines.stop), self.pitch[axis])
        return np.where(line < size, kernel * of_kernel + line * of_line, GAP)


def _with_gaps(kernels: int, length: int) -> int:
    return kernels * length + (kernels - 1) * (length > 1)


@dataclass(frozen=True, slots=True)
class HeadBands:
    """Bands of equal width that cover a layout, of rows or of columns; one per head."""

    are_rows: bool
    width: int
    labels: tuple[str, ...]


def head_bands(heads: Heads | None, layout: ParameterLayout) -> HeadBands | None:
    """Return the bands of heads; None without heads, or if the layout shows them otherwise."""
    if heads is None or layout != SliceLayout.flattened(layout.shape):
        return None
    return HeadBands(heads.dim == 0 and len(layout.shape) > 1, heads.width, heads.labels)
