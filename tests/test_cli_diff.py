"""`prune-gui diff` as a process."""

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
def two_files(tmp_path):
    """Return two files: a tensor pruned to 2:4, one unchanged, one of another shape, one new."""
    w = torch.arange(1.0, 9).view(2, 4)
    a = {"w": w, "b": torch.ones(2), "r": torch.ones(2, 3)}
    b = {"w": w * torch.tensor([0, 1, 0, 1.0]), "b": a["b"], "r": torch.ones(3, 2), "n": w}
    save_file(a, tmp_path / "a.safetensors", {"kind": "dense"})
    save_file(b, tmp_path / "b.safetensors", {"kind": "pruned"})
    return tmp_path / "a.safetensors", tmp_path / "b.safetensors"


def test_the_table_lists_differing_tensors_and_ends_with_a_summary(two_files):
    result = diff(*two_files)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
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
def test_json_is_one_object_with_every_tensor(two_files):
    result = diff(*two_files, "--json")
    printed = json.loads(result.stdout)
    assert (result.returncode, result.stderr, printed["identical"]) == (0, "", False)
    assert printed["metadata"] == {"kind": ["dense", "pruned"]}
    rows = {row["name"]: row for row in printed["tensors"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "w": "changed", "b": "identical", "r": "shape", "n": "only_in_b",
    }  # fmt: skip
    assert rows["w"]["zeros"] == {"a": 0, "b": 4, "both": 0, "gained": 4, "lost": 0, "iou": 0.0}
    assert rows["w"]["b"]["n_m"] == ["2:4"]
    assert (rows["w"]["differing"], rows["w"]["largest_difference"]) == (4, 7.0)
    assert rows["n"]["a"] is None


@pytest.mark.slow
def test_a_file_is_byte_identical_to_itself(two_files):
    result = diff(two_files[0], two_files[0])
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1].startswith("3 tensors: all byte-identical")
    assert json.loads(diff(two_files[0], two_files[0], "--json").stdout)["identical"] is True


@pytest.mark.slow
def test_an_unreadable_file_is_one_line_and_exit_code_1(two_files, tmp_path):
    (tmp_path / "text.txt").write_text("no checkpoint")
    for other in ("nowhere.pt", tmp_path / "text.txt"):
        result = diff(two_files[0], other)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert diff(two_files[0]).returncode == 2
