"""Start, end and errors of the application, each in a subprocess."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PRELUDE = """
import os, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from prune_gui.gui import app
from prune_gui.gui.window import MainWindow
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code after the prelude, and return the process."""
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.slow
def test_the_window_is_shown_before_torch_and_pyqtgraph_are_imported():
    done = run(
        """
        shown = MainWindow.showEvent
        def look(window, event):
            assert "torch" not in sys.modules
            assert "numba" not in sys.modules
            assert "pyqtgraph" not in sys.modules
            print("shown")
            shown(window, event)
            window.workbench.ready.connect(window.close)
        MainWindow.showEvent = look
        code = app.run(None, None)
        print("torch" in sys.modules and "pyqtgraph" in sys.modules)
        sys.exit(code)
        """
    )
    assert (done.returncode, done.stdout) == (0, "shown\nTrue\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "opened"), [("asked", ["asked", "lost"]), ("lost", ["lost"])])
def test_the_given_checkpoint_is_opened_beside_recovered_ones(
    demo_checkpoint, tmp_path, asked, opened
):
    for name in ("asked", "lost"):
        shutil.copy(demo_checkpoint, tmp_path / f"{name}.safetensors")
    done = run(
        f"""
        from prune_gui.gui.dialogs import recovery
        from prune_gui.session.kept_recipes import Unsaved, _folder
        folder = Path({str(tmp_path)!r})
        unsaved = Unsaved(
            checkpoint=folder / "lost.safetensors",
            recipe="steps: [{{method: identity, targets: ['*.weight']}}]",
            folder=folder,
            written=0.0,
            process=(2**22, 0.0),
        )
        _folder().mkdir(parents=True)
        (_folder() / "a.unsaved.json").write_text(unsaved.model_dump_json())
        recovery._ask = lambda *_: "restore"
        opened = []
        def note(window):
            opened.append(window.workbench.session.checkpoint.path.stem)
            if len(opened) == {len(opened)}:
                QApplication.exit(0)
        MainWindow._opened = note
        app.run(folder / "{asked}.safetensors", None)
        windows = sum(isinstance(w, MainWindow) for w in QApplication.topLevelWidgets())
        print(windows, *sorted(opened))
        """
    )
    assert (done.returncode, done.stdout) == (0, f"{len(opened)} {' '.join(opened)}\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent another way there")
def test_an_interrupt_ends_the_program_cleanly():
    done = run(
        f"""
        QTimer.singleShot(0, lambda: None)
        def interrupt(window, event):
            QTimer.singleShot(300, lambda: os.kill(os.getpid(), {int(signal.SIGINT)}))
        MainWindow.showEvent = interrupt
        sys.exit(app.run(None, None))
        """
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_is_logged_and_shown_once_without_a_traceback():
    done = run(
        """
        from prune_gui.session import start_log
        start_log()
        def fail():
            raise ZeroDivisionError("on purpose")
        def look(window, event):
            QTimer.singleShot(0, fail)
            QTimer.singleShot(0, fail)
            QTimer.singleShot(500, say)
        def say():
            boxes = [w for w in QApplication.topLevelWidgets() if isinstance(w, QMessageBox)]
            print(len(boxes), "because of an internal error" in boxes[0].text())
            QApplication.exit(0)
        MainWindow.showEvent = look
        sys.exit(app.run(None, None))
        """
    )
    assert (done.returncode, done.stdout) == (0, "1 True\n"), done.stderr
    assert "Traceback" not in done.stderr
    log = Path(os.environ["XDG_STATE_HOME"], "prune-gui", "log", "prune-gui.log").read_text()
    assert log.count("ZeroDivisionError: on purpose") == 2


def test_the_log_dock_contains_entries_from_before_the_window():
    done = run(
        """
        import logging
        from prune_gui.session import Settings, start_log
        start_log()
        load = Settings.load
        def warn():
            logging.getLogger("prune_gui").warning("early")
            return load()
        Settings.load = warn
        handlers = len(logging.getLogger().handlers)
        def look(window, event):
            QTimer.singleShot(300, lambda: say(window))
        def say(window):
            print(window.log.model.rows[0].text)
            QApplication.exit(0)
        MainWindow.showEvent = look
        code = app.run(None, None)
        print(len(logging.getLogger().handlers) - handlers)
        sys.exit(code)
        """
    )
    assert (done.returncode, done.stdout) == (0, "early\n0\n"), done.stderr


@pytest.mark.slow
def test_garbage_is_collected_on_the_gui_thread_only():
    done = run(
        """
        import gc, threading
        from prune_gui.gui.runtime import gc_timer
        gc_timer.MAX_YOUNG_OBJECTS = 10**9  # compilation makes many objects
        on = set()
        gc.callbacks.append(lambda phase, _: on.add(threading.current_thread().name))
        def look(window, event):
            on.clear()
            window.workbench.ready.connect(lambda: QTimer.singleShot(700, window.close))
        MainWindow.showEvent = look
        code = app.run(None, None)
        print(on)
        sys.exit(code)
        """
    )
    assert (done.returncode, done.stdout) == (0, "{'MainThread'}\n"), done.stderr


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("way", ["close_window", "quit"])
def test_the_program_ends_without_waiting_for_compilation(way):
    done = run(
        f"""
        import threading
        from prune_gui.worker import jobs
        from prune_gui import engine
        from prune_gui.engine import Job, Started
        engine.CLOSE_TIMEOUT_S = 10_000
        never = threading.Event()
        jobs.compile_jobs = lambda: [Job("Preparing", lambda _: never.wait(), idle=True)]
        shown = MainWindow.showEvent
        def look(window, event):
            shown(window, event)
            def leave(event):
                if isinstance(event, Started) and event.job.title == "Preparing":
                    window.menu_actions[{way!r}].trigger()
                    print(window.isVisible())
            window.workbench.bridge.happened.connect(leave)
        MainWindow.showEvent = look
        code = app.run(None, None)
        print([one.name for one in threading.enumerate() if one.daemon])
        sys.exit(code)
        """
    )
    assert (done.returncode, done.stdout) == (0, "False\n['prune-gui-engine-idle']\n"), done.stderr
    assert "Traceback" not in done.stderr
