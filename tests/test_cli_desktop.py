"""What desktops need: options that install menu entries, `file:` URLs, the version."""

import os
import sys
import tomllib
from pathlib import Path

import click
import pytest
from python_process import python

from prune_gui.cli.arguments import file_or_url


def prune_gui(*arguments, **environment):
    return python("-m", "prune_gui", *arguments, env=os.environ | environment)


def path_of(text):
    return file_or_url.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///models/a%20b.pt", "/models/a b.pt"),
        ("file:/models/a.pt", "/models/a.pt"),
        ("FILE://localhost/models/a.pt", "/models/a.pt"),
        ("file:///m/%E4%BD%A0.pt", "/m/你.pt"),
        ("file:///m/%FF.pt", os.fsdecode(b"/m/\xff.pt")),
        ("file.pt", "file.pt"),
        ("/m/a%20b.pt", "/m/a%20b.pt"),
    ],
)
def test_the_url_of_a_file_is_its_path(text, path):
    assert path_of(text) == Path(path)


@pytest.mark.parametrize(
    "text", ["file://server/a.pt", "file:///a%00.pt", "file://[/a", "file:", "s3://a/b"]
)
def test_a_url_of_another_machine_or_without_path_is_wrong_usage(text):
    with pytest.raises(click.BadParameter):
        path_of(text)


def test_an_existing_file_whose_name_looks_like_a_url_is_opened(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("file:x").write_text("")
    assert path_of("file:x") == Path("file:x")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="desktop entries are for Linux")
def test_menu_entries_are_installed_and_removed(tmp_path):
    entry = tmp_path / "applications" / "prune-gui.desktop"
    installed = prune_gui("--install-desktop", XDG_DATA_HOME=str(tmp_path))
    assert (installed.returncode, installed.stderr) == (0, "")
    assert str(tmp_path) in installed.stdout
    assert entry.exists()
    removed = prune_gui("--uninstall-desktop", XDG_DATA_HOME=str(tmp_path))
    assert (removed.returncode, removed.stdout.count("\n")) == (0, 1)
    assert not entry.exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="desktop entries are for Linux")
def test_a_data_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    failed = prune_gui("--install-desktop", XDG_DATA_HOME=str(tmp_path / "file"))
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (1, "", 1)


def test_the_version_is_that_of_the_project_file():
    project = Path(__file__).parents[1] / "pyproject.toml"
    version = tomllib.loads(project.read_text())["project"]["version"]
    assert prune_gui("--version").stdout == f"prune-gui, version {version}\n"
