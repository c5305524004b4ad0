from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree as ET

import pytest
from PySide6.QtGui import QImage

from prune_gui.checkpoint.formats import FORMATS
from prune_gui.errors import PruneGuiError
from prune_gui.gui import desktop
from prune_gui.gui.desktop import ICON_SIZES_PX, METAINFO, desktop_files, install, uninstall
from prune_gui.recipe.recipe import own_version

ENTRY = PurePosixPath("applications/prune-gui.desktop")
MIME = PurePosixPath("mime/packages/prune-gui.xml")
SPACE = "{http://www.freedesktop.org/standards/shared-mime-info}"


def entry_lines(*command: str) -> list[str]:
    return desktop_files(command)[ENTRY].decode().splitlines()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("/opt/prune-gui",), "Exec=/opt/prune-gui %f"),
        (("/home/a b/prune-gui",), 'Exec="/home/a b/prune-gui" %f'),
        (("/py", "-P", "-m", "prune_gui"), "Exec=/py -P -m prune_gui %f"),
        (('/a"$`\\b',), 'Exec="/a\\\\"\\\\$\\\\`\\\\\\\\b" %f'),
        (("/100%",), "Exec=/100%% %f"),
    ],
)
def test_the_entry_starts_the_command_quoted_as_specified(command, line):
    assert line in entry_lines(*command)


def test_the_entry_is_hidden_when_the_program_is_gone():
    assert "TryExec=/home/a b/prune-gui" in entry_lines("/home/a b/prune-gui", "-x")


def test_icons_have_their_sizes_and_are_not_empty():
    files = desktop_files(["prune-gui"])
    for size in ICON_SIZES_PX:
        path = PurePosixPath(f"icons/hicolor/{size}x{size}/apps/prune-gui.png")
        image = QImage.fromData(files[path])
        assert (image.width(), image.height()) == (size, size)
        assert image.pixelColor(0, 0).alpha() < 255
        assert image.pixelColor(size // 2, size // 4).alpha() == 255


def test_all_types_of_the_entry_are_defined_and_open():
    files = desktop_files(["prune-gui"])
    types = {
        one.get("type"): [glob.get("pattern") for glob in one.iter(f"{SPACE}glob")]
        for one in ET.fromstring(files[MIME]).iter(f"{SPACE}mime-type")
    }
    [line] = [line for line in entry_lines("prune-gui") if line.startswith("MimeType=")]
    assert line.removeprefix("MimeType=").strip(";").split(";") == list(types)
    metainfo = ET.fromstring(files[PurePosixPath("metainfo", METAINFO)])
    assert [one.text for one in metainfo.iter("mediatype")] == list(types)
    suffixes = {suffix for one in FORMATS for suffix in one.suffixes}
    assert {glob.removeprefix("*") for globs in types.values() for glob in globs} <= suffixes


def test_the_metainfo_describes_this_version():
    metainfo = ET.fromstring(desktop_files(["prune-gui"])[PurePosixPath("metainfo", METAINFO)])
    assert next(metainfo.iter("release")).get("version") == own_version()


@pytest.mark.parametrize(
    ("program", "path"),
    [
        (("desktop-file-validate",), ENTRY),
        (("appstreamcli", "validate", "--no-net"), PurePosixPath("metainfo", METAINFO)),
    ],
)
def test_the_validators_of_the_desktop_find_no_fault(tmp_path, program, path):
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    written = tmp_path / path.name
    written.write_bytes(desktop_files(["/opt/a b/prune-gui"])[path])
    done = subprocess.run([*program, written], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
