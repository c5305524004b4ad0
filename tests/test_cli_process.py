"""The command line as a process: its streams, its signals, its working folder, what it lacks."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.cli.apply import _read
from prune_gui.cli.printing import print_json
from prune_gui.cli.program import _outcome, cli
from prune_gui.errors import RecipeError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells, signals of POSIX")

PROGRAM = f"{shlex.quote(sys.executable)} -m prune_gui"
RECIPE = 'steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5}]\n'


def in_shell(line, folder, **variables):
    """Run a line of the shell in a folder; PROGRAM starts ours."""
    return subprocess.run(
        ["sh", "-c", line.replace("PROGRAM", f"exec {PROGRAM}")],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, check=False, timeout=100,
    )  # fmt: skip


def assert_one_line(done, says, code=1):
    assert done.returncode == code, done.stderr
    assert done.stderr.count(b"\n") == 1
    assert says in done.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    save_file({"layer.weight": torch.arange(4.0)}, tmp_path / "small.safetensors")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def test_a_recipe_on_standard_input_that_is_closed_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(RecipeError, match="Standard input is closed"):
        _read(Path("-"))


def test_a_recipe_on_standard_input_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", open("/dev/zero"))  # noqa: PTH123, SIM115
    with sys.stdin, pytest.raises(RecipeError, match="larger than 8,388,608 bytes"):
        _read(Path("-"))


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
def test_output_that_cannot_be_written_is_one_line(folder):
    assert_one_line(in_shell("PROGRAM --help >/dev/full", folder), "No space left on device")


def test_no_file_takes_the_place_of_a_stream_that_is_closed(folder):
    """C libraries write to descriptors 1 and 2 whatever they are of."""
    program = """
import os, sys
from prune_gui.cli import main
sys.argv = ["prune-gui", "--version"]
try:
    main()
finally:
    for descriptor in range(3):
        os.path.samefile(f"/dev/fd/{descriptor}", os.devnull) or os._exit(9)
"""
    (folder / "program.py").write_text(program)
    line = f"{shlex.quote(sys.executable)} program.py <&- >&- 2>&-"
    assert in_shell(line, folder).returncode == 0


def test_names_that_the_terminal_cannot_show_are_escaped(folder):
    save_file({"中é😀.weight": torch.zeros(2, 2)}, folder / "\udcff.safetensors")
    text = in_shell("PROGRAM inspect ?.safetensors", folder, PYTHONIOENCODING="latin-1", LC_ALL="C")
    assert (text.returncode, text.stderr) == (0, b"")
    assert r"\u4e2dé\U0001f600" in text.stdout.decode("latin-1")
    assert text.stdout.startswith(rb"\udcff.safetensors: safetensors")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_has_every_name_whatever_the_encoding(monkeypatch, encoding):
    value = {"name": "中é😀.weight", "path": "\udcff.safetensors"}
    stream = TextIOWrapper(BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(value)
    assert json.loads(stream.buffer.getvalue().decode(encoding)) == value


def test_a_working_folder_that_is_deleted_is_one_line(folder):
    line = "mkdir gone && cd gone && rmdir ../gone && PROGRAM inspect ../small.safetensors"
    assert_one_line(in_shell(line, folder), "the working folder no longer exists")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('inspect ""', "path is empty"),
        ('apply recipe.yaml small.safetensors -o ""', "path is empty"),
        ('""', "path is empty"),
        ("frobnicate", "neither a file or folder nor a command (inspect, apply, diff"),
        ("--recipe recipe.yaml frobnicate", "neither a file or folder nor a command"),
    ],
)
def test_what_names_nothing_is_wrong_usage(folder, arguments, says):
    done = in_shell(f"PROGRAM {arguments}", folder)
    assert done.returncode == 2
    assert says in done.stderr.decode()


def test_messages_are_bounded_lines(folder, monkeypatch):
    done = in_shell(f"PROGRAM {'x' * 5000}", folder)
    assert done.returncode == 2
    assert max(map(len, done.stderr.splitlines())) < 700

    def fail(**_):
        raise RecipeError("x" * 5000 + "\nprune-gui: forged")

    monkeypatch.setattr(cli, "main", fail)
    code, message = _outcome(None)
    assert (code, message.count("\n")) == (1, 0)
    assert len(message) < 700


def test_a_file_that_may_not_be_read_is_a_problem_of_input(folder):
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    (folder / "small.safetensors").chmod(0)
    assert_one_line(in_shell("PROGRAM inspect small.safetensors", folder), "Permission denied")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_libraries_that_find_no_memory_are_one_line(folder):
    done = in_shell("ulimit -v 400000; PROGRAM inspect small.safetensors", folder)
    assert_one_line(done, "Free memory")


def test_without_a_log_a_fault_is_told_in_full(folder):
    program = """
import sys
from prune_gui.cli import main, program
def fail(**_): raise ZeroDivisionError("on purpose")
program.cli.main = fail
main()
"""
    (folder / "state").write_text("no folder")
    (folder / "program.py").write_text(program)
    line = f"{shlex.quote(sys.executable)} program.py"
    done = in_shell(line, folder, XDG_STATE_HOME=str(folder / "state"))
    assert_one_line(done, "a fault of the program (ZeroDivisionError: on purpose).\n")


@pytest.mark.parametrize("library", ["click", "torch", "numba.core.typing"])
def test_an_interrupt_while_libraries_load_exits_with_130(folder, library):
    """Whoever imports the library may turn a KeyboardInterrupt into another error, or drop it."""
    program = f"""
import builtins, os, signal, sys
def importing(name, *arguments, import_any=builtins.__import__, **options):
    if name == {library!r}:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))  # the signal arrives within
        except KeyboardInterrupt:
            raise ImportError(name)
    return import_any(name, *arguments, **options)
builtins.__import__ = importing
from prune_gui.cli import main
sys.argv = ["prune-gui", "inspect", "small.safetensors"]
main()
"""
    (folder / "program.py").write_text(program)
    done = in_shell(f"exec {shlex.quote(sys.executable)} program.py", folder)
    assert (done.returncode, done.stdout) == (130, b""), done.stderr


@pytest.mark.slow
def test_a_request_to_end_while_saving_leaves_no_file_and_exits_with_143(folder):
    save_file({"large.weight": torch.zeros(1 << 26)}, folder / "large.safetensors")
    before = sorted(folder.iterdir())
    arguments = ["apply", "recipe.yaml", "large.safetensors", "-o", "out.safetensors"]
    running = subprocess.Popen(
        [sys.executable, "-m", "prune_gui", *arguments], cwd=folder, stderr=subprocess.PIPE
    )
    while running.poll() is None and sorted(folder.iterdir()) == before:
        time.sleep(0.01)  # until it has begun to write
    running.terminate()
    _, stderr = running.communicate(timeout=60)
    assert (running.returncode, stderr) == (143, b"prune-gui: Cancelled; nothing was changed.\n")
    assert sorted(folder.iterdir()) == before
