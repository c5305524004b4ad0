"""Drive the built program itself: ``python packaging/smoke_test.py FOLDER_OR_PROGRAM``.

The program runs in an environment without Python: PATH names an empty folder, and no variable of
this environment is passed on. First the command line is used, with a plug-in and evaluators, then
the window, on a display of its own, by keys. Needs Xvfb, xdotool, a window manager (openbox) and
ImageMagick. Prints what works; the first failure ends the test with exit code 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RESOURCES: Final = ROOT / "resources"
DEMO: Final = RESOURCES / "demo" / "digits_cnn.safetensors"
TIMEOUT_S: Final = 120
POLL_INTERVAL_S: Final = 0.2
SETTLE_S: Final = 3
"""Time for the pictures of the window to be drawn before the screenshot."""
MIN_COLOURS: Final = 300
"""Colours of a screenshot that is not blank."""
EVALUATOR: Final = """
import torch
def evaluate(state_dict):
    return {"kept": float(sum(tensor.count_nonzero() for tensor in state_dict.values()))}
"""
SCRIPT: Final = """
import json, sys
import beside
with open(sys.argv[1], "rb") as file:
    print(json.dumps({"size": len(file.read()) + beside.NONE}))
"""


class Program:
    """The built program, with the environment and the folder that it runs in."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.cache = folder / "home" / ".cache" / "prune-gui"
        for name in ("home", "empty", "run"):
            (folder / name).mkdir(mode=0o700)
        self.environment = {
            "HOME": str(folder / "home"),
            "PATH": str(folder / "empty"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "LANG": "C.UTF-8",
        }

    def run(self, *arguments: object) -> str:
        """Run a command, and return its output. It must succeed and print no error."""
        done = subprocess.run(
            [self.path, *map(str, arguments)], env=self.environment, cwd=self.folder,
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        expect(done.returncode == 0, f"{arguments[0]} exits with {done.returncode}: {done.stderr}")
        return done.stdout

    def start(self, display: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start the window on a display."""
        environment = {**self.environment, "DISPLAY": display}
        command = [self.path, *map(str, arguments)]
        return subprocess.Popen(command, env=environment, cwd=self.folder)


def main() -> None:
    """Test the program that the command line names."""
    path = Path(sys.argv[1]).absolute()
    path = path / "prune-gui" if path.is_dir() else path
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, Path(folder))
        check_command_line(program)
        check_plug_in(program)
        check_evaluators(program)
        with virtual_display() as display:
            check_window(program, display)
    print("All of it works.")


def check_command_line(program: Program) -> None:
    """Inspect the demo, and prune it twice."""
    say(program.run("--version").strip())
    described = json.loads(program.run("inspect", DEMO, "--json"))
    expect(len(described["tensors"]) == 22, "inspect lists the tensors")
    recipe, seconds = DEMO.with_suffix(".yaml"), []
    for out in ("first.safetensors", "second.safetensors"):
        began = time.monotonic()
        program.run("apply", recipe, DEMO, "-o", out)
        seconds.append(time.monotonic() - began)
        say(f"apply: {seconds[-1]:.1f} s")
    first, second = (program.folder / f"{name}.safetensors" for name in ("first", "second"))
    expect(first.read_bytes() == second.read_bytes(), "both files are the same")
    program.run("verify", second)
    say("inspect, apply, verify")


def compiled(program: Program) -> Iterator[Path]:
    """Yield the files of compiled loops, in the cache of the user or beside the sources."""
    for folder in (program.cache, program.path.parent / "_internal" / "prune_gui"):
        yield from folder.rglob("*.nbc")


def check_plug_in(program: Program) -> None:
    """Prune with the method of a Python file, which runs in a process of its own."""
    example = RESOURCES / "examples" / "nearest_mean.py"
    program.run("apply", "--methods", example, example.with_suffix(".yaml"), DEMO, "-o", "own.pt")
    expect((program.folder / "own.pt").exists(), "the plug-in prunes")
    say("a plug-in")


def check_evaluators(program: Program) -> None:
    """Evaluate by a function and by a command, with the interpreter of the bundle."""
    (program.folder / "evaluator.py").write_text(EVALUATOR)
    (program.folder / "script.py").write_text(SCRIPT)
    (program.folder / "beside.py").write_text("NONE = 0\n")
    printed = program.run("evaluate", "--yes", "--json", "evaluator.py:evaluate", DEMO)
    expect('"kept"' in printed, "the function is called")
    printed = program.run("evaluate", "--yes", "--json", "python script.py {checkpoint}", DEMO)
    expect('"size"' in printed, "the command runs")
    say("evaluators: a function, and a command with python")


def check_window(program: Program, display: str) -> None:
    """Open the demo, look at the window, hand a file over, save by keys, and quit."""
    checkpoint = program.folder / "digits_cnn.safetensors"
    shutil.copy(DEMO, checkpoint)
    other = program.folder / "other.safetensors"
    shutil.copy(DEMO, other)
    began = time.monotonic()
    process = program.start(display, checkpoint, "--recipe", DEMO.with_suffix(".yaml"))
    try:
        wait(lambda: windows(display, "digits_cnn"), "the window shows the checkpoint", process)
        say(f"the window shows the checkpoint after {time.monotonic() - began:.1f} s")
        time.sleep(SETTLE_S)
        colours = int(screen(display, "identify", "-format", "%k", "png:-").strip() or 0)
        expect(colours > MIN_COLOURS, f"the window is not blank ({colours} colours)")
        screen(display, "convert", "png:-", os.environ.get("SCREENSHOT", "null:"))
        expect(program.start(display, other.as_uri()).wait(TIMEOUT_S) == 0, "a second start ends")
        wait(lambda: windows(display, "other"), "the running program opens its file", process)
        say("a second start hands its file over")
        press(display, windows(display, "other")[0], "ctrl+w")
        wait(lambda: not windows(display, "other"), "its window closes", process)
        [window] = windows(display, "digits_cnn")
        press(display, window, "ctrl+shift+s")
        wait(lambda: windows(display, "Save"), "the save dialog appears", process)
        time.sleep(SETTLE_S)  # it measures the sizes
        press(display, windows(display, "Save")[0], "Return")
        saved = program.folder / "digits_cnn-pruned.safetensors"
        wait(saved.exists, "the file is saved", process)
        expected = (program.folder / "first.safetensors").stat().st_size
        expect(abs(saved.stat().st_size - expected) < 1_000, "the file has the right size")
        wait(lambda: not windows(display, "Save"), "the dialog closes", process)
        wait(lambda: any(compiled(program)), "loops are compiled beside the window", process)
        say("loops are compiled beside the window")
        press(display, window, "ctrl+q")
        expect(process.wait(TIMEOUT_S) == 0, "the program exits with 0")
        say("the window saves a file, and exits with 0")
    finally:
        process.kill()


@contextmanager
def virtual_display() -> Iterator[str]:
    """Start a display with a window manager, and yield its name."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        display = f":{server.stdout.readline().decode().strip()}"
        environment = {**os.environ, "DISPLAY": display}
        with subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL) as manager:
            try:
                yield display
            finally:
                manager.kill()
                server.kill()


def windows(display: str, title: str) -> list[str]:
    """Return the visible windows whose title contains a text."""
    return x11(display, "xdotool", "search", "--onlyvisible", "--name", title).split()


def press(display: str, window: str, key: str) -> None:
    """Activate a window, and press a key."""
    x11(display, "xdotool", "windowactivate", "--sync", window)
    x11(display, "xdotool", "key", "--clearmodifiers", key)


def screen(display: str, *command: str) -> str:
    """Return what a command prints on a picture of the screen, which it gets as PNG."""
    picture = subprocess.run(
        ["import", "-display", display, "-window", "root", "png:-"], capture_output=True, check=True
    ).stdout
    return subprocess.run(command, input=picture, capture_output=True, check=True).stdout.decode()


def x11(display: str, *command: str) -> str:
    """Run a command on a display, and return what it prints; a search may find nothing."""
    environment: Mapping[str, str] = {**os.environ, "DISPLAY": display}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def wait(holds: Callable[[], object], what: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a condition holds; fail after `TIMEOUT_S`, or if the program ends."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        expect(process.poll() is None, f"{what}; the program ended with {process.poll()}")
        expect(time.monotonic() < deadline, what)
        time.sleep(POLL_INTERVAL_S)


def expect(holds: bool, what: str) -> None:
    """End the test if something does not hold."""
    if not holds:
        sys.exit(f"FAILED: {what}")


def say(text: str) -> None:
    """Print what works."""
    print(f"ok: {text}", flush=True)


if __name__ == "__main__":
    main()
