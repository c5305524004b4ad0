"""A second start of the program hands its file to the running one."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from python_process import python

RUNNING = """
import sys
from pathlib import Path
from prune_gui.gui.app import run
from prune_gui.gui.window import MainWindow

shown = MainWindow.showEvent
def show(window, event):
    shown(window, event)
    print("shown", flush=True)
    def say(changes):
        session = window.workbench.session
        if changes.resolution and session is not None:
            print(session.checkpoint.path, len(session.steps), flush=True)
            window.close()
    window.workbench.changed.connect(say)
MainWindow.showEvent = show
sys.exit(run(None, None))
"""


@pytest.fixture
def environment(tmp_path):
    names = ("CONFIG", "STATE", "CACHE", "DATA")
    homes = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in names}
    return {**os.environ, **homes, "QT_QPA_PLATFORM": "offscreen"}


@pytest.fixture
def running(environment, tmp_path):
    """Return the running program, once its window is shown."""
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", RUNNING], env=environment, stdout=subprocess.PIPE, stderr=errors,
            text=True, cwd="/",
        ) as process,
    ):  # fmt: skip
        assert process.stdout.readline() == "shown\n"
        yield process
        process.kill()


def start(environment, folder, *arguments):
    return python("-m", "prune_gui", *arguments, env=environment, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("as_url", [False, True])
def test_a_second_start_opens_its_file_in_the_running_window(
    running, environment, demo_checkpoint, tmp_path, as_url
):
    path = tmp_path / "other name.safetensors"
    shutil.copy(demo_checkpoint, path)
    recipe = demo_checkpoint.with_suffix(".yaml")
    argument = path.as_uri() if as_url else path.name
    second = start(environment, tmp_path, argument, "--recipe", recipe)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert running.stdout.read().splitlines() == [f"{path} 3"]
    assert running.wait(60) == 0
    assert "Traceback" not in (tmp_path / "errors").read_text()


@pytest.mark.slow
def test_a_start_after_a_crash_opens_its_own_window(running, environment, demo_checkpoint):
    running.send_signal(signal.SIGKILL)
    running.wait()
    with subprocess.Popen(
        [sys.executable, "-c", RUNNING.replace("run(None", f"run(Path({str(demo_checkpoint)!r})")],
        env=environment, stdout=subprocess.PIPE, text=True,
    ) as after:  # fmt: skip
        assert after.stdout.readline() == "shown\n"
        assert after.wait(60) == 0


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("option", [True, False])
def test_a_new_instance_on_demand_or_for_other_settings(
    running, environment, demo_checkpoint, tmp_path, option
):
    if not option:
        environment = {**environment, "XDG_CONFIG_HOME": str(tmp_path / "others")}
    call = f"run(Path({str(demo_checkpoint)!r}), None, new_instance={option})"
    own = python("-c", RUNNING.replace("run(None, None)", call), env=environment)
    assert own.returncode == 0
    assert own.stdout.startswith("shown\n")
    assert running.poll() is None


SCRIPT = Path(__file__).with_name("leave_window.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def leave(tmp_path):
    """Return a function that runs the script, each time with the same settings folder."""
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE", "CACHE")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return python(SCRIPT, *arguments, env={**os.environ, **homes})

    return run


@pytest.mark.slow
def test_the_steps_of_a_killed_window_are_restored(leave, demo_checkpoint):
    assert leave("kill", demo_checkpoint).returncode == -signal.SIGKILL
    result = leave("return")
    assert (result.returncode, result.stdout) == (0, "digits_cnn.safetensors *.weight True\n"), (
        result.stderr
    )


@pytest.mark.slow
def test_a_folder_whose_steps_are_restored_is_not_opened_a_second_time(
    leave, demo_checkpoint, tmp_path
):
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(demo_checkpoint, folder)
    assert leave("kill", folder).returncode == -signal.SIGKILL
    result = leave("return", folder)
    assert (result.returncode, result.stdout) == (0, "digits_cnn.safetensors *.weight True\n"), (
        result.stderr
    )


@pytest.mark.slow
def test_the_next_start_reports_where_a_window_crashed(leave, demo_checkpoint):
    assert leave("crash", demo_checkpoint).returncode == -signal.SIGSEGV
    result = leave("return")
    restored = "digits_cnn.safetensors *.weight True\n"
    assert (result.returncode, result.stdout) == (
        0, restored + "Fatal Python error: Segmentation fault\n",
    ), result.stderr  # fmt: skip
