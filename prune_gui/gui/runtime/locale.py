"""The language and the number format of the window: those of the settings, or of the system."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QLibraryInfo, QLocale, QTranslator
from PySide6.QtWidgets import QApplication

from prune_gui.errors import MAX_MESSAGE_CHARS, one_line
from prune_gui.language import LANGUAGES, SOURCE, deferred, tr, use_language

SYSTEM: Final = "system"
TRAILING_MNEMONIC: Final = re.compile(r"\(&\w\)")
"""A mnemonic in brackets after a text, as in Chinese, whose characters no key types."""
QT_TEXTS: Final = {
    "&Look in:": deferred("&Look in:"),
    "Files of &type:": deferred("Files of &type:"),
    "Drive": deferred("Drive"),
    "File": deferred("File"),
    "%1 File": deferred("%1 file"),
    "File Folder": deferred("Folder"),
    "Folder": deferred("Folder"),
    "Unknown": deferred("Unknown type"),
}
"""Texts of Qt's file dialog that Qt's own Chinese translation lacks."""


class _FileDialogTexts(QTranslator):
    """Translates `QT_TEXTS`."""

    def translate(
        self,
        context: str,
        sourceText: str,  # noqa: N803 - as Qt has it
        disambiguation: str | None = None,
        n: int = -1,
    ) -> str:
        """Return the translation; None, for which Qt keeps the text, of any other text."""
        is_known = context in ("QFileDialog", "QAbstractFileIconProvider")
        text = QT_TEXTS.get(sourceText) if is_known else None
        return tr(text) if text else None  # type: ignore[return-value]  # stubs: never None


def set_language(app: QApplication, language: str) -> None:
    """Set the language of the program and of Qt's own dialogs, but the system's number format."""
    system = QLocale.system()
    code = language_of(system) if language == SYSTEM else language
    numbers = numbers_of(system)
    QLocale.setDefault(numbers)
    use_language(code, numbers.groupSeparator(), numbers.decimalPoint())
    if code != SOURCE:
        app.installTranslator(_FileDialogTexts(app))  # asked last, since it is installed first
    translator = QTranslator(app)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if code != SOURCE and translator.load(f"qtbase_{code}", folder):
        app.installTranslator(translator)


def language_of(locale: QLocale) -> str:
    """Return the code of the first language of a locale that is available, else that of English."""
    available = {(QLocale(code).language(), QLocale(code).script()): code for code in LANGUAGES}
    for preferred in (QLocale(name) for name in locale.uiLanguages() if "-" in name):
        code = available.get((preferred.language(), preferred.script()))
        if code is not None:
            return code
    return SOURCE


def numbers_of(locale: QLocale) -> QLocale:
    """Return the locale of shown and typed numbers: `locale` if it has Latin digits, or English.

    Shapes, names and recipes have Latin digits. In a locale with other digits, Qt would mix both,
    and would reject a Latin decimal point.
    """
    return locale if locale.zeroDigit() == "0" else QLocale("en_US")


def escape_mnemonics(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return a text of at most `limit` characters for an action or a button, with & escaped."""
    return one_line(text, limit).replace("&", "&&")


def without_mnemonics(text: str) -> str:
    """Return a text without mnemonic and trailing ellipsis: "Open" for "&Open…"."""
    return TRAILING_MNEMONIC.sub("", text).replace("&", "").removesuffix("…")
