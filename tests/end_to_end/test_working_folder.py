"""A downloaded folder: opening a checkpoint there reads the checkpoint, and runs nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("watch_folder.py")
RECIPE = 'steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5}]\n'
NUMBA = "cache_dir: numba_cache\nchrome_trace: model.safetensors\nnum_threads: 0\ndebug: 1\n"
MODULES = (
    *("yaml", "torch", "numpy", "numba", "click", "lazy_loader", "platformdirs", "pydantic"),
    *("PySide6", "prune", "sitecustomize", "usercustomize", "signature_bootstrap"),
    *("_ops", "_classes", "psutil", "lib/torch", "shibokensupport/feature"),
)
CONFIGURATIONS = (
    *(".env", "matplotlibrc", "qt.conf", "qt6.conf", "qtlogging.ini", "pyvenv.cfg", "setup.cfg"),
    *("pyproject.toml", "fonts.conf", "settings.json", "prune-gui.log", "libtorch_cpu.so"),
    *("platforms/libqoffscreen.so", "styles/libstyle.so", "numba/index.nbi"),
    "evil-1.0.dist-info/entry_points.txt",
)
READ = {"model.safetensors", "config.json", "."}
"""What DESIGN names: the checkpoint, what it says of its model, and any index of shards."""


@pytest.fixture
def folder(demo_checkpoint, tmp_path):
    """Return a folder with a checkpoint and files that libraries would read from it."""
    folder = tmp_path / "downloaded"
    for name in CONFIGURATIONS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[prune_gui.methods]\nevil = evil\n")
    for name in MODULES:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    (folder / ".numba_config.yaml").write_text(NUMBA)
    (folder / "config.json").write_text("{}")
    shutil.copy(demo_checkpoint, folder / "model.safetensors")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return folder


def in_folder(folder: Path, *arguments: object, **variables: str) -> str:
    """Run Python there, check that nothing there ran or changed, and return what it printed."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    homes = {f"XDG_{name}_HOME": str(folder.parent / name) for name in ("CONFIG", "STATE", "DATA")}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder, env={**os.environ, **homes, **variables},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (folder.parent / "ran").exists(), (folder.parent / "ran").read_text()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    return done.stdout


def test_commands_open_the_checkpoint_and_nothing_else_of_the_working_folder(folder, tmp_path):
    said = in_folder(folder, SCRIPT, "commands", tmp_path)
    assert set(json.loads(said.splitlines()[-1])) <= READ
    assert "model.safetensors" in said


@pytest.mark.slow
def test_the_window_opens_the_checkpoint_and_nothing_else_of_the_working_folder(folder):
    said = in_folder(folder, SCRIPT, "window")
    assert set(json.loads(said.splitlines()[-1])) <= READ
    assert "model.safetensors" in said


def test_started_as_a_module_it_imports_nothing_from_the_working_folder(folder):
    assert "22 tensors" in in_folder(folder, "-m", "prune_gui", "inspect", "model.safetensors")


def test_started_as_a_module_it_is_found_in_a_checkout(demo_checkpoint):
    checkout = demo_checkpoint.parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "prune_gui", "--help"],
        cwd=checkout,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_check_for_a_display_imports_nothing_from_the_working_folder(folder):
    program = (
        "from prune_gui.gui.runtime.display import display_problem as p; assert p() is None, p()"
    )
    in_folder(folder, "-P", "-c", program, QT_QPA_PLATFORM="offscreen")
