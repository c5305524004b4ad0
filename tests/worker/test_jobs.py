"""Results and titles of the jobs of the application, and which modules they import when."""

from __future__ import annotations

import queue
import subprocess
import threading

import pytest
import torch
from applied import CancelAfter
from python_process import run_python
from safetensors.torch import load_file, save_file

from prune_gui import parallel
from prune_gui.engine import Engine, Job
from prune_gui.errors import Cancelled, CheckpointError, RecipeError
from prune_gui.isolated.processes import isolated_command
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import OutputPath, Recipe, Step
from prune_gui.recipe.output import OutputOptions
from prune_gui.worker import jobs
from prune_gui.worker.jobs import (
    Draft,
    batch_jobs,
    compare_job,
    compile_jobs,
    export_job,
    methods_job,
    open_job,
    resolve_job,
    sizes_job,
    sweep_jobs,
    threads_jobs,
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


def test_opening_returns_a_session_with_the_recipe(tmp_path, session):
    (tmp_path / "recipe.yaml").write_text("steps: [{method: identity, targets: [w]}]")
    path = tmp_path / "model.safetensors"
    opened = open_job(path, tmp_path / "recipe.yaml").work(Monitor())
    with opened.checkpoint:
        assert list(opened.checkpoint.tensors) == ["w"]
        assert len(opened.steps) == 1
        assert not opened.unsaved
    assert session.steps == ()


def test_opening_an_invalid_checkpoint_or_a_missing_recipe_is_an_error(tmp_path, session):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        open_job(tmp_path / "notes.txt").work(Monitor())
    with pytest.raises(RecipeError, match=r"nowhere\.yaml"):
        open_job(tmp_path / "model.safetensors", tmp_path / "nowhere.yaml").work(Monitor())


def test_a_checkpoint_without_a_session_is_closed(tmp_path, session, monkeypatch):
    def fail(checkpoint):
        opened.append(checkpoint)
        raise CheckpointError("The named states cannot be read.")

    opened = []
    monkeypatch.setattr(jobs.kept_recipes, "load_kept", fail)
    with pytest.raises(CheckpointError, match="named states"):
        open_job(tmp_path / "model.safetensors").work(Monitor())
    with pytest.raises(CheckpointError, match="is closed"):
        opened[0].read("w")


def test_a_missing_preview_has_a_reason(session):
    resolved = resolve_job(session, Draft(step(0.5), replaces=4)).work(Monitor())
    assert resolved.draft_error == "The step no longer exists."
    resolved = resolve_job(session, Draft(step(0.5, "x"))).work(Monitor())
    assert resolved.preview is None
    assert resolved.draft_error == "no parameter matches x. Change the targets of the step."
    session.add(step(0.5, "nowhere"))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.draft_error == "Correct step 1 first."


def test_the_preview_has_the_draft_after_the_steps_of_the_recipe(session):
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.resolution.total == (4, 8)
    assert resolved.preview.total == (6, 8)
    assert resolved.preview.pruned_by("w").tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    assert resolved.draft_number == 2
    assert len(session.steps) == 1


def test_a_draft_that_replaces_a_step_is_previewed_with_later_steps(session):
    session.add(step(0.5))
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.25), replaces=0)).work(Monitor())
    assert resolved.resolution.pruned_by("w").tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    assert resolved.preview.pruned_by("w").tolist() == [1, 1, 2, 2, 2, 0, 0, 0]
    assert resolved.draft_number == 1


def test_a_recipe_is_resolved_up_to_the_failing_step(session):
    session.add(step(0.5))
    session.add(step(0.5, "x"))
    session.add(step(0.5))
    resolved = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert resolved.error.step == 2
    assert resolved.resolution.total == (4, 8)
    assert resolved.preview is None


def test_a_job_uses_the_recipe_at_the_time_of_its_creation(session, tmp_path):
    session.add(step(0.5))
    job = export_job(session, tmp_path / "out.safetensors", OutputOptions())
    session.undo()
    job.work(Monitor())
    assert int((load_file(tmp_path / "out.safetensors")["w"] == 0).sum()) == 4


def test_sizes_are_those_of_the_export_and_can_be_cancelled(session, tmp_path):
    session.add(step(0.5))
    split = OutputOptions(shard_size=20)
    target = OutputPath.of(session.checkpoint, tmp_path / "out", split)
    job = sizes_job(session, target)
    session.undo()
    sizes = job.work(Monitor())["finalized"]
    session.redo()
    export_job(session, tmp_path / "out", split).work(Monitor())
    assert sizes.nbytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    with pytest.raises(Cancelled):
        job.work(Monitor(cancel=CancelAfter(0)))


def test_loading_methods_registers_them_unless_cancelled(plugin_file, nearest_mean):
    with pytest.raises(Cancelled):
        methods_job(nearest_mean).work(Monitor(cancel=CancelAfter(0)))
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


