"""The language of the window."""

import pytest
from PySide6.QtCore import QLocale

from prune_gui.gui.speech import language_of, plain


@pytest.mark.parametrize(
    ("locale", "code"),
    [("en_GB", "en"), ("zh_CN", "zh_CN"), ("zh_SG", "zh_CN"), ("zh_TW", "en"), ("eo", "en")],
)
def test_the_systems_language_is_spoken_if_the_program_knows_it(locale, code):
    assert language_of(QLocale(locale)) == code


@pytest.mark.parametrize(
    ("text", "said"),
    [("&Open…", "Open"), ("打开(&O)…", "打开"), ("撤销(&U) a (b)", "撤销 a (b)"), ("Fit", "Fit")],
)
def test_what_is_said_has_no_mnemonic(text, said):
    assert plain(text) == said
