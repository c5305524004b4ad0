"""A long user session: every way to apply the stack writes the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = Path(__file__).with_name("live_in_window.py")
ATTENTION_PROJECTIONS = ("self.query", "self.key", "self.value", "output.dense")
MLP_PROJECTIONS = ("intermediate", "output")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def run_session(checkpoint: Path, folder: Path, tree_filter: str, rest: str) -> None:
    """Run the session and what it copied; all files are written to the folder."""
    copy = Path(shutil.copy(checkpoint, folder / "model.safetensors"))
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "CACHE")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **homes, "PATH": path}

    def run(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=190,
            check=False,
        )  # fmt: skip

    killed = run(sys.executable, SCRIPT, "work", copy, tree_filter, rest, folder)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    restored = run(sys.executable, SCRIPT, "return", folder)
    assert restored.returncode == 0, restored.stderr
    output = folder / "model-pruned.safetensors"
    for name, command in (("command", ("sh", "command")), ("script", (sys.executable, "script"))):
        assert run(*command).returncode == 0
        output.rename(folder / f"by-{name}.safetensors")


def check_files(folder: Path, n_m_pruned: list[str], globally_pruned: list[str]) -> None:
    saved = (folder / "finalized.safetensors").read_bytes()
    assert (folder / "again.safetensors").read_bytes() == saved
    assert (folder / "by-command.safetensors").read_bytes() == saved
    assert (folder / "by-script.safetensors").read_bytes() == saved
    tensors = load_file(folder / "finalized.safetensors")
    for name in n_m_pruned:
        groups = tensors[name].flatten(1).view(-1, 4)
        assert (groups != 0).sum(1).max() == 2, name
    zeros = {name: (tensors[name] == 0).double() for name in globally_pruned}
    assert max(float(zero.mean()) for zero in zeros.values()) <= 0.9
    assert sum(zero.sum() for zero in zeros.values()) == pytest.approx(
        0.6 * sum(zero.numel() for zero in zeros.values()), abs=1
    )
    untouched = load_file(folder / "model.safetensors")
    for name in tensors.keys() - set(n_m_pruned) - zeros.keys():
        assert torch.equal(tensors[name], untouched[name])


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_session_on_the_demo_writes_the_same_bytes_in_every_way(demo_checkpoint, tmp_path):
    run_session(demo_checkpoint, tmp_path, "hidden.weight", "type:conv2d")
    convolutions = [f"features.conv{i}.weight" for i in (1, 2, 3)]
    check_files(tmp_path, ["classifier.hidden.weight"], convolutions)


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_session_on_a_transformer_writes_the_same_bytes_in_every_way(real_models, tmp_path):
    checkpoint, rest = real_models / "minilm/model.safetensors", "encoder.*.dense.weight"
    run_session(checkpoint, tmp_path, "attention type:linear weight", f"{rest}, !*attention*")
    layers = [f"encoder.layer.{i}" for i in range(6)]
    attention = [
        f"{layer}.attention.{name}.weight" for layer in layers for name in ATTENTION_PROJECTIONS
    ]
    others = [f"{layer}.{name}.dense.weight" for layer in layers for name in MLP_PROJECTIONS]
    check_files(tmp_path, attention, others)
