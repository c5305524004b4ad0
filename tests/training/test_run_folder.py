"""The film of a run shows every mask that there was."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from prune_gui import Recipe, training
from prune_gui.errors import TrainingError


def record_run(folder, steps=7, **resume):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(12, 21), nn.Tanh(), nn.Linear(21, 3))
    optimizer = torch.optim.Adam(network.parameters(), 0.1)
    step = {"method": "l1_unstructured", "targets": ["?.weight"], "scope": "global"}
    schedule = (
        *training.cubic(0.2, 0.6, steps=4, every=2),
        training.Update(6, replaced=0.5),
    )
    recipe = Recipe.model_validate({"steps": [step]})
    kept = training.keep(network, optimizer, recipe, schedule=schedule, run=folder, **resume)
    seen = {}
    for number in range(steps):
        seen[number] = {name: mask.bits.numpy().copy() for name, mask in kept.masks.items()}
        optimizer.zero_grad()
        loss = network(torch.randn(8, 12)).square().mean()
        kept.loss = loss.item()
        loss.backward()
        optimizer.step()
    kept.save(folder)
    return seen


def test_frames_are_the_masks_in_any_order(tmp_path):
    seen = record_run(tmp_path)
    run = training.Run(tmp_path)
    assert [(frame.step, frame.event) for frame in run.frames] == [
        (0, "start"), (0, "pruned"), (2, "pruned"), (4, "pruned"), (6, "replaced"),
    ]  # fmt: skip
    assert run.shapes == {"0.weight": (21, 12), "2.weight": (3, 21)}
    for index in (4, 1, 3, 2, 4, 2):
        for name in run.shapes:
            assert np.array_equal(run.bits(name, index), seen[run.frames[index].step][name])
    sparsity = run.curve("sparsity", "0.weight")
    assert sparsity[0] == 0 < sparsity[1] < sparsity[2] < sparsity[3] == sparsity[4]
    last = run.frames[-1]
    assert last.newly_pruned == last.newly_kept
    assert run.curve("changed", "0.weight")[-1] == 2 * last.newly_kept["0.weight"] / 252
    assert run.frames[1].loss is None
    assert last.loss is not None


def test_a_run_is_read_while_it_is_written(tmp_path):
    record_run(tmp_path, steps=3)
    events = tmp_path / "events.jsonl"
    whole = events.read_bytes()
    events.write_bytes(whole[:-5])
    run = training.Run(tmp_path)
    assert len(run.frames) == 2
    events.write_bytes(whole)
    assert run.update() == 1
    assert run.update() == 0
    assert run.frames[-1].step == 2


def test_a_resumed_run_goes_on_from_its_step(tmp_path):
    record_run(tmp_path, steps=3)
    kept = tmp_path / "masks.safetensors"
    saved = kept.read_bytes()
    record_run(tmp_path, steps=3, resume=tmp_path)
    assert [frame.step for frame in training.Run(tmp_path).frames] == [0, 0, 2, 4, 6]
    kept.write_bytes(saved)
    run = training.Run(tmp_path)
    run.bits("0.weight", 4)
    record_run(tmp_path, steps=1, resume=tmp_path)
    run.update()
    assert [frame.step for frame in run.frames] == [0, 0, 2, 4]
    with safe_open(kept, "np") as file:
        assert np.array_equal(run.bits("0.weight", 3), file.get_tensor("0.weight"))
    with pytest.raises(TrainingError, match="another run"):
        record_run(tmp_path)
    assert len(training.Run(tmp_path).frames) == 4


@pytest.mark.parametrize("content", [None, b"", b"nothing\n", b'{"step": 1}\n'])
def test_a_folder_without_a_run_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "events.jsonl").write_bytes(content)
    with pytest.raises(TrainingError, match=tmp_path.name):
        training.Run(tmp_path)
