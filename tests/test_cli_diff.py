"""What the command line says of two checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file


def diff(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "prune_gui", "diff", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture
def two(tmp_path):
    """Return two files: a tensor pruned to 2:4, one as it was, one of another shape, one new."""
    w = torch.arange(1.0, 9).view(2, 4)
    a = {"w": w, "b": torch.ones(2), "r": torch.ones(2, 3)}
    b = {"w": w * torch.tensor([0, 1, 0, 1.0]), "b": a["b"], "r": torch.ones(3, 2), "n": w}
    save_file(a, tmp_path / "a.safetensors", {"kind": "dense"})
    save_file(b, tmp_path / "b.safetensors", {"kind": "pruned"})
    return tmp_path / "a.safetensors", tmp_path / "b.safetensors"


def test_the_table_shows_what_differs_and_sums_up(two):
    done = diff(*two)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    [w] = [line.split() for line in lines if line.startswith("w ")]
    assert w == [
        *("w", "values", "2", "x", "4", "float32", "4", "7", "0", "->", "4", "4", "0", "0.000"),
        *("none", "->", "2:4"),
    ]
    assert any(line.split()[:3] == ["n", "only", "in"] for line in lines)
    assert any(line.startswith("r ") and "2 x 3 -> 3 x 2" in line for line in lines)
    assert not any(line.startswith("b ") for line in lines)
    assert "Metadata kind: differs" in lines
    assert lines[-1] == (
        "4 tensors: 1 byte-identical, 1 changed, 1 of another shape, 1 only in B; "
        "zeros 0 -> 4: 4 gained, 0 lost, IoU 0.000"
    )


@pytest.mark.slow
def test_json_is_one_object_with_every_tensor(two):
    done = diff(*two, "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr, said["identical"]) == (0, "", False)
    assert said["metadata"] == {"kind": ["dense", "pruned"]}
    rows = {row["name"]: row for row in said["tensors"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "w": "changed", "b": "identical", "r": "shape", "n": "only_in_b",
    }  # fmt: skip
    assert rows["w"]["zeros"] == {"a": 0, "b": 4, "both": 0, "gained": 4, "lost": 0, "iou": 0.0}
    assert rows["w"]["b"]["n_m"] == ["2:4"]
    assert (rows["w"]["differing"], rows["w"]["largest_difference"]) == (4, 7.0)
    assert rows["n"]["a"] is None


@pytest.mark.slow
def test_a_file_is_byte_identical_to_itself(two):
    done = diff(two[0], two[0])
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("3 tensors: all byte-identical")
    assert json.loads(diff(two[0], two[0], "--json").stdout)["identical"] is True


@pytest.mark.slow
def test_what_cannot_be_opened_is_one_line_and_exit_1(two, tmp_path):
    (tmp_path / "text.txt").write_text("no checkpoint")
    for other in ("nowhere.pt", tmp_path / "text.txt"):
        done = diff(two[0], other)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert diff(two[0]).returncode == 2
