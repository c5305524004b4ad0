"""Settings that several windows and programs change."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QLocale

from prune_gui.gui.runtime.locale import language_of, numbers_of, without_mnemonics
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.session import Settings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the settings folder, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "prune-gui"


@pytest.mark.usefixtures("folder")
def test_changes_of_two_programs_are_both_kept(qtbot):
    one, other = Preferences(Settings()), Preferences(Settings())
    one.change("theme", "dark")
    other.change("form", "masks")
    one.remember(Path("/model.pt"))
    assert len(one.now.recent) == 1
    qtbot.waitUntil(lambda: Settings.load().recent == one.now.recent)
    found = Settings.load()
    assert (found.theme, found.form) == (one.now.theme, one.now.form) == ("dark", "masks")


def test_a_change_that_cannot_be_written_is_effective_and_written_later(folder, caplog):
    folder.parent.mkdir()
    folder.write_text("no folder")
    preferences = Preferences(Settings())
    changed_names = []
    preferences.changed.connect(changed_names.append)
    preferences.change("theme", "dark")
    preferences.change("threads", 3)
    assert changed_names == ["theme", "threads"]
    assert (preferences.now.theme, preferences.now.threads) == ("dark", 3)
    assert len(caplog.records) == 2
    folder.unlink()
    preferences.change("form", "masks")
    assert Settings.load() == preferences.now == Settings(theme="dark", threads=3, form="masks")


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
