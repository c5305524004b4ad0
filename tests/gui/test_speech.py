"""The language of the window."""

import pytest
from PySide6.QtCore import QLocale

from prune_gui.gui.speech import language_of


@pytest.mark.parametrize(
    ("locale", "code"),
    [("en_GB", "en"), ("zh_CN", "zh_CN"), ("zh_SG", "zh_CN"), ("zh_TW", "en"), ("eo", "en")],
)
def test_the_systems_language_is_spoken_if_the_program_knows_it(locale, code):
    assert language_of(QLocale(locale)) == code
