"""Settings that several windows and programs change."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.session import Settings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the settings folder, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "prune-gui"


@pytest.mark.usefixtures("folder")
def test_changes_of_two_programs_are_both_kept():
    one, other = Preferences(Settings()), Preferences(Settings())
    one.change("theme", "dark")
    other.change("form", "masks")
    one.remember(Path("/model.pt"))
    found = Settings.load()
    assert (found.theme, found.form, len(found.recent)) == ("dark", "masks", 1)


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
