"""How a parameter of any number of dimensions is laid flat to be looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

GAP = -1
"""In the place of an offset: no entry of the parameter lies on this line."""


class ParameterLayout(Protocol):
    """Where the entries of a parameter lie in a picture.

    The entry at (row, column) has the flat (row-major) index
    ``row_offsets[row] + column_offsets[column]``, where neither is `GAP`. Both ascend.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter."""

    @property
    def rows(self) -> int:
        """How many lines lie below each other."""

    @property
    def columns(self) -> int:
        """How many lines lie side by side."""

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each of some rows, or `GAP`."""

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each of some columns, or `GAP`."""

    def holds(self, row: int, column: int) -> bool:
        """Tell whether there is an entry at a place of the picture."""

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of an entry."""

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an entry along every dimension of the parameter."""


WRAPPED_FROM = 256
"""Entries from which on a single row is too fine to be read."""


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """A rectangle of a parameter's entries, as the flat (row-major) index of each.

    The entry at (row, column) is ``first + row * row_stride + column * column_stride``.

    Attributes:
        shape: of the parameter.
        rows: how many.
        columns: how many.
        row_stride: flat distance from a row to the next.
        column_stride: likewise of columns.
        first: flat index of the corner.
    """

    shape: tuple[int, ...]
    rows: int
    columns: int
    row_stride: int
    column_stride: int = 1
    first: int = 0

    @classmethod
    def flattened(cls, shape: tuple[int, ...]) -> SliceLayout:
        """Lay all entries flat: dim 0 down, all others across; 0-d and 1-d become one row."""
        rows = shape[0] if len(shape) > 1 else 1
        columns = math.prod(shape[1:] if len(shape) > 1 else shape)
        return cls(shape, rows, columns, columns)

    @classmethod
    def wrapped(cls, shape: tuple[int, ...]) -> SliceLayout | None:
        """Wrap one long row into a block about as high as it is wide, without a rest.

        Returns:
            None if the parameter is short, has not one dimension, or no width comes near that.
        """
        size = math.prod(shape)
        if len(shape) != 1 or size < WRAPPED_FROM:
            return None
        side = math.isqrt(size)
        widths = (width for width in range(side, 4 * side) if size % width == 0)
        width = next(widths, None)
        return None if width is None else cls(shape, size // width, width, width)

    @classmethod
    def section(
        cls, shape: tuple[int, ...], row_dim: int, column_dim: int, at: Sequence[int]
    ) -> SliceLayout:
        """Cut along two dimensions.

        Args:
            shape: of the parameter.
            row_dim: the dimension that runs down.
            column_dim: the one that runs across; another one.
            at: an index along every dimension; those along the two do not matter.

        Raises:
            ValueError: there is no such section.
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
        """The same entries with rows for columns."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            row_stride=self.column_stride,
            column_stride=self.row_stride,
        )

    def row_offsets(self, rows: range) -> NDArray[np.int64]:
        """Return the offset of each of some rows; there is no gap."""
        return self.first + np.arange(rows.start, rows.stop, dtype=np.int64) * self.row_stride

    def column_offsets(self, columns: range) -> NDArray[np.int64]:
        """Return the offset of each of some columns; there is no gap."""
        return np.arange(columns.start, columns.stop, dtype=np.int64) * self.column_stride

    def holds(self, row: int, column: int) -> bool:
        """Tell whether there is an entry at a place."""
        return 0 <= row < self.rows and 0 <= column < self.columns

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of an entry."""
        return self.first + row * self.row_stride + column * self.column_stride

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an entry along every dimension of the parameter."""
        return unravelled(self.flat(row, column), self.shape)


def unravelled(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index along every dimension of the entry of a flat (row-major) index."""
    left, found = flat, []
    for size in reversed(shape):
        left, place = divmod(left, size)
        found.append(place)
    return tuple(reversed(found))
