"""A test language that marks translated text, so that untranslated text is detectable."""

from __future__ import annotations

import calendar
import re
from gettext import NullTranslations
from html import unescape

from prune_gui.recipe.selector import CONDITION_FIELDS

FIELD = re.compile(r"\{[^{}]*\}")
MARKED = re.compile("⟦[^⟦⟧]*(?:⟧|… *$)")
"""Translated text, possibly elided at the end."""
TAG = re.compile(r"</?[a-z][^<>]*>")
UNIT = re.compile(r"(?<=\d[ \xa0])(?:[kMGT]|[kMGTP]?B)\b|^ MB$")
KEYS = re.compile(
    r"\s*\(?(?:(?:Ctrl|Shift|Alt)\+)*(?:[A-Z,]|F\d+|Esc|Del|Return|Space|Up|Down|PgUp|PgDown)\)?"
)
WORD = re.compile(r"[^\W\d_¹²³⁰-⁹]\w*")
ENGLISH = re.compile(r"[a-z]+( [a-z]+){2,}")
"""Three lower-case words in a row: English text rather than a name."""
CONDITIONS = tuple(field.example for field in CONDITION_FIELDS.values())
NAMES = ("Prune GUI", *calendar.month_name[1:], "|w|", "inf", "nan", *CONDITIONS)
"""Words that are the same in every language, or come from the locale."""


def foreign(message: str) -> str:
    """Return a message in the test language: marked, with its fields outside the marks."""
    return f"⟦{FIELD.sub(lambda field: f'⟧{field[0]}⟦', message)}⟧"


def untranslated(text: str, *names: str) -> list[str]:
    """Return the words of a text that are neither translated nor among `names`."""
    text = unescape(TAG.sub("", MARKED.sub(" ", text)))
    if KEYS.fullmatch(text):
        return []
    pattern = "|".join(map(re.escape, sorted((*NAMES, *names), key=len, reverse=True)))
    return WORD.findall(UNIT.sub("", re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", text)))


def is_foreign(text: str) -> bool:
    """Return whether a whole text is translated; it may contain names."""
    is_marked = text.startswith("⟦") and text.endswith("⟧")
    return is_marked and ENGLISH.search(MARKED.sub("", text)) is None


class Foreign(NullTranslations):
    """The catalogue of the test language; it translates every message that is in English."""

    def gettext(self, message: str) -> str:
        return message if message.startswith("⟦") else foreign(message)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return foreign(one if count == 1 else many)
