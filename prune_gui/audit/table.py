"""A table as other programs read it: whole numbers and doubles in full, one row per thing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Cell = str | int | float | bool | None


FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""How a text begins that a spreadsheet takes for a formula, or that has been marked as none."""


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Columns of equal length.

    Attributes:
        title: what it is about.
        columns: by heading, from the left; None in a cell is nothing.
    """

    title: str
    columns: Mapping[str, Sequence[Cell] | NDArray[Any]]

    @property
    def headers(self) -> tuple[str, ...]:
        """The headings, from the left."""
        return tuple(self.columns)

    @property
    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """The rows, from the top."""
        columns = [
            column.tolist() if isinstance(column, np.ndarray) else column
            for column in self.columns.values()
        ]
        return zip(*columns, strict=True)

    def to_csv(self, separator: Literal[",", "\t"] = ",") -> str:
        """Return the table as RFC 4180 has it, headings first; a double is as Python writes it.

        A text that a spreadsheet would run as a formula (it begins with =, +, -, @, a tab or a
        carriage return) has an apostrophe before it, and so has one that begins with apostrophes
        and goes on like that: without the first apostrophe it is the text again.
        """
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator)
        writer.writerow(self.headers)
        writer.writerows(map(_as_text, row) for row in self.rows)
        return text.getvalue()


def _as_text(cell: Cell) -> Cell:
    """Return a cell of a file: a text that no spreadsheet runs, or the number as it is."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
