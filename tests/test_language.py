"""Messages in each language, and the catalogues of translations."""

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
    deferred,
    format_number,
    join_clauses,
    join_items,
    language,
    listed,
    tr,
    trn,
    use_language,
)

CODES = [code for code in LANGUAGES if code != SOURCE]
IN_ENGLISH = {"cli", "desktop"}
MODULES = sorted((translate.ROOT / "prune_gui").rglob("*.py"))


@pytest.fixture(autouse=True)
def _reset_language():
    yield
    use_language(SOURCE)


def fields(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def forms(message):
    """Return pairs of each form of a message and each of its translations."""
    ids = message.id if message.pluralizable else (message.id,)
    strings = message.string if message.pluralizable else (message.string,)
    return [(source, translation) for source in ids for translation in strings]


def is_message(node):
    """Return whether a node of a syntax tree is a call that holds a message, such as `tr`.

    An error without fields may have a message that is translated already.
    """
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    name = node.func.id
    return name in translate.KEYWORDS or (name in translate.ERRORS and bool(node.keywords))


@pytest.fixture(scope="module")
def nodes():
    """Return the nodes of the syntax tree of each module by its path."""
    return {path: [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))] for path in MODULES}


def test_every_message_is_a_literal_that_can_be_extracted(nodes):
    """A message is one literal, outside f-strings, or a name; not an expression with literals."""
    for path, every in nodes.items():
        for call in filter(is_message, every):
            messages = call.args[: 2 if call.func.id == "trn" else 1]
            parts = {node for arg in messages for node in ast.walk(arg)}.difference(messages)
            texts = [part for part in parts if isinstance(getattr(part, "value", None), str)]
            assert not texts, f"{path}: {ast.unparse(call)}"
        f_strings = [node for node in every if isinstance(node, ast.JoinedStr)]
        inside = [node for f_string in f_strings for node in ast.walk(f_string) if is_message(node)]
        assert not inside, f"{path}: {[ast.unparse(node) for node in inside]}"


def literals(node):
    """Return the texts in an expression that is a literal or an f-string."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return "".join(value for value in values if isinstance(value, str))


def test_no_error_has_words_that_are_not_translated(nodes):
    """Texts of the command line are in English only, as are those of its desktop entries."""
    bases, calls = {}, []
    for path, every in nodes.items():
        for node in every:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {getattr(base, "id", None) for base in node.bases}
            elif isinstance(node, ast.Call) and not {path.parent.name, path.stem} & IN_ENGLISH:
                calls.append(node)
    errors, before = {"PruneGuiError"}, set()
    while errors != before:
        before = errors
        errors = errors | {name for name in bases if not bases[name].isdisjoint(errors)}
    assert {"CheckpointError", "RecipeError", "JobError"} < errors
    errors.add("on_os_error")
    told = [
        arg
        for call in calls
        if (name := getattr(call.func, "id", getattr(call.func, "attr", ""))) in errors
        for arg in call.args
        if isinstance(arg, ast.JoinedStr) or name not in translate.ERRORS  # else it is extracted
    ]
    assert [text for text in map(literals, told) if " " in text.strip()] == []


@pytest.mark.parametrize("code", CODES)
def test_every_message_of_the_program_is_translated_and_no_other(code):
    catalogue = translate.read(translate.TRANSLATIONS / f"{code}.po")
    expected = {message.id for message in translate.found() if message.id}
    assert {message.id for message in catalogue if message.id} == expected
    untranslated = [m.id for m in catalogue if m.id and not all(text for _, text in forms(m))]
    assert untranslated == []


@pytest.mark.parametrize("code", CODES)
def test_a_translation_has_the_fields_and_the_mnemonic_of_its_message(code):
    for message in translate.read(translate.TRANSLATIONS / f"{code}.po"):
        for source, translation in forms(message) if message.id else ():
            assert fields(translation) - {"count"} == fields(source) - {"count"}, source
            assert translation.count("&") == source.count("&"), source


@pytest.mark.parametrize("code", CODES)
def test_the_compiled_catalogue_matches_its_po_file(code):
    path = translate.TRANSLATIONS / f"{code}.po"
    compiled = io.BytesIO()
    write_mo(compiled, translate.read(path))
    assert path.with_suffix(".mo").read_bytes() == compiled.getvalue()


def test_english_needs_no_catalogue():
    assert tr("Open") == deferred("Open") == "Open"
    assert trn("{count} step of {name}", "{count} steps of {name}", 1, name="a") == "1 step of a"
    assert trn("{count:,} step", "{count:,} steps", 1234) == "1,234 steps"


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_current_language_is_returned_and_an_empty_message_stays_empty(code):
    use_language(code)
    assert (language(), tr("")) == (code, "")


@pytest.mark.usefixtures("foreign_language")
def test_a_deferred_message_is_translated_when_it_is_shown():
    message = deferred("{count:,} entries of {name!r}", count=1234, name="{name}")
    assert message == "1,234 entries of '{name}'"
    assert tr(message) == foreign("{count:,} entries of {name!r}").format(count=1234, name="{name}")
    assert tr(deferred("Open")) == foreign("Open")
    assert tr("{name}", name=tr(message)) == foreign("{}").format(tr(message))


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_only_the_separators_of_numbers_change_with_the_locale(value):
    use_language(SOURCE)
    english = tr("{value:,} of a,b.c {name}", value=value, name="1,5.weight")
    use_language(SOURCE, group="\u202f", point=",")
    localized = tr("{value:,} of a,b.c {name}", value=value, name="1,5.weight")
    shown, rest = english.split(" of ", 1)
    shown = shown.replace(",", "\u202f").replace(".", ",")
    assert localized == f"{shown} of {rest}"
    assert format_number(value) == shown


def test_items_and_clauses_have_separators_of_their_own_in_chinese():
    texts = ["a", "", "b", "c"]
    assert join_items(texts) == join_clauses(texts) == "a, b, c"
    assert join_items([]) == join_clauses([""]) == ""
    use_language("zh_CN")
    assert join_items(texts) == "a、b、c"
    assert join_clauses(texts) == "a，b，c"  # noqa: RUF001


def test_a_list_in_a_sentence_contains_the_number_of_omitted_items():
    assert listed(["a", "b", "c", "d"], limit=2) == "a, b and 2 more"
    assert listed([1, 2], "<{}>".format) == "<1>, <2>"
