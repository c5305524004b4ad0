"""Settings that several windows and programs change."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.session import Settings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of the settings; it does not exist."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "prune-gui"


@pytest.mark.usefixtures("folder")
def test_two_programs_that_each_change_one_setting_keep_both():
    one, other = Preferences(Settings()), Preferences(Settings())
    one.change("theme", "dark")
    other.change("form", "masks")
    one.remember(Path("/model.pt"))
    found = Settings.load()
    assert (found.theme, found.form, len(found.recent)) == ("dark", "masks", 1)


def test_what_cannot_be_written_counts_all_the_same_and_is_written_later(folder, caplog):
    folder.parent.mkdir()
    folder.write_text("no folder")
    preferences = Preferences(Settings())
    told = []
    preferences.changed.connect(told.append)
    preferences.change("theme", "dark")
    preferences.change("threads", 3)
    assert told == ["theme", "threads"]
    assert (preferences.now.theme, preferences.now.threads) == ("dark", 3)
    assert len(caplog.records) == 2
    folder.unlink()
    preferences.change("form", "masks")
    assert Settings.load() == preferences.now == Settings(theme="dark", threads=3, form="masks")
