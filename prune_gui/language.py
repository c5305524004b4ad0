"""What the program says to a person, in the language and with the numbers of that person.

Messages are written in English where they arise, inside `tr` or `trn`; `packaging/translate.py`
finds them there, and `resources/translations` holds them in other languages. What programs read
(recipes, JSON, metadata, the log) is never translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from gettext import GNUTranslations, NullTranslations
from string import Formatter
from typing import Final

from prune_gui.resources import resource

SOURCE: Final = "en"
LANGUAGES: Final = {SOURCE: "English", "zh_CN": "简体中文"}
"""Codes of languages that the program speaks, and what each calls itself."""


class _Numbers(Formatter):
    """Fills in numbers with the signs of a locale in place of English ones."""

    def __init__(self) -> None:
        self.signs: dict[int, str] = {}

    def format_field(self, value: object, format_spec: str) -> str:
        text = format(value, format_spec)
        return text.translate(self.signs) if isinstance(value, int | float) else text


class _Later(str):
    """A message filled in in English, which knows what from."""

    __slots__ = ("fields", "message")

    message: str
    fields: dict[str, object]


_numbers = _Numbers()
_messages: NullTranslations = NullTranslations()


def use_language(code: str, group: str = ",", point: str = ".") -> None:
    """Say everything in a language from now on.

    Args:
        code: one of `LANGUAGES`.
        group: the sign between groups of three digits, in this person's locale.
        point: the decimal sign.
    """
    global _messages
    _numbers.signs = str.maketrans({",": group, ".": point})
    if code == SOURCE:
        _messages = NullTranslations()
    else:
        with resource("translations", f"{code}.mo").open("rb") as catalogue:
            _messages = GNUTranslations(catalogue)


def language() -> str:
    """Return the code of the language in use."""
    return _messages.info().get("language", SOURCE)


def tr(message: str, **fields: object) -> str:
    """Return a message in the language in use, with ``{fields}`` filled in as by `str.format`.

    What `later` has filled in says the same in that language, with the same fields.
    """
    if isinstance(message, _Later):
        fields, message = message.fields, message.message
    # A catalogue has what it says of itself under the empty message.
    return _filled(_messages.gettext(message), fields) if message else ""


def trn(one: str, many: str, count: int, **fields: object) -> str:
    """Return the form of a message that goes with a count, which is its ``{count}``."""
    return _filled(_messages.ngettext(one, many, count), {"count": count, **fields})


def later(message: str, **fields: object) -> str:
    """Return a message in English, with ``{fields}`` filled in; `tr` gets it when it is shown."""
    if not fields:
        return message
    filled = _Later(message.format_map(fields))
    filled.message, filled.fields = message, fields
    return filled


def number(value: float, spec: str = ",") -> str:
    """Return a number as a person reads it: 1,234,567 unless `spec` says otherwise."""
    return _numbers.format_field(value, spec)


def items(texts: Iterable[str]) -> str:
    """Return texts, but for empty ones, as the items of a list: "a, b, c", in Chinese "a、b、c"."""
    return _row(texts, lambda row, text: tr("{items}, {item}", items=row, item=text))


def clauses(texts: Iterable[str]) -> str:
    """Return texts, but for empty ones, as the clauses of a sentence: "a, b, c"."""
    return _row(texts, lambda row, text: tr("{clauses}, {clause}", clauses=row, clause=text))


def _row(texts: Iterable[str], add: Callable[[str, str], str]) -> str:
    some = list(filter(None, texts))
    return reduce(add, some) if some else ""


def _filled(message: str, fields: dict[str, object]) -> str:
    return _numbers.vformat(message, (), fields) if fields else message
