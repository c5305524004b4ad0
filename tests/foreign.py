"""A language that nobody speaks, in which what was not translated stands out."""

from __future__ import annotations

import calendar
import re
from gettext import NullTranslations
from html import unescape

FIELD = re.compile(r"\{[^{}]*\}")
MARKED = re.compile("⟦[^⟦⟧]*(?:⟧|… *$)")
"""What is translated, be it cut short at the end for want of room."""
TAG = re.compile(r"</?[a-z][^<>]*>")
UNIT = re.compile(r"(?<=\d )(?:[kMGT]|[kMGTP]?B)\b|^ MB$")
KEYS = re.compile(
    r"\s*\(?(?:(?:Ctrl|Shift|Alt)\+)*(?:[A-Z,]|F\d+|Esc|Del|Return|Space|Up|Down|PgUp|PgDown)\)?"
)
WORD = re.compile(r"[^\W\d_]\w*")
NARROW = re.compile(r"[a-z]+( [a-z]+){2,}")
"""Three words in a row, which are the name of nothing."""
NAMES = ("Prune GUI", *calendar.month_name[1:], "|w|", "inf", "nan")
"""What is the same in every language, or what a language writes as it likes."""


def foreign(message: str) -> str:
    """Return a message in that language: marked, whatever fills it in outside of the marks."""
    return f"⟦{FIELD.sub(lambda field: f'⟧{field[0]}⟦', message)}⟧"


def untranslated(text: str, *names: str) -> list[str]:
    """Return the words of a text, other than names in it, that are not of that language."""
    text = unescape(TAG.sub("", MARKED.sub(" ", text)))
    if KEYS.fullmatch(text):
        return []
    known = "|".join(map(re.escape, sorted((*NAMES, *names), key=len, reverse=True)))
    return WORD.findall(UNIT.sub("", re.sub(rf"(?<!\w)(?:{known})(?!\w)", " ", text)))


def is_foreign(text: str) -> bool:
    """Tell whether a text is in that language as a whole, whatever names are in it."""
    whole = text.startswith("⟦") and text.endswith("⟧")
    return whole and NARROW.search(MARKED.sub("", text)) is None


class Foreign(NullTranslations):
    """The catalogue of that language: it knows every message."""

    def gettext(self, message: str) -> str:
        return foreign(message)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return foreign(one if count == 1 else many)
