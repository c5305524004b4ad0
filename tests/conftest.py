"""Fixtures for all tests, and guards against what a test must not leave behind.

A test fails if a thread, a window or a running timer outlives it, or if it logs an error without
using `caplog`. Warnings also fail it, by `filterwarnings` in pyproject.toml.
"""

from __future__ import annotations

import builtins
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import hypothesis
import pytest

from prune_gui.pruning.kernels.loop import interpret_up_to

if TYPE_CHECKING:
    import psutil
    import torch

    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Resolution

interpret_up_to(0)  # the tests are about compiled loops

QT_TEST_FOLDERS = ("gui", "end_to_end")
QT_PACKAGES = ("PySide6", "pyqtgraph", "superqt")
LASTING_THREAD_PREFIXES = ("prune-gui-chunk", "Dask-Offload", "tqdm_monitor")
"""Name prefixes of threads that live as long as the program."""
EXAMPLES, THOROUGH_EXAMPLES = 25, 60
"""Examples of each law; in the profile "thorough"."""
COMMON_FAMILIES = {
    *("bert", "clip", "deepseek-v3", "gemma", "gpt2", "llama"),
    *("mixtral", "qwen3", "t5", "vit", "whisper"),
}
"""Transformers whose tests `.ci/run` runs."""
GRACE_S = 2.0
"""Seconds for a thread to end after its test."""

# torchvision from PyPI cannot load its compiled operators beside a CPU build of torch, and then
# fails to register their meta kernels, also when transformers imports it. Tests need neither.
sys.modules.setdefault(
    "torchvision._meta_registrations", ModuleType("torchvision._meta_registrations")
)

hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize="CI" in os.environ, max_examples=EXAMPLES
)
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("tests"), max_examples=THOROUGH_EXAMPLES
)
hypothesis.settings.load_profile("tests")

if not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd"))):  # before Triton is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

# As in the program, before torch is imported: threads that spin slow the other test processes.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of less common families of networks."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call and "family" in call.params and call.params["family"] not in COMMON_FAMILIES:
            item.add_marker("other_family")


def pytest_sessionfinish() -> None:
    """Empty the clipboard, which on the offscreen platform outlives the Python objects in it."""
    if (gui := sys.modules.get("PySide6.QtGui")) and gui.QGuiApplication.instance():
        gui.QGuiApplication.clipboard().clear()


@pytest.fixture(scope="session")
def demo_checkpoint() -> Path:
    """Return the checkpoint that is shipped with the program; tests must not write to it."""
    from prune_gui.resources import resource

    return resource("demo", "digits_cnn.safetensors")


@pytest.fixture(scope="session")
def in_memory() -> Callable[[Mapping[str, torch.Tensor]], Checkpoint]:
    """Return a function from named tensors to a checkpoint."""
    from in_memory import InMemory

    return InMemory


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Callable[..., Checkpoint]]:
    """Return a function that writes named tensors to a file, and opens it for the test.

    A name that does not end in .safetensors is that of a torch file.
    """
    import torch
    from safetensors.torch import save_file

    from prune_gui.checkpoint import open_checkpoint

    with ExitStack() as files:

        def open_file(
            tensors: Mapping[str, torch.Tensor],
            name: str = "model.safetensors",
            metadata: dict[str, str] | None = None,
        ) -> Checkpoint:
            if name.endswith(".safetensors"):
                save_file(tensors, tmp_path / name, metadata)
            else:
                torch.save(tensors, tmp_path / name)
            return files.enter_context(open_checkpoint(tmp_path / name))

        yield open_file


@pytest.fixture
def bert(tmp_path: Path) -> Iterator[Checkpoint]:
    """Return a small BERT, opened beside its config.json."""
    from small_bert import write_bert

    from prune_gui.checkpoint import open_checkpoint

    with open_checkpoint(write_bert(tmp_path)) as checkpoint:
        yield checkpoint


@pytest.fixture(scope="session")
def resolved() -> Callable[..., Resolution]:
    """Return a function from steps (as in a recipe file) and named tensors to a resolution."""
    from in_memory import resolved

    return resolved


@pytest.fixture
def calls_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], list[tuple[object, ...]]]:
    """Return a function that notes the calls of a function, given by its owner and its name.

    It returns a list that grows with the positional arguments of each call.
    """

    def note(owner: object, name: str) -> list[tuple[object, ...]]:
        calls: list[tuple[object, ...]] = []
        function = getattr(owner, name)

        def noted(*arguments: object, **options: object) -> object:
            calls.append(arguments)
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return note


