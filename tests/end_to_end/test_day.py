"""A person's day at the program: whatever way the stack is carried out, the bytes are the same."""

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
PROJECTIONS = ("self.query", "self.key", "self.value", "output.dense")
BESIDE_THEM = ("intermediate", "output")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process dies otherwise there")


def a_day(checkpoint: Path, folder: Path, sought: str, rest: str) -> None:
    """Live through it, and carry out what was copied; leave all files in the folder."""
    own = Path(shutil.copy(checkpoint, folder / "model.safetensors"))
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "CACHE")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **homes, "PATH": path}

    def run(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=110,
            check=False,
        )  # fmt: skip

    worked = run(sys.executable, SCRIPT, "work", own, sought, rest, folder)
    assert worked.returncode == -signal.SIGKILL, worked.stderr
    back = run(sys.executable, SCRIPT, "return", folder)
    assert back.returncode == 0, back.stderr
    made = folder / "model-pruned.safetensors"
    for name, command in (("command", ("sh", "command")), ("script", (sys.executable, "script"))):
        assert run(*command).returncode == 0
        made.rename(folder / f"by-{name}.safetensors")


def check_a_day(folder: Path, sought: list[str], rest: list[str]) -> None:
    saved = (folder / "finalized.safetensors").read_bytes()
    assert (folder / "again.safetensors").read_bytes() == saved
    assert (folder / "by-command.safetensors").read_bytes() == saved
    assert (folder / "by-script.safetensors").read_bytes() == saved
    tensors = load_file(folder / "finalized.safetensors")
    for name in sought:
        groups = tensors[name].flatten(1).view(-1, 4)
        assert (groups != 0).sum(1).max() == 2, name
    shares = {name: (tensors[name] == 0).double() for name in rest}
    assert max(float(share.mean()) for share in shares.values()) <= 0.9
    assert sum(share.sum() for share in shares.values()) == pytest.approx(
        0.6 * sum(share.numel() for share in shares.values()), abs=1
    )
    untouched = load_file(folder / "model.safetensors")
    for name in tensors.keys() - set(sought) - shares.keys():
        assert torch.equal(tensors[name], untouched[name])


def test_a_day_at_the_demo(demo_checkpoint, tmp_path):
    a_day(demo_checkpoint, tmp_path, "hidden.weight", "type:conv2d")
    convolutions = [f"features.conv{i}.weight" for i in (1, 2, 3)]
    check_a_day(tmp_path, ["classifier.hidden.weight"], convolutions)


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_day_at_a_transformer(real_models, tmp_path):
    checkpoint, rest = real_models / "minilm/model.safetensors", "encoder.*.dense.weight"
    a_day(checkpoint, tmp_path, "attention type:linear weight", f"{rest}, !*attention*")
    layers = [f"encoder.layer.{i}" for i in range(6)]
    attention = [f"{layer}.attention.{name}.weight" for layer in layers for name in PROJECTIONS]
    others = [f"{layer}.{name}.dense.weight" for layer in layers for name in BESIDE_THEM]
    check_a_day(tmp_path, attention, others)
