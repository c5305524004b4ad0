"""Two-dimensional layouts of a parameter of any number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

GAP = -1
"""Marks a row or column without elements, in place of its offset."""


class ParameterLayout(Protocol):
    """A map between (row, column) and the elements of a parameter.

    The element at (row, column) has the flat (row-major) index
    ``row_offsets[row] + column_offsets[column]``, where neither is `GAP`. Both ascend.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""

    @property
    def rows(self) -> int:
        """The number of rows, gaps included."""

    @property
    def columns(self) -> int:
        """The number of columns, gaps included."""

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each row in `rows`, or `GAP`."""

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each column in `columns`, or `GAP`."""

    def holds(self, row: int, column: int) -> bool:
        """Return whether there is an element at (row, column)."""

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of the element at (row, column)."""

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of the element at (row, column), one number per dimension."""


def flat_span(layout: ParameterLayout, rows: range, columns: range) -> tuple[int, int]:
    """Return the flat indices (start, stop) from the first element of a rectangle to its last."""
    down, across = layout.row_offsets(rows), layout.column_offsets(columns)
    down, across = down[down != GAP], across[across != GAP]
    if not (down.size and across.size):
        return 0, 0
    return int(down[0] + across[0]), int(down[-1] + across[-1]) + 1


MIN_WRAPPED_ELEMENTS = 256
"""A vector with fewer elements is shown as a single row."""


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """A strided layout, for example a two-dimensional slice of a parameter.

    The element at (row, column) has the flat (row-major) index
    ``first + row * row_stride + column * column_stride``.

    Attributes:
        shape: the shape of the parameter.
        rows: number of rows.
        columns: number of columns.
        row_stride: distance in flat indices from one row to the next.
        column_stride: distance in flat indices from one column to the next.
        first: flat index of the element at (0, 0).
    """

    shape: tuple[int, ...]
    rows: int
    columns: int
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
        """Return a layout that wraps a vector into a full rectangle, as square as possible.

        Returns:
            None if the parameter is short or not a vector, or no divisor of its size is suitable.
        """
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
        """Return the layout of a slice along two dimensions.

        Args:
            shape: the shape of the parameter.
            row_dim: the dimension that runs down.
            column_dim: the dimension that runs across; not `row_dim`.
            at: an index per dimension; those of `row_dim` and `column_dim` are ignored.

        Raises:
            ValueError: there is no such slice.
        """
        shown = {row_dim, column_dim}
        if len(shown) != 2 or not shown <= set(range(len(shape))) or len(at) != len(shape):
            raise ValueError(f"no section of {shape} along {row_dim} and {column_dim} at {at}")
        rest = [(at[d], shape[d]) for d in range(len(shape)) if d not in shown]
        if not all(0 <= index < size for index, size in rest):
            raise ValueError(f"{at} lies outside {shape}")
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        return cls(
            shape,
            shape[row_dim],
            shape[column_dim],
            strides[row_dim],
            strides[column_dim],
            sum(at[d] * strides[d] for d in range(len(shape)) if d not in shown),
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

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each row in `rows`; there are no gaps."""
        return self.first + np.arange(rows.start, rows.stop, dtype=np.int64) * self.row_stride

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each column in `columns`; there are no gaps."""
        return np.arange(columns.start, columns.stop, dtype=np.int64) * self.column_stride

    def holds(self, row: int, column: int) -> bool:
        """Return whether there is an element at (row, column)."""
        return 0 <= row < self.rows and 0 <= column < self.columns

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of the element at (row, column)."""
        return self.first + row * self.row_stride + column * self.column_stride

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of the element at (row, column), one number per dimension."""
        return tuple(map(int, np.unravel_index(self.flat(row, column), self.shape)))
