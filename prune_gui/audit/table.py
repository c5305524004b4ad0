"""A table for export as CSV or TSV, with integers and doubles in full precision."""

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


SIGNS: Final = r"=+\-@\t\r\n＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋−"  # noqa: RUF001 - these are meant
IGNORED: Final = r"\s'\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
FORMULA: Final = re.compile(f"[{IGNORED}]*[{SIGNS}]")
"""The beginning of a text that a spreadsheet runs as a formula, maybe after it has normalized the
text: replaced other forms of the signs, and removed what is invisible and apostrophes."""


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Columns of equal length.

    Attributes:
        title: the title of the table.
        columns: the columns by heading, from left to right; None is an empty cell.
    """

    title: str
    columns: Mapping[str, Sequence[Cell] | NDArray[Any]]

    @property
    def headers(self) -> tuple[str, ...]:
        """The headings, from left to right."""
        return tuple(self.columns)

    @property
    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """The rows, from top to bottom."""
        columns = [
            column.tolist() if isinstance(column, np.ndarray) else column
            for column in self.columns.values()
        ]
        return zip(*columns, strict=True)

    def to_csv(self, separator: Literal[",", "\t"] = ",") -> str:
        """Return the table as CSV (RFC 4180), headings first; doubles as Python's `repr`.

        A text that a spreadsheet may run as a formula (it begins with =, +, -, @, another form of
        these, or a line break) gets a leading apostrophe. So does a text that begins with spaces
        and apostrophes followed by such a character: removing the first apostrophe always restores
        the text.
        """
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator)
        writer.writerow(self.headers)
        writer.writerows(map(_as_text, row) for row in self.rows)
        return text.getvalue()


def _as_text(cell: Cell) -> Cell:
    """Return a cell for a file: texts that look like formulas are escaped, others unchanged."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
