import numpy as np
import pytest

from prune_gui.audit.column import Column, record_column, sorted_rows, table_of

RECORDS = (("b", 2.0), ("a", 1.0))
COLUMNS = (
    record_column("Name", lambda record: record[0].upper(), lambda record: record[0]),
    Column(values=lambda rows: np.array([size for _, size in rows]), file_title="size"),
    Column(title="Drawn", values=lambda rows: [size for _, size in rows]),
)


def test_a_file_has_the_values_of_the_columns_with_a_file_title():
    assert table_of("any", COLUMNS, RECORDS).to_csv() == "Name,size\r\nb,2.0\r\na,1.0\r\n"


def test_rows_of_a_file_follow_the_given_order_and_columns_their_rank():
    first = Column(values=len, file_values=lambda _: [7, 8], file_title="first", file_rank=0)
    table = table_of("any", (*COLUMNS, first), RECORDS, np.array([1, 0]), heading=str.upper)
    assert table.to_csv() == "FIRST,NAME,SIZE\r\n8,a,1.0\r\n7,b,2.0\r\n"


@pytest.mark.parametrize(
    ("values", "ascending", "descending"),
    [
        (["b", "a", "b", "c"], [1, 0, 2, 3], [3, 0, 2, 1]),
        (np.array([2.0, np.nan, 1.0, 2.0]), [2, 0, 3, 1], [0, 3, 2, 1]),
    ],
)
def test_sorting_is_stable_in_both_directions_and_puts_nan_last(values, ascending, descending):
    assert sorted_rows(values, descending=False).tolist() == ascending
    assert sorted_rows(values, descending=True).tolist() == descending
