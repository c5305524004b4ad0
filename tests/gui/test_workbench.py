"""The workbench announces what changed."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save
from waiting import change, draft_step

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.engine import Job
from prune_gui.errors import CheckpointError
from prune_gui.gui.workbench import DraftController
from prune_gui.recipe.output import OutputOptions
from prune_gui.session import Session
from prune_gui.session.changes import OPENED, Changes
from prune_gui.session.history import DraftState
from prune_gui.worker.jobs import Draft, open_job

CONV1, CONV2 = "features.conv1.weight", "features.conv2.weight"


@pytest.fixture
def announced(workbench):
    """Return the list of all announced changes, without the zeros that are counted when idle."""
    changes: list[Changes] = []

    def add(change: Changes) -> None:
        if change != Changes(zeros=True):
            changes.append(change)

    workbench.changed.connect(add)
    return changes


def is_open(checkpoint: Checkpoint) -> bool:
    try:
        checkpoint.read(CONV1)
    except CheckpointError:
        return False
    return True


def test_an_opened_file_is_announced_before_its_resolution(open_file, announced, demo_checkpoint):
    open_file(demo_checkpoint)
    assert announced[:2] == [OPENED, Changes(resolution=True)]


def test_an_edit_names_the_parameters_that_it_concerns(
    workbench, open_file, announced, demo_checkpoint, make_step, settle
):
    open_file(demo_checkpoint)
    for target in (CONV1, CONV2):
        workbench.edit(
            lambda session, target=target: session.add(make_step("l1_unstructured", target))
        )
        settle()
    workbench.edit(lambda session: session.undo())
    settle()
    concerned = [changes.parameters for changes in announced if changes.resolution]
    assert concerned == [None, {CONV1}, {CONV2}, {CONV2}]
    assert sum(changes == Changes(recipe=True) for changes in announced) == 3


def test_resolving_the_same_recipe_again_concerns_every_parameter(
    workbench, open_file, announced, demo_checkpoint, qtbot
):
    open_file(demo_checkpoint)
    with change(qtbot, workbench, "resolution"):
        workbench.resolve()
    assert announced[-1].parameters is None


def test_the_original_concerns_the_targets_of_all_steps(
    workbench, open_file, announced, demo_checkpoint, make_step, settle
):
    workbench.draft.show_original(on=True)
    workbench.draft.show_original(on=False)
    assert announced == 2 * [Changes(resolution=True)]
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", CONV1)))
    draft_step(workbench, make_step("l1_unstructured", CONV2))
    settle()
    del announced[:]
    workbench.draft.show_original(on=True)
    assert announced == [Changes(resolution=True, parameters=frozenset({CONV1, CONV2}))]


def test_a_reload_keeps_the_recipe_and_the_chosen_parameter(
    workbench, open_file, announced, demo_checkpoint, make_step, qtbot
):
    open_file(demo_checkpoint)
    workbench.choose(CONV2)
    workbench.edit(lambda session: session.add(make_step()))
    before = workbench.session
    with change(qtbot, workbench, "file"):
        workbench.files.reload()
    assert workbench.session is not before
    assert workbench.session.steps == before.steps
    assert workbench.chosen == CONV2
    assert announced[-1] == Changes(selection=True)
    qtbot.waitUntil(lambda: not workbench.bridge._closing, timeout=60_000)
    assert not is_open(before.checkpoint)
    assert is_open(workbench.session.checkpoint)


def test_a_saved_checkpoint_is_announced_without_resolving_again(
    workbench, open_file, announced, demo_checkpoint, make_step, settle, tmp_path, qtbot
):
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step()))
    settle()
    del announced[:]
    assert workbench.session.unsaved
    with qtbot.waitSignal(workbench.saved, timeout=60_000):
        workbench.files.save(tmp_path / "pruned.safetensors", OutputOptions())
    assert announced == [Changes(saved=True)]
    assert not workbench.session.unsaved


def test_compared_checkpoints_that_no_side_shows_are_closed_except_for_the_latest(
    workbench, open_file, announced, demo_checkpoint, tmp_path, qtbot
):
    open_file(demo_checkpoint)
    del announced[:]
    paths = [shutil.copy(demo_checkpoint, tmp_path / f"{name}.safetensors") for name in "abc"]
    opened = []
    for path in paths:
        with change(qtbot, workbench, "comparison"):
            workbench.comparison.open(path)
        opened.append(workbench.comparison.state("left").base.checkpoint)
    assert [checkpoint.path for checkpoint in opened] == paths
    assert announced == 3 * [Changes(comparison=True)]
    qtbot.waitUntil(lambda: list(map(is_open, opened)) == [False, True, True], timeout=60_000)
    workbench.close()
    assert not any(map(is_open, opened))


def test_a_file_that_is_opened_while_the_program_ends_is_closed(workbench, demo_checkpoint):
    opened = threading.Event()
    opening = open_job(demo_checkpoint)

    def work(monitor):
        session = opening.work(monitor)
        sessions.append(session)
        return session

    sessions = []
    bridge = workbench.bridge
    bridge.run(replace(opening, work=work), lambda _: opened.set())
    bridge.run(Job("Next", lambda _: opened.set()), lambda _: None)
    assert opened.wait(60)  # the first result is waiting for the event loop
    assert is_open(sessions[0].checkpoint)
    bridge.close()
    assert not is_open(sessions[0].checkpoint)


def test_a_failed_job_is_announced_with_its_title(workbench, qtbot, tmp_path):
    with qtbot.waitSignal(workbench.failed, timeout=60_000) as failed:
        workbench.files.open(tmp_path / "gone.safetensors")
    assert failed.args[0] == "Opening gone.safetensors"
    assert workbench.session is workbench.files.path is None


@pytest.fixture
def draft(qtbot, session):
    made = DraftController(lambda: session)
    made.told = []
    made.changed.connect(lambda: made.told.append(made.current))
    made.original_toggled.connect(lambda: made.told.append(made.shows_original))
    yield made
    made.merging.stop()


@pytest.fixture
def session(demo_checkpoint):
    with open_checkpoint(demo_checkpoint) as checkpoint:
        yield Session(checkpoint)


def test_only_another_draft_is_announced(draft, session, make_step):
    step = make_step(amount=0.5)
    session.add(step)
    typed = DraftState.of(step)
    draft.note(typed, amend=False)
    draft.note(typed, amend=False)
    draft.change(lambda session: session.edit_step(0))
    draft.note(replace(session.draft, previewed=False), amend=False)
    draft.note(replace(session.draft, values={"amount": "half"}), amend=False)
    assert draft.told == [Draft(step), Draft(step, 0), None]


def test_only_a_toggle_of_the_original_is_announced(draft):
    for on in (True, True, False, False):
        draft.show_original(on=on)
    assert draft.told == [True, False]


def test_the_menu_opens_another_state_dict_of_the_file(window, open_file, qtbot, tmp_path):
    assert not window._states.isEnabled()
    path = tmp_path / "training.pt"
    model = {"w": torch.ones(2, 2), "b": torch.ones(2)}
    torch.save({"a&b": model, "ema": {"w": torch.ones(3, 3)}}, path)
    open_file(path)
    assert window._states.isEnabled()
    window._states.aboutToShow.emit()
    actions = window._states.actions()
    assert [(act.text(), act.isChecked()) for act in actions] == [("a&&b", True), ("ema", False)]
    with change(qtbot, window.workbench, "resolution"):
        actions[1].trigger()
    assert window.workbench.session.checkpoint.state_dict == "ema"
    window._states.aboutToShow.emit()
    assert [act.isChecked() for act in window._states.actions()] == [False, True]


def test_the_menu_is_disabled_for_a_file_with_one_state_dict(window, open_file, demo_checkpoint):
    open_file(demo_checkpoint)
    assert not window._states.isEnabled()


def test_a_file_with_an_undecodable_name_opens_and_is_not_recent(window, open_file, tmp_path):
    path = tmp_path / "a\nb\udcff.safetensors"
    path.write_bytes(save({"w": torch.ones(2, 2)}))
    open_file(path)
    assert "a\\nb\\udcff.safetensors" in window.windowTitle()
    assert window.commands.settings.recent == ()