def test_a_cancelled_comparison_closes_its_checkpoint(tmp_path):
    save_file({"w": torch.zeros(4)}, tmp_path / "other.safetensors")
    with pytest.raises(Cancelled):  # an open file would cause a ResourceWarning, which is an error
        compare_job(tmp_path / "other.safetensors").work(Monitor(cancel=CancelAfter(0)))


@pytest.mark.parametrize("amounts", [(), (0.5,), (0.25, 0.5), (0.5, 99, 0.5)])
def test_the_resolution_before_all_steps_is_always_returned(session, amounts):
    for amount in amounts:
        session.add(step(amount))
    for draft in (None, Draft(step(0.5)), Draft(step(99))):
        before = resolve_job(session, draft).work(Monitor()).before
        assert before.total == (0, 8)
        assert before.recipe.steps == ()


def test_the_number_of_threads_can_be_set_and_reset_on_each_thread_of_the_engine():
    default, counts = parallel.default_threads(), queue.Queue()
    engine = Engine(lambda _: None)
    for count in (default + 1, None):
        for job in threads_jobs(count):
            engine.submit(job)
        for kind in ({}, {"long": True}, {"idle": True}, {"evaluates": True}):
            engine.submit(Job("count", lambda _: counts.put(torch.get_num_threads()), **kind))
        assert [counts.get(timeout=10) for _ in range(4)] == [count or default] * 4
    engine.close()


def test_a_save_and_the_preview_of_other_steps_run_at_the_same_time(tmp_path, session):
    gate, started = threading.Event(), threading.Event()

    class SlowToSave(Monitor):
        def advance(self, amount: int = 0) -> None:
            started.set()
            assert gate.wait(10)

    session.add(step(0.25))
    resolve_job(session, None).work(Monitor())
    saving = export_job(session, tmp_path / "out.safetensors", OutputOptions())
    thread = threading.Thread(target=lambda: saving.work(SlowToSave()))
    thread.start()
    assert started.wait(10)
    session.replace(0, step(0.5))
    preview = resolve_job(session, Draft(step(0.5))).work(Monitor())
    assert (preview.resolution.total, preview.preview.total) == ((4, 8), (6, 8))
    gate.set()
    thread.join()
    assert load_file(tmp_path / "out.safetensors")["w"].tolist() == [0, 0, *range(2, 8)]
    assert session.resolver.after(1).total == (4, 8)


def test_a_sweep_uses_the_recipe_at_the_time_of_the_call(session):
    session.add(step(0.5))
    jobs = sweep_jobs(session, 1, (0.25, 6))
    session.undo()
    assert [job.work(Monitor()).pruned for job in jobs] == [2, 6]
    assert [job.title for job in jobs] == ["Trying amount 1 of 2", "Trying amount 2 of 2"]


def test_a_batch_has_one_job_per_checkpoint(session, tmp_path):
    (tmp_path / "out").mkdir()
    recipe, path = Recipe(steps=(step(0.5),)), session.checkpoint.path
    missing = tmp_path / "gone.safetensors"
    jobs = batch_jobs(recipe, [missing, path], tmp_path / "out", OutputOptions())
    bad, good = [job.work(Monitor()) for job in jobs]
    assert "does not exist" in bad.error
    assert int((load_file(good.out)["w"] == 0).sum()) == 4
    assert jobs[1].title == "Pruning model.safetensors (2 of 2)"
    [unwritten] = batch_jobs(recipe, [path], None, OutputOptions())
    assert unwritten.work(Monitor()).out is None


PROGRAM = """
import sys
from pathlib import Path
from prune_gui.monitor import Monitor
from prune_gui.worker.jobs import open_job
open_job(Path(sys.argv[1])).work(Monitor())
print("torch" in sys.modules)
from prune_gui.worker.warm_up import import_for_first_picture, import_rest
import_for_first_picture()
print("torch" in sys.modules, "numba" in sys.modules)
import_rest()
print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_opening_needs_no_torch_and_the_first_picture_no_numba(demo_checkpoint):
    assert run_python(PROGRAM, demo_checkpoint) == "False\nTrue False\nTrue\n"


def test_imports_wait_until_the_window_has_painted(monkeypatch):
    painted, imported = threading.Event(), threading.Event()
    monkeypatch.setattr("prune_gui.worker.jobs.MAX_PAINT_S", 60)
    monkeypatch.setattr("prune_gui.worker.jobs.import_for_first_picture", imported.set)
    engine = Engine(lambda _: None)
    engine.submit(warm_up_job(painted))
    assert not imported.wait(0.1)
    painted.set()
    assert imported.wait(60)
    assert engine.close()


@pytest.mark.very_slow
@pytest.mark.slow
def test_after_it_no_loop_is_missing(tmp_path):
    done = subprocess.run(
        isolated_command("prune_gui.worker.warm_up"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=110,
    )
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    total = counts[0][1]
    assert counts == [(part, total) for part in range(total + 1)]
    assert done.stderr == ""
    assert not any(job.work(Monitor()) for job in compile_jobs())
