"""The language and the number format of the window."""

import pytest
from PySide6.QtCore import QLocale

from prune_gui.gui.runtime.locale import language_of, numbers_of, without_mnemonics


@pytest.mark.parametrize(
    ("locale", "code"),
    [("en_GB", "en"), ("zh_CN", "zh_CN"), ("zh_SG", "zh_CN"), ("zh_TW", "en"), ("eo", "en")],
)
def test_the_systems_language_is_used_if_it_is_available(locale, code):
    assert language_of(QLocale(locale)) == code


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ("en_GB", "1,234.5"),
        ("de_DE", "1.234,5"),
        ("fa_IR", "1,234.5"),
        ("ar_EG", "1,234.5"),
        ("mr_IN", "1,234.5"),
    ],
)
def test_numbers_have_latin_digits_and_matching_separators(locale, shown):
    assert numbers_of(QLocale(locale)).toString(1234.5) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [("&Open…", "Open"), ("打开(&O)…", "打开"), ("撤销(&U) a (b)", "撤销 a (b)"), ("Fit", "Fit")],
)
def test_plain_text_has_no_mnemonic(text, said):
    assert without_mnemonics(text) == said
