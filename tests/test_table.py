"""Tables, and numbers of bytes, as text."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.number_formats import parse_bytes, short_bytes
from prune_gui.table import FORMULA, Column, Table, record_column, sorted_rows, table_of

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TEXTS = PLAIN | st.builds("{}{}".format, st.text(st.sampled_from("'=+-@\t\r")), PLAIN)


def unmarked(text: str) -> str:
    """Return a text without the apostrophe that keeps a spreadsheet from running it."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


@given(
    st.lists(st.tuples(TEXTS, st.integers(), st.floats(allow_nan=False))),
    st.sampled_from([",", "\t"]),
)
def test_a_table_survives_csv_to_the_last_bit(rows, separator):
    names, whole, real = zip(*rows, strict=True) if rows else ((), (), ())
    table = Table("any", {"a name": names, "a,b": list(whole), 'say "x"': list(real)})
    text = table.to_csv(separator)
    headers, *found = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    assert headers == ["a name", "a,b", 'say "x"']
    assert [(unmarked(name), int(i), float(x)) for name, i, x in found] == rows
    assert not any(name.startswith(FORMULAS) for name, _, _ in found)


def test_arrays_become_plain_numbers_and_none_becomes_an_empty_cell():
    columns = {"x": np.array([0.1, math.nan]), "n": np.array([1 << 60, 2]), "m": [None, "é"]}
    assert Table("any", columns).to_csv() == f"x,n,m\r\n0.1,{1 << 60},\r\nnan,2,é\r\n"


def test_columns_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match="argument 2"):
        Table("any", {"a": [1], "b": [1, 2]}).to_csv()


@pytest.mark.parametrize("sign", "=+-@\t\r\n＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋−")  # noqa: RUF001 - these are meant
@pytest.mark.parametrize(
    "before", ["", " ", "\t", "'", "\xa0", "\ufeff", "\u200b", "\x00", " ' \n"]
)
def test_a_name_that_is_a_formula_is_text_in_a_spreadsheet(sign, before):
    name = f"{before}{sign}1+1"
    [[cell, number]] = list(
        csv.reader(Table("any", {"name": [name], "x": [-1]}).to_csv().split("\r\n", 1)[1:])
    )
    assert (cell, number) == (f"'{name}", "-1")


def test_usual_names_are_unchanged():
    assert Table("any", {"name": ["a.b", "'a'", "_x"]}).to_csv() == "name\r\na.b\r\n'a'\r\n_x\r\n"


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


@pytest.mark.parametrize(
    ("text", "count"),
    [("500MB", 500 * 10**6), ("2 GiB", 2 << 30), ("1.5gb", 1_500_000_000), ("7B", 7)],
)
def test_a_size_is_read_with_decimal_and_binary_units(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "5", "GB", "5 apples", "-1GB", "0GB", "1e3MB", "0.1B"])
def test_an_invalid_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="is not a size such as 500MB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (999_499, "999 kB"), (999_500, "1 MB"),
     (362_128, "362 kB"), (7_642_181_920, "7.64 GB")],
)  # fmt: skip
def test_a_count_is_shown_with_three_digits(count, text):
    assert short_bytes(count) == text


def test_a_count_is_shown_with_the_decimal_separator_of_the_locale(monkeypatch):
    monkeypatch.setattr("prune_gui.language._numbers.separators", {ord("."): ","})
    assert short_bytes(7_642_181_920) == "7,64 GB"
    assert short_bytes(1) == "1 byte"


@given(st.integers(1000, 10**17))
def test_a_formatted_count_parses_back_to_about_the_count(count):
    text = short_bytes(count)
    if not text.endswith("PB"):
        assert parse_bytes(text) == pytest.approx(count, rel=0.006)
