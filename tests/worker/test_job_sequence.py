"""Results and titles of job sequences."""

from __future__ import annotations

import pytest
import torch
from foreign import foreign
from safetensors.torch import load_file, save_file

from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.output import OutputOptions
from prune_gui.worker.job_sequence import batch_jobs, sweep_jobs
from prune_gui.worker.jobs import open_job

STEP = Step(method=METHODS["l1_unstructured"](amount=0.5), targets=("w",))


@pytest.fixture
def path(tmp_path):
    save_file({"w": torch.arange(8.0)}, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_sweep_uses_the_recipe_at_the_time_of_the_call(path):
    session = open_job(path).work(Monitor())
    session.add(STEP)
    jobs = sweep_jobs(session, 1, (0.25, 6))
    session.undo()
    with session.checkpoint:
        assert [job.work(Monitor()).pruned for job in jobs] == [2, 6]
    assert [job.title for job in jobs] == ["Trying amount 1 of 2", "Trying amount 2 of 2"]


@pytest.mark.usefixtures("foreign_language")
def test_titles_of_job_sequences_are_translated(path):
    session = open_job(path).work(Monitor())
    with session.checkpoint:
        [trying] = sweep_jobs(session, 1, (0.25,))
    [pruning] = batch_jobs(Recipe(steps=(STEP,)), [path], None, OutputOptions())
    assert tr(trying.title) == foreign("Trying amount {} of {}").format(1, 1)
    assert tr(pruning.title) == foreign("Pruning {} ({} of {})").format("model.safetensors", 1, 1)


def test_a_batch_has_one_job_per_checkpoint(path, tmp_path):
    (tmp_path / "out").mkdir()
    missing = tmp_path / "gone.safetensors"
    jobs = batch_jobs(Recipe(steps=(STEP,)), [missing, path], tmp_path / "out", OutputOptions())
    bad, good = [job.work(Monitor()) for job in jobs]
    assert "does not exist" in bad.error
    assert int((load_file(good.out)["w"] == 0).sum()) == 4
    assert jobs[1].title == "Pruning model.safetensors (2 of 2)"
    [unwritten] = batch_jobs(Recipe(steps=(STEP,)), [path], None, OutputOptions())
    assert unwritten.work(Monitor()).out is None
