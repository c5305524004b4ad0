"""A folder of checkpoints of a training is a run; its film shows every mask that there was."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from prune_gui import Recipe, training
from prune_gui.errors import CheckpointError, TrainingError

SHAPES = {"layers.0.weight": (24, 40), "layers.1.weight": (8, 24)}


def states(count=3):
    generator = torch.Generator().manual_seed(0)
    result = []
    for index in range(count):
        state = {name: torch.randn(s, generator=generator) for name, s in SHAPES.items()}
        state["layers.0.weight"][:, : 8 * index] = 0
        result.append({**state, "steps": torch.tensor(index)})
    return result


def write(folder, pattern, numbers, contents=None):
    contents = states() if contents is None else contents
    for number, state in zip(numbers, contents, strict=True):
        path = folder / pattern.format(number, other=7 - len(str(number)))
        if path.suffix == ".safetensors":
            path.parent.mkdir(exist_ok=True)
            save_file(state, path)
        elif path.suffix == ".ckpt":
            torch.save({"epoch": 1, "state_dict": state, "optimizer_states": [{}]}, path)
        else:
            torch.save(state, path)


@pytest.mark.parametrize(
    "pattern",
    [
        "checkpoint-{}/model.safetensors",
        "epoch={other}-step={}.ckpt",
        "model_{:05}.safetensors",
        "net16-{}-v2.pt",
    ],
)
def test_checkpoints_are_frames_in_the_order_of_their_steps(tmp_path, pattern):
    write(tmp_path, pattern, (500, 1000, 9500))
    (tmp_path / "last.ckpt").write_bytes(b"")
    for number in (500, 1000, 9500, 9600):
        torch.save({}, tmp_path / f"optimizer_{number}.pt")
    run = training.CheckpointRun(tmp_path)
    assert [frame.step for frame in run.frames] == [500, 1000, 9500]
    assert run.shapes == SHAPES
    weights = [state["layers.0.weight"].double() for state in states()]
    first = weights[0].norm()
    moved = [(b - a).norm() / a.norm() for a, b in pairwise(weights)]
    expected = {
        "sparsity": [0, 8 / 40, 16 / 40],
        "changed": [0, 8 / 40, 8 / 40],
        "norm": [weight.norm() for weight in weights],
        "from_first": [(weight - weights[0]).norm() / first for weight in weights],
        "from_previous": [0, *moved],
    }
    for quantity, values in expected.items():
        found = run.curve(quantity, "layers.0.weight")
        assert found == pytest.approx(list(map(float, values)), rel=1e-6)
    whole = torch.cat([states()[0][name].flatten() for name in SHAPES])
    assert run.curve("norm")[0] == pytest.approx(float(whole.norm()), rel=1e-6)
    for index in (2, 0):
        zeros = np.packbits((weights[index] == 0).numpy(), bitorder="little")
        assert np.array_equal(run.bits("layers.0.weight", index), zeros)


def test_later_checkpoints_follow_when_they_are_whole(tmp_path):
    contents = states(4)
    write(tmp_path, "{}.safetensors", (1, 2), contents[:2])
    run = training.CheckpointRun(tmp_path)
    write(tmp_path, "{}.safetensors", (3,), contents[2:3])
    path = tmp_path / "3.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert run.update() == 0
    assert path in run.watched
    path.write_bytes(whole)
    assert run.update() == 1
    (tmp_path / "1.safetensors").unlink()  # as with a limit of kept checkpoints
    del contents[3]["layers.1.weight"]
    write(tmp_path, "{}.safetensors", (4,), contents[3:])
    assert run.update() == 1
    weights = [state["layers.0.weight"] for state in contents]
    before, now = weights[2:]
    moved = float((now - before).norm() / before.norm())
    assert run.curve("from_previous", "layers.0.weight")[3] == pytest.approx(moved, rel=1e-6)
    assert np.isnan(run.curve("from_first", "layers.0.weight")).tolist() == [False] * 3 + [True]
    assert np.isnan(run.curve("norm", "layers.1.weight")).tolist() == [False] * 3 + [True]
    assert list(run.frames[3].pruned) == ["layers.0.weight"]
    assert not run.bits("layers.1.weight", 3).any()
    with pytest.raises(CheckpointError, match=r"1\.safetensors"):
        run.bits("layers.0.weight", 0)


def test_masks_of_pruned_modules_are_zeros(tmp_path):
    mask = torch.arange(6).reshape(2, 3) % 2
    weights = [torch.full((2, 3), 1.0 + step) for step in range(2)]
    contents = [{"a.weight_orig": weight, "a.weight_mask": mask.float()} for weight in weights]
    write(tmp_path, "{}.pt", (1, 2), contents)
    run = training.CheckpointRun(tmp_path)
    assert run.curve("sparsity").tolist() == [0.5, 0.5]
    assert run.curve("norm") == pytest.approx([3**0.5, 12**0.5])


@pytest.mark.parametrize("count", [0, 1])
def test_a_folder_without_several_checkpoints_is_refused(tmp_path, count):
    write(tmp_path, "model-{}.safetensors", range(count), states(count))
    for part in (1, 2):
        shutil.copy(__file__, tmp_path / f"model-0000{part}-of-00002.safetensors")
    with pytest.raises(TrainingError, match=tmp_path.name):
        training.CheckpointRun(tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path):
    write(tmp_path, "model-{}.safetensors", (1, 2, 3))
    (tmp_path / "model-2.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"model-2\.safetensors"):
        training.CheckpointRun(tmp_path)


def test_a_file_is_no_folder_of_checkpoints(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(TrainingError, match=r"model.safetensors cannot be read as a run"):
        training.CheckpointRun(tmp_path / "model.safetensors")


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
