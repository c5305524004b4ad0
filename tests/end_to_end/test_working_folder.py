"""Opening a checkpoint in a downloaded folder reads the checkpoint and runs no code of it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from python_process import python

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
MAY_BE_READ = {"model.safetensors", "config.json", "."}
"""The paths that may be read: the checkpoint, its config.json, and the folder listing."""


@pytest.fixture
def folder(demo_checkpoint, tmp_path):
    """Return a folder with a checkpoint and with files that libraries might read from it."""
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
    """Run Python in the folder, check that no file of it ran or changed, and return the output."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    homes = {f"XDG_{name}_HOME": str(folder.parent / name) for name in ("CONFIG", "STATE", "DATA")}
    result = python(*arguments, cwd=folder, env={**os.environ, **homes, **variables})
    assert result.returncode == 0, result.stderr
    assert not (folder.parent / "ran").exists(), (folder.parent / "ran").read_text()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    return result.stdout


@pytest.mark.slow
def test_commands_read_only_the_checkpoint_in_the_working_folder(folder, tmp_path):
    output = in_folder(folder, SCRIPT, "commands", tmp_path)
    assert set(json.loads(output.splitlines()[-1])) <= MAY_BE_READ
    assert "model.safetensors" in output


@pytest.mark.slow
def test_the_window_reads_only_the_checkpoint_in_the_working_folder(folder):
    output = in_folder(folder, SCRIPT, "window")
    assert set(json.loads(output.splitlines()[-1])) <= MAY_BE_READ
    assert "model.safetensors" in output


@pytest.mark.slow
def test_python_m_imports_nothing_from_the_working_folder(folder):
    assert "22 tensors" in in_folder(folder, "-m", "prune_gui", "inspect", "model.safetensors")


def test_python_m_works_in_a_checkout(demo_checkpoint):
    checkout = demo_checkpoint.parents[2]
    result = python("-m", "prune_gui", "--help", cwd=checkout)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_check_for_a_display_imports_nothing_from_the_working_folder(folder):
    program = (
        "from prune_gui.gui.runtime.qt_import import display_problem as p; assert p() is None, p()"
    )
    in_folder(folder, "-P", "-c", program, QT_QPA_PLATFORM="offscreen")
