"""Tables: what each column shows, sorts by and writes to a file; the table as CSV or TSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr

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

        def in_file(cell: Cell) -> Cell:
            return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell

        writer.writerows(map(in_file, row) for row in self.rows)
        return text.getvalue()


Rows = TypeVar("Rows", bound=Sized)
Row = TypeVar("Row")
Values = Sequence[Any] | NDArray[Any]
"""One value per row."""
LAST = 1000
"""Rank in files of a column that comes after all those with a rank."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Column(Generic[Rows]):
    """One column. `Rows` is any collection; rows are counted from 0.

    Attributes:
        title: heading on the screen, to be translated; "" for a column that is only in files.
        text: returns the text of a row on the screen; not called without a title.
        values: returns the value of each row: the sort key, and the cell in a file.
        cell_tip: returns the tool tip of a row, in which names are printable; None for its text.
        descending_first: whether the first click on the heading sorts in descending order.
        bar: returns the length of a bar in each cell, in [0, 1], or NaN; None for no bars.
        file_title: heading in files, to be translated; "" for a column that is only on the screen.
        file_rank: columns in files are ordered by rank; those of equal rank as on the screen.
        file_values: returns the cell of each row in a file; None for `values`.
    """

    title: str = ""
    text: Callable[[Rows, int], str] = lambda _rows, _row: ""
    values: Callable[[Rows], Values]
    tip: str = ""
    cell_tip: Callable[[Rows, int], str] | None = None
    is_number: bool = True
    descending_first: bool = False
    width_px: int | None = None
    bar: Callable[[Rows], NDArray[np.float64]] | None = None
    file_title: str = ""
    file_rank: int = LAST
    file_values: Callable[[Rows], Values] | None = None


def record_column(
    title: str,
    text: Callable[[Row], str],
    value: Callable[[Row], Cell],
    *,
    is_number: bool = True,
    cell_tip: Callable[[Row], str] | None = None,
) -> Column[Sequence[Row]]:
    """Return a column of a sequence of records, with the same title on the screen and in files.

    Args:
        text: returns the text of a record on the screen; "" for an empty cell.
        value: returns the value of a record in a file; None for an empty cell.
        cell_tip: returns the tool tip of a record; None for its text.
    """
    return Column(
        title=title,
        text=lambda rows, row: text(rows[row]),
        values=lambda rows: [value(record) for record in rows],
        cell_tip=None if cell_tip is None else lambda rows, row: cell_tip(rows[row]),
        is_number=is_number,
        file_title=title,
    )


def table_of(
    title: str,
    columns: Iterable[Column[Rows]],
    rows: Rows,
    order: NDArray[np.intp] | None = None,
    *,
    heading: Callable[[str], str] = tr,
) -> Table:
    """Return the table of rows for a file.

    Args:
        columns: the columns; those without a `file_title` are omitted.
        order: the row at each position; None for the order of the rows.
        heading: translates a `file_title`.
    """
    in_file = sorted((c for c in columns if c.file_title), key=lambda column: column.file_rank)
    cells = {heading(c.file_title): (c.file_values or c.values)(rows) for c in in_file}
    if order is not None:
        for name, values in cells.items():
            is_array = isinstance(values, np.ndarray)
            cells[name] = np.asarray(values)[order] if is_array else [values[i] for i in order]
    return Table(title, cells)


def sorted_rows(values: Values, *, descending: bool) -> NDArray[np.intp]:
    """Return the row at each position after a stable sort; None, and NaN in an array, come last."""
    if isinstance(values, np.ndarray):
        return np.argsort(-values if descending else values, kind="stable")
    known = [row for row, value in enumerate(values) if value is not None]
    known.sort(key=values.__getitem__, reverse=descending)
    unknown = [row for row, value in enumerate(values) if value is None]
    return np.array(known + unknown, np.intp)
