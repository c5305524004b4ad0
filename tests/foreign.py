"""A language that nobody speaks, in which what was not translated stands out."""

from __future__ import annotations

import re
from gettext import NullTranslations

FIELD_OR_LETTER = re.compile(r"\{.*?\}|[A-Za-z]")
TO_WIDE = 0xFEE0
"""From a letter to its full-width form, in Unicode."""
NARROW = re.compile(r"[a-z]+( [a-z]+){2,}")
"""Three words in a row that are not of this language, nor the name of anything."""


def foreign(message: str) -> str:
    """Return a message in that language: in brackets, with wide letters, its fields as they are."""
    return f"⟦{FIELD_OR_LETTER.sub(_wide, message)}⟧"


def _wide(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("{") else chr(ord(found[0]) + TO_WIDE)


def is_foreign(text: str) -> bool:
    """Tell whether a text is in that language as a whole, names and numbers in it aside."""
    whole = text.startswith("⟦") and text.endswith("⟧") and text.count("⟦") == text.count("⟧")
    return whole and NARROW.search(text) is None


class Foreign(NullTranslations):
    """The catalogue of that language: it knows every message."""

    def gettext(self, message: str) -> str:
        return foreign(message)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return foreign(one if count == 1 else many)
