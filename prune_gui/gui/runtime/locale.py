"""The language of the window: that of the user's choice, or of the system."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QLibraryInfo, QLocale, QTranslator
from PySide6.QtWidgets import QApplication

from prune_gui.errors import LONGEST, one_line
from prune_gui.language import LANGUAGES, SOURCE, use_language

SYSTEM: Final = "system"
KEY_BEHIND: Final = re.compile(r"\(&\w\)")
"""A mnemonic behind a text whose own signs no key types, as in Chinese."""


def speak(app: QApplication, language: str) -> None:
    """Have the program, and Qt's own dialogs, speak a language from now on.

    Numbers are those of the system's locale, as it is for them that people set one; see
    `numbers_of`.

    Args:
        app: what Qt's own texts are for.
        language: a code of `LANGUAGES`, or "system".
    """
    system = QLocale.system()
    code = language_of(system) if language == SYSTEM else language
    numbers = numbers_of(system)
    QLocale.setDefault(numbers)
    use_language(code, numbers.groupSeparator(), numbers.decimalPoint())
    translator = QTranslator(app)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if code != SOURCE and translator.load(f"qtbase_{code}", folder):
        app.installTranslator(translator)


def language_of(locale: QLocale) -> str:
    """Return the code of the language that comes first in a locale and that the program speaks."""
    for spoken in (QLocale(name) for name in locale.uiLanguages() if "-" in name):
        for code in LANGUAGES:
            known = QLocale(code)
            if (spoken.language(), spoken.script()) == (known.language(), known.script()):
                return code
    return SOURCE


def numbers_of(locale: QLocale) -> QLocale:
    """Return the locale that numbers are shown and typed in: the one given, or else English.

    Shapes, names and recipes have Latin digits. Where others are usual, Qt would mix both, and
    read a Latin point in a number as no part of it.
    """
    return locale if locale.zeroDigit() == "0" else QLocale("en_US")


def literal(text: str, most: int = LONGEST) -> str:
    """Return a text from a file as that of an action or a button, where & would begin a key."""
    return one_line(text, most).replace("&", "&&")


def plain(text: str) -> str:
    """Return the text of an action or a label as a person says it: "Open" for "&Open…"."""
    return KEY_BEHIND.sub("", text).replace("&", "").removesuffix("…")
