"""A folder of checkpoints of a training is a run, whose masks are the zeros."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prune_gui import training
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
