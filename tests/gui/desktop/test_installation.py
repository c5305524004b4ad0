from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from prune_gui.errors import PruneGuiError
from prune_gui.gui import desktop
from prune_gui.gui.desktop import install, uninstall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="desktop entries are for Linux")


@pytest.fixture
def data_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_installing_twice_is_the_same_as_once_and_removing_leaves_nothing_of_it(data_home):
    assert install() == data_home
    once = files_below(data_home)
    assert {"applications/prune-gui.desktop", "mime/packages/prune-gui.xml"} <= once
    install()
    assert files_below(data_home) == once
    assert uninstall()
    assert not [path for path in files_below(data_home) if "prune" in path.lower()]
    assert not uninstall()


@pytest.mark.skipif(not shutil.which("update-mime-database"), reason="no shared-mime-info")
def test_the_types_of_files_are_known_after_installing(data_home):
    install()
    globs = (data_home / "mime" / "globs").read_text()
    assert "application/x-safetensors:*.safetensors" in globs
    uninstall()
    assert "safetensors" not in (data_home / "mime" / "globs").read_text()


def test_a_relative_data_folder_is_ignored_as_specified(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert install() == tmp_path / ".local" / "share"


def test_a_folder_that_cannot_be_created_is_one_clear_error(data_home):
    data_home.write_text("")
    with pytest.raises(PruneGuiError, match=r"applications cannot be created: Not a directory\."):
        install()


def test_a_failing_update_does_not_matter(data_home, monkeypatch, tmp_path, caplog):
    program = tmp_path / "update-desktop-database"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    install()
    assert "update-desktop-database failed" in caplog.text


def test_the_entry_starts_this_installation(monkeypatch, tmp_path):
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    assert desktop._command() == [sys.executable, "-P", "-m", "prune_gui"]
    (tmp_path / "prune-gui").write_text("")
    assert desktop._command() == [str(tmp_path / "prune-gui")]
    monkeypatch.setattr("sys.frozen", True, raising=False)
    assert desktop._command() == [sys.executable]
