import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.table import FORMULA, Table

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
