"""The unsaved recipe survives a crash, and named states are restored with their checkpoint."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import psutil
import pytest
import torch
from python_process import ended_python
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe
from prune_gui.session import Session, kept_recipes
from prune_gui.session.history import DraftState
from prune_gui.session.kept_recipes import (
    MAX_TIME_S,
    MAX_UNSAVED_BYTES,
    SUFFIX,
    Journal,
    Unsaved,
    left_behind,
)
from prune_gui.session.state_file import StateFile

STEP = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.5}

KEEP_AND_DIE = """
import os, sys
from pathlib import Path
from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe
from prune_gui.session import Session
from prune_gui.session.kept_recipes import Journal

session = Session(open_checkpoint(sys.argv[1]))
session.history = session.history.act("Add", Recipe.from_yaml(Path(sys.argv[2]).read_text()))
Journal(Path(sys.argv[3])).keep(session)
os.kill(os.getpid(), 9)
"""


def kept_in(folder):
    [path] = folder.glob(f"*{SUFFIX}")
    return StateFile(path, Unsaved, MAX_UNSAVED_BYTES).load()


@pytest.fixture
def session(demo_checkpoint):
    with open_checkpoint(demo_checkpoint) as checkpoint:
        yield Session(checkpoint)


def test_the_unsaved_recipe_of_a_killed_program_is_recovered(tmp_path, demo_checkpoint):
    recipe = Recipe(steps=[STEP])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    ended_python(KEEP_AND_DIE, demo_checkpoint, tmp_path / "recipe.yaml", tmp_path / "kept")
    [(_, unsaved)] = left_behind(tmp_path / "kept")
    assert unsaved.checkpoint == demo_checkpoint.absolute()
    assert unsaved.parsed().steps == recipe.steps


def test_a_draft_and_a_step_in_editing_are_kept_with_their_values(session, tmp_path):
    journal = Journal(tmp_path)
    steps = Recipe(
        steps=[
            {"method": "ln_structured", "targets": ["*"], "n": math.inf, "dim": 0},
            {"method": "channels", "targets": ["*"], "channels": [1, 2], "dim": 0},
            {**STEP, "importance": "scores.safetensors"},
        ]
    ).steps
    session.add(steps[0])
    session.mark_saved(session.recipe)
    for step in steps:
        session.note_draft(DraftState.of(step))
        session.edit_step(0)
        typed = {**session.draft.values, "n": "not a number"}
        session.note_draft(replace(session.draft, step=None, values=typed))
        journal.keep(session)
        assert kept_in(tmp_path).draft == session.draft.anchored()
        session.end_draft()
    session.note_draft(replace(session.draft, previewed=False))
    journal.keep(session)
    assert kept_in(tmp_path).draft == session.draft.anchored()
    session.note_draft(session.draft.done())
    journal.keep(session)
    assert not list(tmp_path.iterdir())


def test_the_table_of_the_architecture_is_kept(session, tmp_path):
    table = tmp_path / "own.yaml"
    session.use_table(table)
    assert session.unsaved
    assert Unsaved.of(session).parsed().table_path == table
    session.use_table(None)
    assert not session.unsaved


def test_the_recipe_of_a_running_program_is_not_recovered(tmp_path, session):
    session.history = session.history.act("Add", Recipe(steps=[STEP]))
    Journal(tmp_path).keep(session)
    assert not list(left_behind(tmp_path))


def test_the_journal_is_deleted_after_saving_or_forgetting(tmp_path, session):
    journal = Journal(tmp_path)
    session.history = session.history.act("Add", Recipe(steps=[STEP]))
    journal.keep(session)
    assert len(list(tmp_path.iterdir())) == 1
    session.mark_saved(session.recipe)
    journal.keep(session)
    assert not list(tmp_path.iterdir())
    session.undo()
    journal.keep(session)
    journal.forget()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"written": 1e300},
        {"written": float("nan")},
        {"written": -1e300},
        {"written": float("inf")},
        {"process": [-1, 0.0]},
        {"process": [0, 0.0]},
        {"process": [1, float("nan")]},
        {"process": ["x", 0.0]},
        {"checkpoint": "a\0b"},
        {"checkpoint": "a" * 100_000},
        {"recipe": None},
    ],
    ids=str,
)
def test_a_file_with_an_invalid_value_is_set_aside_and_others_are_recovered(
    tmp_path, session, caplog, change
):
    good = Unsaved.of(session).model_copy(update={"process": (2**22, 0.0)})
    for name, fields in {"a": {}, "b": change}.items():
        text = json.dumps(json.loads(good.model_dump_json()) | fields)
        (tmp_path / f"{name}{SUFFIX}").write_text(text)
    [(path, unsaved)] = left_behind(tmp_path)
    assert path.name.startswith("a")
    assert datetime.fromtimestamp(unsaved.written)
    assert (tmp_path / f"b{SUFFIX}.damaged-1").read_text() == text
    [record] = caplog.records
    assert len(record.getMessage()) < 1000


@pytest.mark.parametrize("process", [(2**31 - 1, 0.0), (2**31, 0.0), (2**63, 0.0), (1, 0.0)])
@pytest.mark.parametrize("written", [0.0, float(MAX_TIME_S)])
def test_every_valid_time_and_process_can_be_shown(session, process, written):
    fields = Unsaved.of(session).model_dump() | {"process": process, "written": written}
    unsaved = Unsaved.model_validate(fields)
    assert not unsaved.writer_lives
    assert datetime.fromtimestamp(unsaved.written)


@pytest.mark.skipif(sys.platform == "win32", reason="names there are text")
def test_the_recipe_of_a_file_with_a_non_unicode_name_is_kept(tmp_path, demo_checkpoint):
    path = tmp_path / "a\udcff.safetensors"
    path.write_bytes(demo_checkpoint.read_bytes())
    with open_checkpoint(path) as checkpoint:
        session = Session(checkpoint)
        session.history = session.history.act("Add", Recipe(steps=[STEP]))
        journal = Journal(tmp_path)
        journal.keep(session)
    assert kept_in(tmp_path).checkpoint == path


def test_a_recipe_is_kept_after_the_working_folder_was_deleted(
    tmp_path, demo_checkpoint, monkeypatch, delete_working_folder
):
    monkeypatch.chdir(demo_checkpoint.parent)
    with open_checkpoint(demo_checkpoint.name) as checkpoint:
        session = Session(checkpoint)
        session.history = session.history.act("Add", Recipe(steps=[STEP]))
        delete_working_folder()
        journal = Journal(tmp_path)
        journal.keep(session)
    assert kept_in(tmp_path).parsed().steps == session.steps


def test_relative_paths_of_a_recipe_are_made_absolute(tmp_path, session):
    scored = "steps: [{method: lamp, targets: ['*'], importance: scores.pt}]"
    beside = Recipe.from_yaml(scored, folder=Path("elsewhere"))
    session.history = session.history.act("Add", beside)
    unsaved = Unsaved.of(session)
    [step] = unsaved.parsed().steps
    assert step.method.importance == str(Path("elsewhere/scores.pt").absolute())


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="a process that ended is gone at once here")
def test_a_zombie_process_does_not_count_as_running(session):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        began = psutil.Process(process.pid).create_time()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        kept = Unsaved.of(session).model_copy(update={"process": (process.pid, began)})
        assert not kept.writer_lives


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
        states, _ = kept_recipes.load_kept(checkpoint, tmp_path / "states")
        return Session(checkpoint, named_states=states)

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


def test_naming_a_state_in_a_deleted_working_folder_logs_one_line(
    tmp_path, monkeypatch, caplog, delete_working_folder
):
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.ones(4)}, "a.safetensors")
    with open_checkpoint("a.safetensors") as checkpoint:
        delete_working_folder()
        assert kept_recipes.load_kept(checkpoint, tmp_path / "states") == ({}, None)
        session = Session(checkpoint)
        session.name_state("now")
        caplog.clear()
        kept_recipes.keep_states(session, tmp_path / "states")
    assert len(caplog.records) == 1
