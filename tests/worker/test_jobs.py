"""What the application's jobs return."""

from __future__ import annotations

import threading

import pytest
import torch
from foreign import foreign, is_foreign
from safetensors.torch import load_file, save_file

from prune_gui.errors import Cancelled, CheckpointError, RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import OutputPath, Step
from prune_gui.worker.jobs import (
    Draft,
    compare_job,
    compile_jobs,
    export_job,
    methods_job,
    open_job,
    resolve_job,
    sizes_job,
    threads_job,
    warm_up_job,
)


def step(amount: float, *targets: str) -> Step:
    return Step(method=METHODS["l1_unstructured"](amount=amount), targets=targets or ("w",))


@pytest.fixture
def session(tmp_path):
    save_file({"w": torch.arange(8.0)}, tmp_path / "model.safetensors")
    opened = open_job(tmp_path / "model.safetensors").work(Monitor())
    yield opened
    opened.checkpoint.close()


def test_opening_gives_a_session_with_the_recipe(tmp_path, session):
    (tmp_path / "recipe.yaml").write_text("steps: [{method: identity, targets: [w]}]")
    path = tmp_path / "model.safetensors"
    opened = open_job(path, tmp_path / "recipe.yaml").work(Monitor())
    with opened.checkpoint:
        assert list(opened.checkpoint.tensors) == ["w"]
        assert len(opened.steps) == 1
        assert not opened.unsaved
    assert session.steps == ()


def test_opening_what_is_none_says_so(tmp_path, session):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        open_job(tmp_path / "notes.txt").work(Monitor())
    with pytest.raises(RecipeError, match=r"nowhere\.yaml"):
        open_job(tmp_path / "model.safetensors", tmp_path / "nowhere.yaml").work(Monitor())


@pytest.mark.usefixtures("foreign_language")
def test_every_job_has_a_title_that_is_shown_in_the_language_in_use(session, tmp_path):
    path = tmp_path / "{name}.pt"
    named = {
        "Opening {}": open_job(path),
        "Opening {} to compare with": compare_job(path),
        "Saving {}": export_job(session, path, "finalized", overwrite=False),
        "Loading methods from {}": methods_job(path),
    }
    assert named["Opening {}"].title == "Opening {name}.pt"
    assert [tr(job.title) for job in named.values()] == [
        foreign(title).format("{name}.pt") for title in named
    ]
    others = [
        resolve_job(session, None),
        sizes_job(session, OutputPath.of(session.checkpoint, path, None)),
        threads_job(2),
        warm_up_job(),
        *compile_jobs(),
    ]
    assert all(is_foreign(tr(job.title)) for job in others)


@pytest.mark.usefixtures("foreign_language")
def test_why_there_is_no_preview_is_told_in_the_language_in_use(session):
    resolved = resolve_job(session, Draft(step(0.5), replaces=4)).work(Monitor())
    assert resolved.draft_error == foreign("The step is gone.")
    session.add(step(0.5, "nowhere"))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.draft_error == foreign("Step {} has to be mended first.").format(1)


def test_the_draft_is_seen_on_top_of_the_stack_but_is_no_part_of_it(session):
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.resolution.total == (4, 8)
    assert resolved.preview.total == (6, 8)
    assert resolved.preview.pruned_by("w").tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    assert resolved.draft_number == 2
    assert len(session.steps) == 1


def test_a_draft_in_the_place_of_a_step_is_seen_with_the_steps_after_it(session):
    session.add(step(0.5))
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.25), replaces=0)).work(Monitor())
    assert resolved.resolution.pruned_by("w").tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    assert resolved.preview.pruned_by("w").tolist() == [1, 1, 2, 2, 2, 0, 0, 0]
    assert resolved.draft_number == 1


def test_a_draft_that_cannot_be_carried_out_says_why_without_a_number(session):
    resolved = resolve_job(session, Draft(step(0.5, "x"))).work(Monitor())
    assert resolved.preview is None
    assert resolved.draft_error == "no parameter matches x. Change the targets of the step."


def test_a_stack_is_resolved_up_to_the_step_that_fails(session):
    session.add(step(0.5))
    session.add(step(0.5, "x"))
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.error.step == 2
    assert resolved.resolution.total == (4, 8)
    assert resolved.preview is None


def test_a_job_does_what_the_recipe_was_when_it_was_made(session, tmp_path):
    session.add(step(0.5))
    job = export_job(session, tmp_path / "out.safetensors", "finalized", overwrite=False)
    session.undo()
    job.work(Monitor())
    assert int((load_file(tmp_path / "out.safetensors")["w"] == 0).sum()) == 4


def test_sizes_are_those_of_what_the_recipe_was_and_can_be_cancelled(session, tmp_path):
    session.add(step(0.5))
    target = OutputPath.of(session.checkpoint, tmp_path / "out", 20)
    job = sizes_job(session, target)
    session.undo()
    told = job.work(Monitor())["finalized"]
    session.redo()
    export_job(session, tmp_path / "out", "finalized", overwrite=False, shard_size=20).work(
        Monitor()
    )
    assert told.nbytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        job.work(Monitor(cancel=stop))


def test_loading_methods_offers_them_unless_it_is_cancelled(plugin_file, nearest_mean):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        methods_job(nearest_mean).work(Monitor(cancel=stop))
    assert "nearest_mean" not in METHODS
    [method] = methods_job(nearest_mean).work(Monitor())
    assert METHODS["nearest_mean"] is method


def test_a_checkpoint_to_compare_with_has_its_zeros_pruned(tmp_path):
    pair = {"p_orig": torch.ones(4), "p_mask": torch.tensor([1.0, 0, 0, 1])}
    save_file({"w": torch.tensor([0.0, 1, -0.0, 2]), **pair}, tmp_path / "other.safetensors")
    other = compare_job(tmp_path / "other.safetensors").work(Monitor())
    with other.checkpoint:
        assert other.counts == {"w": (2, 4), "p": (2, 4)}
        assert other.mask("w").tolist() == [False, True, False, True]


def test_a_checkpoint_that_is_not_compared_after_all_is_closed(tmp_path):
    save_file({"w": torch.zeros(4)}, tmp_path / "other.safetensors")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):  # a file left open would be a warning, and so an error
        compare_job(tmp_path / "other.safetensors").work(Monitor(cancel=stop))


@pytest.mark.parametrize("amounts", [(), (0.5,), (0.25, 0.5), (0.5, 99, 0.5)])
def test_what_was_before_comes_along_whatever_the_steps_are(session, amounts):
    for amount in amounts:
        session.add(step(amount))
    for draft in (None, Draft(step(0.5)), Draft(step(99))):
        before = resolve_job(session, draft).work(Monitor()).before
        assert before.total == (0, 8)
        assert before.recipe.steps == ()


def test_the_number_of_threads_can_be_changed_and_left_to_torch_again():
    usual = torch.get_num_threads()
    threads_job(usual + 1).work(Monitor())
    assert torch.get_num_threads() == usual + 1
    threads_job(None).work(Monitor())
    assert torch.get_num_threads() == usual
