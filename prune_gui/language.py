"""Messages for the user in the current language, with numbers formatted for the locale.

Messages are written in English at the point of use, as literals inside `tr`, `trn` or `deferred`.
`packaging/translate.py` extracts them; `resources/translations` holds their translations. Text
that programs read (recipes, JSON, metadata, the log) is never translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from gettext import GNUTranslations, NullTranslations
from string import Formatter
from typing import Final, TypeVar

from prune_gui.resources import resource

Item = TypeVar("Item")

SOURCE: Final = "en"
LANGUAGES: Final = {SOURCE: "English", "zh_CN": "简体中文"}
"""Codes of the supported languages, and the name of each in itself."""
MAX_LISTED: Final = 8
"""Items in one sentence; the others are counted."""


class _LocaleFormatter(Formatter):
    """Formats numbers with the separators of a locale instead of the English ones."""

    def __init__(self) -> None:
        self.separators: dict[int, str] = {}

    def format_field(self, value: object, format_spec: str) -> str:
        text = format(value, format_spec)
        return text.translate(self.separators) if isinstance(value, int | float) else text


class _Later(str):
    """An English message with its fields filled in; keeps the message and the fields."""

    __slots__ = ("fields", "message")

    message: str
    fields: dict[str, object]


_numbers = _LocaleFormatter()
_messages: NullTranslations = NullTranslations()


def use_language(code: str, group: str = ",", point: str = ".") -> None:
    """Set the language of all later messages."""
    global _messages
    _numbers.separators = str.maketrans({",": group, ".": point})
    if code == SOURCE:
        _messages = NullTranslations()
    else:
        with resource("translations", f"{code}.mo").open("rb") as catalogue:
            _messages = GNUTranslations(catalogue)


def language() -> str:
    """Return the code of the current language."""
    return _messages.info().get("language", SOURCE)


def tr(message: str, **fields: object) -> str:
    """Return a message in the current language, with ``{fields}`` filled in as by `str.format`.

    A message that `deferred` returned is translated and filled in with the fields it was given.
    """
    if isinstance(message, _Later):
        fields, message = message.fields, message.message
    # A catalogue stores its own metadata under the empty message.
    return _fill_in(_messages.gettext(message), fields) if message else ""


def trn(one: str, many: str, count: int, **fields: object) -> str:
    """Return the singular or plural form of a message for a count, its field ``{count}``."""
    return _fill_in(_messages.ngettext(one, many, count), {"count": count, **fields})


def deferred(message: str, **fields: object) -> str:
    """Return an English message with ``{fields}`` filled in; pass it to `tr` to display it."""
    if not fields:
        return message
    filled = _Later(message.format_map(fields))
    filled.message, filled.fields = message, fields
    return filled


def format_number(value: float, spec: str = ",") -> str:
    """Format a number for the locale: 1,234,567 unless `spec` says otherwise."""
    return _numbers.format_field(value, spec)


def merged(notes: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Return the names of each note of some targets by name, and the note."""
    by_text: dict[str, list[str]] = {}
    for name, note in notes.items():
        by_text.setdefault(note, []).append(name)
    return [(names, text) for text, names in by_text.items()]


def join_items(texts: Iterable[str]) -> str:
    """Join the non-empty texts as items of a list: "a, b, c", in Chinese "a、b、c"."""
    joined = ""
    for text in filter(None, texts):
        joined = tr("{items}, {item}", items=joined, item=text) if joined else text
    return joined


def join_clauses(texts: Iterable[str]) -> str:
    """Join the non-empty texts as clauses of a sentence: "a, b, c"."""
    joined = ""
    for text in filter(None, texts):
        joined = tr("{clauses}, {clause}", clauses=joined, clause=text) if joined else text
    return joined


def suggestion(name: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """Return a question to put after an unknown name, " (did you mean X?)"; "" if none is near.

    The case of letters does not count. `likeness` is the least ratio of `difflib` that is near.
    """
    from difflib import get_close_matches  # needed after typing errors only

    by_lower = {one.lower(): one for one in names}
    found = get_close_matches(name.lower(), by_lower, 1, likeness)
    return tr(" (did you mean {name}?)", name=by_lower[found[0]]) if found else ""


def listed(
    values: Sequence[Item], format_item: Callable[[Item], str] = str, limit: int = MAX_LISTED
) -> str:
    """Return the first few values as a list for a sentence, with the number of the others."""
    names, omitted = join_items(map(format_item, values[:limit])), len(values) - limit
    return tr("{names} and {more:,} more", names=names, more=omitted) if omitted > 0 else names


def _fill_in(message: str, fields: dict[str, object]) -> str:
    return _numbers.vformat(message, (), fields) if fields else message
