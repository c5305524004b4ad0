"""How a parameter of any number of dimensions is laid flat to be looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Plane:
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
    def flattened(cls, shape: tuple[int, ...]) -> Plane:
        """Lay all entries flat: dim 0 down, all others across; 0-d and 1-d become one row."""
        rows = shape[0] if len(shape) > 1 else 1
        columns = math.prod(shape[1:] if len(shape) > 1 else shape)
        return cls(shape, rows, columns, columns)

    @classmethod
    def section(
        cls, shape: tuple[int, ...], row_dim: int, column_dim: int, at: Sequence[int]
    ) -> Plane:
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
    def transposed(self) -> Plane:
        """The same entries with rows for columns."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            row_stride=self.column_stride,
            column_stride=self.row_stride,
        )

    def flat(self, row: int, column: int) -> int:
        """Return the flat index of an entry."""
        return self.first + row * self.row_stride + column * self.column_stride

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an entry along every dimension of the parameter."""
        left, found = self.flat(row, column), []
        for size in reversed(self.shape):
            left, place = divmod(left, size)
            found.append(place)
        return tuple(reversed(found))
