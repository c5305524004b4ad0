"""What the program says in each language."""

import ast
import io
from string import Formatter

import pytest
import translate
from babel.messages.mofile import write_mo
from foreign import foreign
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.language import (
    LANGUAGES,
    SOURCE,
    clauses,
    items,
    language,
    later,
    number,
    tr,
    trn,
    use_language,
)

CODES = [code for code in LANGUAGES if code != SOURCE]
MODULES = sorted((translate.ROOT / "prune_gui").rglob("*.py"))


@pytest.fixture(autouse=True)
def _english_again():
    yield
    use_language(SOURCE)


def fields(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def forms(message):
    """Return each form of a message beside each of its translations."""
    ids = message.id if message.pluralizable else (message.id,)
    strings = message.string if message.pluralizable else (message.string,)
    return [(one, other) for one in ids for other in strings]


def is_message(node):
    """Tell whether a node of a syntax tree says a message."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return named and node.func.id in translate.KEYWORDS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_message_is_written_where_it_can_be_found(path):
    """A message is a whole literal, and in no f-string; else it is taken from elsewhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = [call for call in ast.walk(tree) if is_message(call)]
    for call in told:
        messages = call.args[: 2 if call.func.id == "trn" else 1]
        for part in (part for one in messages for part in ast.walk(one) if part not in messages):
            assert not isinstance(getattr(part, "value", None), str), ast.unparse(call)
    joined = [string for string in ast.walk(tree) if isinstance(string, ast.JoinedStr)]
    assert [ast.unparse(part) for one in joined for part in ast.walk(one) if is_message(part)] == []


@pytest.mark.parametrize("code", CODES)
def test_every_message_of_the_program_is_translated_and_no_other(code):
    catalogue = translate.read(translate.TRANSLATIONS / f"{code}.po")
    wanted = {message.id for message in translate.found() if message.id}
    assert {message.id for message in catalogue if message.id} == wanted
    untold = [m.id for m in catalogue if m.id and not all(other for _, other in forms(m))]
    assert untold == []


@pytest.mark.parametrize("code", CODES)
def test_a_translation_has_the_fields_and_the_key_of_its_message(code):
    for message in translate.read(translate.TRANSLATIONS / f"{code}.po"):
        for one, other in forms(message) if message.id else ():
            assert fields(other) - {"count"} == fields(one) - {"count"}, one
            assert other.count("&") == one.count("&"), one


@pytest.mark.parametrize("code", CODES)
def test_the_shipped_catalogue_is_the_one_that_can_be_edited(code):
    path = translate.TRANSLATIONS / f"{code}.po"
    compiled = io.BytesIO()
    write_mo(compiled, translate.read(path))
    assert path.with_suffix(".mo").read_bytes() == compiled.getvalue()


def test_english_needs_no_catalogue():
    assert tr("Open") == later("Open") == "Open"
    assert trn("{count} step of {name}", "{count} steps of {name}", 1, name="a") == "1 step of a"
    assert trn("{count:,} step", "{count:,} steps", 1234) == "1,234 steps"


@pytest.mark.parametrize("code", LANGUAGES)
def test_of_nothing_there_is_nothing_to_say(code):
    use_language(code)
    assert tr("") == ""


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_language_in_use_can_be_asked_for(code):
    use_language(code)
    assert language() == code


@pytest.mark.usefixtures("foreign_language")
def test_what_was_put_off_is_said_in_the_language_of_when_it_is_shown():
    said = later("{count:,} entries of {name!r}", count=1234, name="{name}")
    assert said == "1,234 entries of '{name}'"
    assert tr(said) == foreign("{count:,} entries of {name!r}").format(count=1234, name="{name}")
    assert tr(later("Open")) == foreign("Open")
    assert tr("{name}", name=tr(said)) == foreign("{}").format(tr(said))


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_have_the_signs_of_the_locale_and_nothing_else_changes(value):
    use_language(SOURCE)
    english = tr("{value:,} of a,b.c {name}", value=value, name="1,5.weight")
    use_language(SOURCE, group="\u202f", point=",")
    here = tr("{value:,} of a,b.c {name}", value=value, name="1,5.weight")
    shown, rest = english.split(" of ", 1)
    shown = shown.replace(",", "\u202f").replace(".", ",")
    assert here == f"{shown} of {rest}"
    assert number(value) == shown


def test_items_and_clauses_are_told_apart_where_a_language_does():
    texts = ["a", "", "b", "c"]
    assert items(texts) == clauses(texts) == "a, b, c"
    assert items([]) == clauses([""]) == ""
    use_language("zh_CN")
    assert items(texts) == "a、b、c"
    assert clauses(texts) == "a，b，c"  # noqa: RUF001
