"""Named states are restored when a checkpoint is opened again."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe
from prune_gui.session import Session, kept_recipes

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}])
ALL = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "amount": 1}])


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a session with its named states from a temporary folder."""
    checkpoints = []

    def open_one(name="a"):
        path = tmp_path / f"{name}.safetensors"
        if not path.exists():
            save_file({"w": torch.ones(4)}, path)
        checkpoint = open_checkpoint(path)
        checkpoints.append(checkpoint)
        return Session(
            checkpoint, named_states=kept_recipes.load_states(checkpoint, tmp_path / "states")
        )

    yield open_one
    for checkpoint in checkpoints:
        checkpoint.close()


@pytest.fixture
def name(tmp_path):
    """Return a function that names a recipe in a session, and saves the named states."""

    def give(session, name, recipe):
        session.history = session.history.act("", recipe)
        session.name_state(name)
        kept_recipes.keep_states(session, tmp_path / "states")

    return give


def test_named_states_are_restored_for_their_own_checkpoint_only(opened, name):
    name(opened(), "half", HALF)
    assert {key: one.steps for key, one in opened().named_states.items()} == {"half": HALF.steps}
    assert opened("b").named_states == {}


def test_changes_by_another_window_are_kept(opened, name, tmp_path):
    name(opened(), "gone", HALF)
    one, other = opened(), opened()
    name(one, "half", HALF)
    other.forget_state("gone")
    name(other, "all", ALL)
    assert set(opened().named_states) == {"half", "all"}
    name(one, "half", ALL)
    assert opened().named_states["half"].steps == ALL.steps


def test_an_unreadable_state_is_kept_until_it_is_readable(opened, name, tmp_path, caplog):
    session = opened()
    name(session, "half", HALF)
    [file] = (tmp_path / "states").glob("*.json")
    text = file.read_text()
    file.write_text(text.replace("l1_unstructured", "of_a_plug_in"))
    again = opened()
    assert again.named_states == {}
    assert "cannot be read" in caplog.text
    name(again, "all", ALL)
    file.write_text(file.read_text().replace("of_a_plug_in", "l1_unstructured"))
    assert set(opened().named_states) == {"half", "all"}


def test_damaged_and_unwritable_files_are_no_errors(opened, name, tmp_path, caplog):
    session = opened()
    name(session, "half", HALF)
    [file] = (tmp_path / "states").glob("*.json")
    file.write_text("{")
    assert opened().named_states == {}
    shutil.rmtree(file.parent)
    file.parent.write_text("no folder")
    name(session, "all", ALL)
    assert "was not written" in caplog.text
    assert set(session.named_states) == {"half", "all"}
    file.parent.unlink()
    kept_recipes.keep_states(session, file.parent)
    assert set(opened().named_states) == {"all"}  # the file of the other state was deleted above


def test_a_file_with_a_non_unicode_name_has_named_states(opened, name):
    name(opened("a\udcff"), "half", HALF)
    assert set(opened("a\udcff").named_states) == {"half"}


def test_damaged_states_are_set_aside_when_a_state_is_added(opened, name, tmp_path, caplog):
    session = opened()
    for number in range(5):
        name(session, f"state {number}", HALF)
    [file] = (tmp_path / "states").glob("*.json")
    damaged = file.read_bytes().replace(b"version", b"v\xff\xff\xffion", 1)
    file.write_bytes(damaged)
    name(session, "all", ALL)
    assert file.with_name(f"{file.name}.damaged-1").read_bytes() == damaged
    assert f"{file.name}.damaged-1" in caplog.text
    assert set(opened().named_states) == {"all"}


@pytest.mark.skipif(os.name == "nt", reason="needs FIFOs")
def test_a_fifo_at_the_path_of_named_states_does_not_block_opening(opened, name, tmp_path):
    name(opened(), "half", HALF)
    [file] = (tmp_path / "states").glob("*.json")
    file.unlink()
    os.mkfifo(file)
    assert opened().named_states == {}


def test_naming_a_state_in_a_deleted_working_folder_logs_one_line(
    tmp_path, monkeypatch, caplog, delete_working_folder
):
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.ones(4)}, "a.safetensors")
    with open_checkpoint("a.safetensors") as checkpoint:
        delete_working_folder()
        assert kept_recipes.load_states(checkpoint, tmp_path / "states") == {}
        session = Session(checkpoint)
        session.name_state("now")
        caplog.clear()
        kept_recipes.keep_states(session, tmp_path / "states")
    assert len(caplog.records) == 1
