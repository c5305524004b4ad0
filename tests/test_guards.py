"""The guards of conftest.py, each run on a test that it must fail; and Qt imported in gui only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from python_process import run_python

pytest_plugins = ["pytester"]

Run = Callable[[str, str], pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the source of a test in a folder beside a copy of conftest.py."""
    monkeypatch.setenv("PYTEST_QT_API", "pyside6")
    conftest = Path(__file__).with_name("conftest.py").read_text()
    pytester.makeconftest(conftest.replace("GRACE_S = 2.0", "GRACE_S = 0.2"))

    def run_in(folder: str, source: str) -> pytest.RunResult:
        pytester.mkdir(folder).joinpath("test_it.py").write_text(source)
        return pytester.runpytest_subprocess("-W", "error")

    return run_in


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_outlives_its_test_fails_it(run: Run, daemon: bool):
    result = run(
        "worker",
        f"""
import threading, time
def test_it():
    threading.Thread(target=time.sleep, args=[1], name="stray", daemon={daemon}).start()
""",
    )
    result.assert_outcomes(passed=1, errors=1)
    assert "threads left running: ['stray']" in result.stdout.str()


@pytest.mark.slow
def test_a_thread_that_is_about_to_end_passes(run: Run):
    source = """
import threading
def test_it():
    threading.Timer(0.05, int).start()
"""
    run("worker", source).assert_outcomes(passed=1)


@pytest.mark.slow
def test_an_unexpected_error_in_the_log_fails_the_test(run: Run):
    result = run(
        "session",
        """
import logging
def test_unexpected(): logging.getLogger("prune_gui.session").error("the journal is gone")
def test_expected(caplog): logging.getLogger("prune_gui.session").error("the journal is gone")
def test_no_error(): logging.getLogger("prune_gui.session").warning("slow")
""",
    )
    result.assert_outcomes(passed=3, errors=1)
    assert "['prune_gui.session: the journal is gone']" in result.stdout.str()


@pytest.mark.slow
def test_a_window_or_a_running_timer_that_outlives_its_test_fails_it(run: Run):
    result = run(
        "gui",
        """
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
kept = []
def test_window(qtbot):
    kept.append(QWidget())
def test_timer(qtbot):
    kept.append(QTimer())
    kept[-1].start(1000)
def test_neat(qtbot):
    kept.append(QWidget())
    qtbot.addWidget(kept[-1])
    QTimer(kept[-1]).start(1000)
    kept.append(QTimer())
""",
    )
    result.assert_outcomes(passed=3, errors=2)
    assert "timers left: ['<PySide6.QtWidgets.QWidget(" in result.stdout.str()
    assert "timers left: ['<PySide6.QtCore.QTimer(" in result.stdout.str()


@pytest.mark.parametrize(
    "statement",
    ["import PySide6", "from PySide6.QtCore import QTimer", "import pyqtgraph", "import superqt"],
)
def test_our_modules_cannot_import_qt_in_a_test_below_the_window(statement: str):
    with pytest.raises(ImportError, match="below the window"):
        exec(statement, {"__name__": "prune_gui.worker"})


@pytest.mark.slow
def test_the_modules_below_the_window_can_be_imported_without_qt():
    script = """
import pkgutil, sys, types
sys.modules.update(dict.fromkeys(["PySide6", "pyqtgraph", "superqt"]))  # None makes the import fail
sys.modules["torchvision._meta_registrations"] = types.ModuleType("")  # see conftest.py
import prune_gui
for module in pkgutil.walk_packages(prune_gui.__path__, "prune_gui."):
    if not module.name.startswith(("prune_gui.gui", "prune_gui.cli", "prune_gui.__main__")):
        __import__(module.name)
"""
    run_python(script)
