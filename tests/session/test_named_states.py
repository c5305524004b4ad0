"""What a user gave a name to is there when the checkpoint is opened again."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe
from prune_gui.session import Session, named_states

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}])
ALL = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "amount": 1}])


@pytest.fixture
def opened(tmp_path):
    """Return what opens a checkpoint, with the states that it has in the folder of the test."""
    made = []

    def open_one(name="a"):
        path = tmp_path / f"{name}.safetensors"
        if not path.exists():
            save_file({"w": torch.ones(4)}, path)
        checkpoint = open_checkpoint(path)
        made.append(checkpoint)
        return Session(checkpoint, named_states=named_states.load(checkpoint, tmp_path / "states"))

    yield open_one
    for checkpoint in made:
        checkpoint.close()


@pytest.fixture
def name(tmp_path):
    """Return what gives a recipe a name in a session, and keeps that."""

    def give(session, name, recipe):
        session.history = session.history.act("", recipe)
        session.name_state(name)
        named_states.keep(session, tmp_path / "states")

    return give


def test_a_checkpoint_has_its_named_states_again_and_no_other_has_them(opened, name):
    name(opened(), "half", HALF)
    assert {key: one.steps for key, one in opened().named_states.items()} == {"half": HALF.steps}
    assert opened("b").named_states == {}


def test_what_another_window_named_or_forgot_meanwhile_stays_so(opened, name, tmp_path):
    name(opened(), "gone", HALF)
    one, other = opened(), opened()
    name(one, "half", HALF)
    other.forget_state("gone")
    name(other, "all", ALL)
    assert set(opened().named_states) == {"half", "all"}
    name(one, "half", ALL)
    assert opened().named_states["half"].steps == ALL.steps


def test_one_that_cannot_be_read_now_is_there_when_it_can_be(opened, name, tmp_path, caplog):
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


def test_a_file_that_is_broken_or_cannot_be_written_harms_nothing(opened, name, tmp_path, caplog):
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
    named_states.keep(session, file.parent)
    assert set(opened().named_states) == {"all"}  # the other was taken away by hand


def test_a_file_whose_name_is_no_text_has_named_states_too(opened, name):
    name(opened("a\udcff"), "half", HALF)
    assert set(opened("a\udcff").named_states) == {"half"}


def test_damaged_states_are_still_there_after_another_one_is_named(opened, name, tmp_path, caplog):
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
def test_a_fifo_in_place_of_named_states_does_not_block_the_checkpoint(opened, name, tmp_path):
    name(opened(), "half", HALF)
    [file] = (tmp_path / "states").glob("*.json")
    file.unlink()
    os.mkfifo(file)
    assert opened().named_states == {}


@pytest.mark.skipif(os.name == "nt", reason="a working folder cannot be deleted there")
def test_naming_a_state_after_the_working_folder_was_deleted_is_one_line_in_the_log(
    tmp_path, monkeypatch, caplog
):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    save_file({"w": torch.ones(4)}, "a.safetensors")
    with open_checkpoint("a.safetensors") as checkpoint:
        shutil.rmtree(gone)
        assert named_states.load(checkpoint, tmp_path / "states") == {}
        session = Session(checkpoint)
        session.name_state("now")
        caplog.clear()
        named_states.keep(session, tmp_path / "states")
    assert len(caplog.records) == 1
