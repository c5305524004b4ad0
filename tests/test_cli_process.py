"""The command line as a process: streams, signals, working folder, names of any characters."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import save_file

from prune_gui.cli import _wait_without_spinning
from prune_gui.cli.apply import load_recipe
from prune_gui.cli.printing import print_json, print_line
from prune_gui.errors import RecipeError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells, signals of POSIX")

PROGRAM = f"{shlex.quote(sys.executable)} -m prune_gui"
RECIPE = 'steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5}]\n'


def in_shell(line, folder, **variables):
    """Run a shell command in a folder; PROGRAM is replaced by the command of this program."""
    return subprocess.run(
        ["sh", "-c", line.replace("PROGRAM", f"exec {PROGRAM}")],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, check=False, timeout=100,
    )  # fmt: skip


def assert_one_line(result, message, code=1):
    assert result.returncode == code, result.stderr
    assert result.stderr.count(b"\n") == 1
    assert message in result.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    save_file({"layer.weight": torch.arange(4.0)}, tmp_path / "small.safetensors")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def test_a_recipe_on_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(RecipeError, match="Standard input is closed"):
        load_recipe(Path("-"))


def test_a_recipe_on_endless_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", open("/dev/zero"))  # noqa: PTH123, SIM115
    with sys.stdin, pytest.raises(RecipeError, match="larger than 8,388,608 bytes"):
        load_recipe(Path("-"))


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
def test_unwritable_output_is_one_line_on_standard_error(folder):
    assert_one_line(in_shell("PROGRAM --help >/dev/full", folder), "No space left on device")


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_threads_spin_briefly_unless_the_user_says_how(monkeypatch, given, spins):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", environ := dict(given))
    _wait_without_spinning()
    assert environ.get("GOMP_SPINCOUNT") == spins


def test_no_file_gets_the_descriptor_of_a_closed_stream(folder):
    """C libraries write to descriptors 1 and 2, whatever files these refer to."""
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


@pytest.mark.slow
def test_names_that_the_terminal_cannot_show_are_escaped(folder):
    save_file({"中é😀.weight": torch.zeros(2, 2)}, folder / "\udcff.safetensors")
    text = in_shell("PROGRAM inspect ?.safetensors", folder, PYTHONIOENCODING="latin-1", LC_ALL="C")
    assert (text.returncode, text.stderr) == (0, b"")
    assert r"\u4e2dé\U0001f600" in text.stdout.decode("latin-1")
    assert text.stdout.startswith(rb"\udcff.safetensors: safetensors")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_keeps_every_name_in_any_encoding(monkeypatch, encoding):
    value = {"name": "中é😀.weight", "path": "\udcff.safetensors"}
    stream = TextIOWrapper(BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(value)
    assert json.loads(stream.buffer.getvalue().decode(encoding)) == value


def test_a_deleted_working_folder_is_one_line_on_standard_error(folder):
    line = "mkdir gone && cd gone && rmdir ../gone && PROGRAM inspect ../small.safetensors"
    assert_one_line(in_shell(line, folder), "the working folder no longer exists")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", ""], "path is empty"),
        (["apply", "recipe.yaml", "small.safetensors", "-o", ""], "path is empty"),
        ([""], "path is empty"),
        (["frobnicate"], "neither a file or folder nor a command (apply, compact, demo"),
        (["--recipe", "recipe.yaml", "frobnicate"], "neither a file or folder nor a command"),
        (["training"], "Choose from:   torch,   huggingface"),
        (["inspct", "x.pt"], "nor a command (did you mean inspect?)"),
        (["apply", "small.safetensors", "recipe.yaml", "-o", "o.pt"], "RECIPE comes before"),
        (["x" * 5000], "neither a file or folder nor a command"),
    ],
)
def test_an_empty_path_or_unknown_command_or_wrong_order_is_wrong_usage(arguments, message):
    result = prune_gui(*arguments)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ") or len(arguments[0]) > 1000
    assert max(map(len, result.stderr.splitlines())) < 700


def test_a_file_without_read_permission_is_a_problem_with_the_input(folder):
    if os.geteuid() == 0:
        pytest.skip("permissions do not apply to root")
    (folder / "small.safetensors").chmod(0)
    assert_one_line(in_shell("PROGRAM inspect small.safetensors", folder), "Permission denied")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_libraries_that_cannot_be_loaded_for_lack_of_memory_are_one_line(folder):
    result = in_shell("ulimit -v 400000; PROGRAM inspect small.safetensors", folder)
    assert_one_line(result, "Close other programs")


@pytest.mark.parametrize("start", ["demo", "small.safetensors"])
def test_a_missing_library_of_the_system_is_named(folder, start):
    missing = "libEGL.so.1: cannot open shared object file: No such file or directory"
    (folder / "PySide6").mkdir()
    (folder / "PySide6" / "__init__.py").write_text(f"raise ImportError({missing!r})")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    result = in_shell(f"PROGRAM {start}", folder, PYTHONPATH=path, QT_QPA_PLATFORM="offscreen")
    if start == "demo":
        assert f"{missing}. Running without a window.\n" in result.stdout.decode()
        assert (result.returncode, result.stderr) == (0, b"")
    else:
        assert_one_line(result, f"{missing}. Install the package of your system")


def test_without_a_log_a_fault_is_reported_in_full(folder):
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
    result = in_shell(line, folder, XDG_STATE_HOME=str(folder / "state"))
    assert_one_line(result, "internal error (ZeroDivisionError: on purpose).\n")


def test_garbage_is_collected_once_a_job_has_begun(folder):
    program = """