@pytest.fixture
def set_torch_threads() -> Iterator[Callable[[int], None]]:
    """Return a function that sets the number of threads of torch until the end of the test."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def reopened(monkeypatch) -> Iterator[list[Checkpoint]]:
    """The checkpoints that jobs and workers of this process open again; they are closed."""
    from prune_gui.checkpoint import opening

    opened: list[Checkpoint] = []
    open_checkpoint = opening.open_checkpoint

    def open_and_note(*arguments) -> Checkpoint:
        opened.append(open_checkpoint(*arguments))
        return opened[-1]

    monkeypatch.setattr(opening, "open_checkpoint", open_and_note)
    yield opened
    opening._reopened.cache_clear()
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def saved_family(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function that gives the folder of a model of a family of networks."""
    from transformer_families import save_model

    @cache
    def folder_of(family: str) -> Path:
        folder = tmp_path_factory.mktemp(family)
        save_model(family, folder)
        return folder

    return folder_of


@pytest.fixture(scope="session")
def vision() -> ModuleType:
    """Return torchvision.models."""
    from torchvision import models

    return models


@pytest.fixture(scope="session")
def real_models() -> Path:
    """Return the folder of real checkpoints, for tests marked ``real``."""
    folder = os.environ.get("PRUNE_GUI_MODELS")
    if folder is None:
        pytest.skip("PRUNE_GUI_MODELS names no folder of real checkpoints")
    return Path(folder)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that writes a plug-in file; its methods are unregistered after the test.

    The test fails if a process that runs the file, or one that the file started, outlives it.
    """
    import psutil

    from prune_gui.pruning import methods
    from prune_gui.pruning.plugins import loading, plugin_process

    def write(source: str, name: str = "own.py") -> Path:
        path = tmp_path / name
        path.write_text(f"import torch\nfrom torch.nn.utils import prune\n{dedent(source)}")
        return path

    before = dict(methods._methods)
    yield write
    methods._methods.clear()
    methods._methods.update(before)
    supervisor = plugin_process._supervisor
    if supervisor is not None and supervisor.is_alive:
        guards = psutil.Process(supervisor.pid)
        deadline = time.monotonic() + 5 * GRACE_S
        while True:
            loading.end_idle()  # a worker process may have finished
            children = guards.children(recursive=True)
            running = [process for process in children if not _has_ended(process)]
            if not running:
                break
            if time.monotonic() > deadline:
                pytest.fail(f"processes left running: {running}")
            time.sleep(0.01)


def _has_ended(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def free_memory(monkeypatch) -> Callable[[int], None]:
    """Return a function that sets the number of bytes of memory that psutil reports as free."""
    import psutil

    def set_free(nbytes: int) -> None:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=nbytes))

    return set_free


@pytest.fixture
def foreign_language(monkeypatch) -> None:
    """Switch to a test language in which untranslated text is detectable."""
    from foreign import Foreign

    monkeypatch.setattr("prune_gui.language._messages", Foreign())


@pytest.fixture(scope="session")
def nearest_mean() -> Path:
    """Return the plug-in file of the worked example."""
    return Path(__file__).parents[1] / "resources" / "examples" / "nearest_mean.py"


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Seed torch, so that a test does not depend on those before it."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_thread_outlives_the_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + GRACE_S
    while running := _finite_threads() - before:
        if time.monotonic() > deadline:
            pytest.fail(f"threads left running: {sorted(thread.name for thread in running)}")
        time.sleep(0.01)


def _finite_threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if not t.name.startswith(LASTING_THREAD_PREFIXES)}


@pytest.fixture(autouse=True)
def _no_error_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    errors: list[str] = []
    root = logging.getLogger()
    level = root.level
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(f"{record.name}: {record.getMessage()}")
    root.addHandler(handler)
    yield
    root.removeHandler(handler)
    root.setLevel(level)  # the command line changes it
    if errors and "caplog" not in request.fixturenames:
        pytest.fail(f"errors logged: {errors}")


@pytest.fixture(autouse=True)
def _qt_in_gui_tests_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that GUI tests leave no window or timer; block imports of Qt in all other tests.

    The garbage of a GUI test is collected here. Otherwise Python may destroy widgets on the engine
    thread, which breaks later tests.
    """
    if request.path.relative_to(Path(__file__).parent).parts[0] in QT_TEST_FOLDERS:
        gc.freeze()  # so that only objects of the test are searched
        gc.disable()
        before = _windows_and_timers()
        yield
        gc.collect()
        gc.enable()
        if leaked := _windows_and_timers() - before:
            pytest.fail(f"windows or running timers left: {sorted(map(repr, leaked))}")
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "__import__", _without_qt(builtins.__import__))
            yield


def _without_qt(import_any: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return an import function that refuses Qt to modules of prune_gui, but not to pytest-qt."""

    def import_no_qt(name, *arguments, **options):
        namespace = arguments[0] if arguments else options.get("globals")
        importer = (namespace or {}).get("__name__") or ""
        if name.partition(".")[0] in QT_PACKAGES and importer.partition(".")[0] == "prune_gui":
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


@pytest.fixture(scope="session")
def small_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a language model of transformers, with a tokenizer."""
    import torch
    import transformers
    from small_tokenizers import tokenizer_json

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "llama"
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json("byte_bpe"))
    return folder
