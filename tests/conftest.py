"""What every test can rely on, and what none may leave behind.

A test fails if a thread, a window or a running timer outlives it, or if it logs an error that it
does not ask for by using `caplog`. Warnings fail it too, by `filterwarnings` in pyproject.toml.
"""

from __future__ import annotations

import builtins
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    import psutil

MAY_USE_QT = ("gui", "end_to_end")
QT = ("PySide6", "pyqtgraph", "superqt")
LASTING = "prune-gui-chunk"
"""Threads that wait for work as long as the program runs."""
GRACE = 2.0
"""Seconds that a thread which was told to end has for it."""

hypothesis.settings.register_profile("tests", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("tests")

if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def pytest_sessionfinish() -> None:
    """Empty the clipboard, which without a screen outlives Python and what was made in it."""
    if (gui := sys.modules.get("PySide6.QtGui")) and gui.QGuiApplication.instance():
        gui.QGuiApplication.clipboard().clear()


@pytest.fixture(scope="session")
def demo_checkpoint() -> Path:
    """Return the checkpoint that ships with the program; not to be written to."""
    return Path(__file__).parents[1] / "resources" / "demo" / "digits_cnn.safetensors"


@pytest.fixture(scope="session")
def real_models() -> Path:
    """Return the folder of real checkpoints, for tests marked ``real``."""
    folder = os.environ.get("PRUNE_GUI_MODELS")
    if folder is None:
        pytest.skip("PRUNE_GUI_MODELS names no folder of real checkpoints")
    return Path(folder)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return what writes a Python file of methods; those it offers are forgotten after the test.

    The test fails if a process that runs such a file, or one that the file started, outlives it.
    """
    import psutil

    from prune_gui.pruning import methods
    from prune_gui.pruning.plugins import launcher, loading

    def write(source: str, name: str = "own.py") -> Path:
        path = tmp_path / name
        path.write_text(f"import torch\nfrom torch.nn.utils import prune\n{dedent(source)}")
        return path

    before = dict(methods._methods)
    yield write
    methods._methods.clear()
    methods._methods.update(before)
    if launcher._server is not None and launcher._server.is_alive:
        server = psutil.Process(launcher._server._process.pid)
        deadline = time.monotonic() + 5 * GRACE
        while True:
            loading.rest()  # what was at work may have come to its end
            # A zombie has ended; the server waits for it when it forks the next one.
            left = [one for one in server.children(recursive=True) if not _has_ended(one)]
            if not left:
                break
            if time.monotonic() > deadline:
                pytest.fail(f"processes left running: {left}")
            time.sleep(0.01)


def _has_ended(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def free_memory(monkeypatch) -> Callable[[int], None]:
    """Return what makes so many bytes of memory free, as far as the program can tell."""
    import psutil

    def leave(nbytes: int) -> None:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=nbytes))

    return leave


@pytest.fixture
def foreign_language(monkeypatch) -> None:
    """Have the program speak a language in which what is not translated stands out."""
    from foreign import Foreign

    monkeypatch.setattr("prune_gui.language._messages", Foreign())


@pytest.fixture(scope="session")
def nearest_mean() -> Path:
    """Return the file of the worked example."""
    return Path(__file__).parents[1] / "resources" / "examples" / "nearest_mean.py"


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + GRACE
    while left := {t for t in threading.enumerate() if not t.name.startswith(LASTING)} - before:
        if time.monotonic() > deadline:
            pytest.fail(f"threads left running: {sorted(thread.name for thread in left)}")
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _no_error_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    errors: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(f"{record.name}: {record.getMessage()}")
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)
    if errors and "caplog" not in request.fixturenames:
        pytest.fail(f"errors logged: {errors}")


@pytest.fixture(autouse=True)
def _qt_stays_upstairs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check what tests of the window leave; keep Qt from being imported in all others.

    Garbage of a window's test is collected here: left to itself, Python would destroy widgets on
    the engine's thread, which breaks those of later tests.
    """
    if request.path.relative_to(Path(__file__).parent).parts[0] in MAY_USE_QT:
        gc.freeze()  # only the objects that the test makes are looked through
        gc.disable()
        before = _windows_and_timers()
        yield
        gc.collect()
        gc.enable()
        if left := _windows_and_timers() - before:
            pytest.fail(f"windows or running timers left: {sorted(map(repr, left))}")
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "__import__", _without_qt(builtins.__import__))
            yield


def _without_qt(import_any: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return `import_any`, but for Qt in our own modules. pytest-qt goes on needing it."""

    def import_no_qt(name, *arguments, **options):
        namespace = arguments[0] if arguments else options.get("globals")
        importer = (namespace or {}).get("__name__") or ""
        if name.partition(".")[0] in QT and importer.partition(".")[0] == "prune_gui":
            raise ImportError(f"{importer} imports {name} in a test below the window")
        return import_any(name, *arguments, **options)

    return import_no_qt


def _windows_and_timers() -> set[object]:
    from PySide6.QtCore import QCoreApplication, QEvent, QTimer
    from PySide6.QtWidgets import QApplication
    from shiboken6 import isValid

    if QCoreApplication.instance() is None:
        return set()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    timers = {timer for timer in gc.get_objects() if issubclass(type(timer), QTimer)}
    running = {timer for timer in timers if isValid(timer) and timer.isActive()}
    return {*QApplication.topLevelWidgets(), *running}
