"""Saving to the URL of an object store from the save dialog."""

from __future__ import annotations

import pytest
from save_dialog_controls import choose, problem, save_button, split

from prune_gui.gui.dialogs import save_paths
from prune_gui.location import Location

URL = "s3://results/net/pruned.safetensors"


@pytest.fixture
def remote(dialog, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dialog._path.setText(URL)
    return dialog


def test_a_url_is_an_output_path(remote):
    assert save_button(remote).isEnabled()
    assert "where files are until they are uploaded" in problem(remote)
    save_button(remote).click()
    assert remote.result()
    assert (remote.path, remote.options.overwrite) == (Location.of(URL).path, False)


def test_a_remote_file_is_replaced_if_the_user_says_so(remote):
    assert remote._replace.isVisible()
    remote._replace.click()
    save_button(remote).click()
    assert remote.options.overwrite


def test_a_remote_folder_is_never_replaced(remote):
    remote._replace.click()
    split(remote, "1 MB")
    assert remote._path.text() == URL.removesuffix(".safetensors")
    assert not remote._replace.isEnabled()
    save_button(remote).click()
    assert not remote.options.overwrite


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://host/net.safetensors", "Save into an object store"),
        ("s3://key:secret@results/net.safetensors", "carries a password"),
        ("s3:///net.safetensors", "is not a valid URL"),
    ],
)
def test_what_cannot_be_written_is_said_while_typing(remote, url, message):
    remote._path.setText(url)
    assert message in problem(remote)
    assert "secret" not in problem(remote)
    assert not save_button(remote).isEnabled()


def test_the_choice_to_replace_is_only_for_remote_files(remote, model):
    remote._path.setText(str(save_paths.pruned_path(model)))
    assert not remote._replace.isVisible()


def test_the_loader_script_of_a_remote_file_has_no_local_path(remote, tmp_path):
    choose(remote, "reparametrized")
    script = remote._loader._lines.toPlainText()
    assert "Path(__file__).parent" in script
    assert str(tmp_path) not in script