import gc
from prune_gui.cli import main, printing, program
def run():
    print(gc.isenabled())
    with printing.job("Counting", with_bar=False):
        print(gc.isenabled())
program.run = run
main()
"""
    (folder / "program.py").write_text(program)
    result = in_shell(f"{shlex.quote(sys.executable)} program.py", folder)
    assert result.stdout.decode().split() == ["False", "True"], result.stderr


@pytest.mark.parametrize("library", ["click", "torch", "numba.core.typing"])
@pytest.mark.slow
def test_an_interrupt_while_libraries_load_exits_with_130(folder, library):
    """A module that imports the library may replace or ignore a KeyboardInterrupt."""
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
from prune_gui.pruning.kernels.loop import interpret_up_to
interpret_up_to(0)
sys.argv = ["prune-gui", "apply", "recipe.yaml", "small.safetensors", "-o", "out.safetensors"]
main()
"""
    (folder / "program.py").write_text(program)
    result = in_shell(f"exec {shlex.quote(sys.executable)} program.py", folder)
    assert (result.returncode, result.stdout) == (130, b""), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_saving_leaves_no_file(folder, number, code):
    save_file({"large.weight": torch.zeros(1 << 26)}, folder / "large.safetensors")
    before = sorted(folder.iterdir())
    arguments = ["apply", "recipe.yaml", "large.safetensors", "-o", "out.safetensors"]
    process = subprocess.Popen(
        [sys.executable, "-m", "prune_gui", *arguments], cwd=folder, stderr=subprocess.PIPE
    )
    while process.poll() is None and sorted(folder.iterdir()) == before:
        time.sleep(0.01)  # until it starts to write
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (code, b"prune-gui: Cancelled; nothing was changed.\n")
    assert sorted(folder.iterdir()) == before


NAMES = (
    "a\nWarning: forged",
    "\x1b[31mred",
    "\x9b2J",
    "\u202egpj",
    "\u2066x",
    "\u3164",
    "<b>x</b>",
    "%s {name}",
    "\r\x08over",
)
FORGED = ("Warning: forged", "forged")


def run(*arguments):
    """Run the program, and return its exit code, output and error output."""
    result = prune_gui(*arguments)
    for text in (result.stdout, result.stderr):
        assert text.replace("\n", "").isprintable()
        assert "\u3164" not in text or "--json" in arguments
        assert not any(line.startswith(FORGED) for line in text.split("\n"))
    return result.returncode, result.stdout, result.stderr


@pytest.fixture
def hostile(tmp_path):
    """Return a checkpoint whose file name, tensor names and metadata are hostile."""
    path = tmp_path / "m\nWarning: forged\x1b[2J\u202e.safetensors"
    tensors = {f"{name}.{inner}": torch.ones(2, 3) for name in NAMES for inner in NAMES[:2]}
    metadata = {name: f"{name}\u2028Warning: forged" for name in NAMES}
    save_file(tensors, path, metadata)
    return path


def test_json_keeps_the_names_and_prints_no_control_sequences(hostile):
    code, out, _ = run("inspect", "--json", hostile)
    printed = json.loads(out)
    assert code == 0
    assert printed["path"] == str(hostile)
    assert {tensor["name"].rpartition(".")[0] for tensor in printed["tensors"]} >= set(NAMES[2:])
    assert printed["metadata"][NAMES[0]] == f"{NAMES[0]}\u2028Warning: forged"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("inspect {hostile}", [r"\x1b[31mred", "    Warning: forged"]),
        ("diff {hostile} {other}", ["only in A"]),
        ("apply {recipe} {hostile} -o {out}", [r"out\nWarning: forged.safetensors"]),
    ],
)
def test_no_command_prints_a_forged_line(hostile, tmp_path, command, shown):
    files = {"hostile": hostile, "other": tmp_path / "other.safetensors", "recipe": tmp_path / "r"}
    files["out"] = tmp_path / "out\nWarning: forged.safetensors"
    save_file(
        {NAMES[0]: torch.zeros(2, 3), NAMES[1]: torch.ones(1)}, files["other"], {NAMES[1]: NAMES[0]}
    )
    files["recipe"].write_text('steps: [{method: l1_unstructured, targets: ["*"], amount: 0.5}]')
    code, out, _ = run(*(word.format(**files) for word in command.split()))
    assert code == 0
    assert all(text in out for text in shown)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_one_line_of_less_than_700_characters(tmp_path, name):
    code, out, err = run("inspect", tmp_path / f"{name}{'x' * 5000}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


def test_a_recipe_with_a_hostile_method_name_is_refused_in_one_line(hostile, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(json.dumps({"steps": [{"method": NAMES[1] + "y" * 5000, "targets": ["*"]}]}))
    code, out, err = run("apply", recipe, hostile, "-o", tmp_path / "out.pt")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_printed_as_plain_text(name):
    code, out, err = run("inspect", "a", name)
    assert (code, out) == (2, "")
    assert "unexpected extra argument" in err


def test_say_prints_one_line(capsys):
    print_line("a\nb\x1b")
    print_line()
    assert capsys.readouterr().out == "a\\nb\\x1b\n\n"
