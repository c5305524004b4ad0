"""Hostile plug-ins: each causes a clear error, and the next request succeeds."""

import logging
import sys
import threading
import time

import psutil
import pytest
import torch
from polling import wait_until
from system_faults import raising

from prune_gui.errors import Cancelled, PluginError, RecipeError
from prune_gui.isolated.messages import pack
from prune_gui.isolated.processes import SupervisorProcess
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Target
from prune_gui.pruning.plugins import load_file, method, plugin_process
from prune_gui.pruning.plugins.faults import Fault
from prune_gui.pruning.predicates import masks
from prune_gui.pruning.selection.scores import TensorScores

LARGE = 5000
"""Number of elements of a tensor that is larger than those of the trial."""


def source(act):
    """Return source of a method that runs `act` for a large tensor and keeps all of a small one."""
    lines = "\n            ".join(act.splitlines())
    return f"""
import ctypes, os, signal, sys, time
class Own(BaseException):
    pass
class Silent(Exception):
    def __str__(self):
        raise Own
class Bad(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def compute_mask(self, t, default_mask):
        if t.numel() == {LARGE}:
            {lines}
        return default_mask
"""


def target(size=LARGE):
    return Target("w", (size,), size, TensorScores.of(torch.ones(size)), lambda *_: None, None)


def pruned(loaded, size=LARGE, monitor=None):
    [decision] = loaded().decide([target(size)], monitor or Monitor())
    return decision.pruned


SEGFAULT = "ctypes.string_at(0)"
GARBAGE = """
for descriptor in range(256):
    try:
        os.write(descriptor, b"garbage" * 100)
    except OSError:
        pass
"""
ACTS = [
    ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    ("raise GeneratorExit('now')", "raised GeneratorExit: now"),
    ("raise Own('mine')", "raised Own: mine"),
    ("raise Silent", "raised Silent"),
    ("raise SystemExit(3)", "called sys.exit"),
    ("os._exit(0)", "ended its process with exit code 0"),
    ("os.kill(os.getpid(), 9)", "ended its process by the signal SIGKILL"),
    ("os.kill(os.getpid(), signal.SIGTERM)", "ended its process by the signal SIGTERM"),
    (SEGFAULT, "ended its process by the signal SIGSEGV"),
    ("held = []\nwhile True:\n    held.append(torch.empty(1 << 32))", "raised RuntimeError"),
    ("held = []\nwhile True:\n    held.append(bytes(1 << 34))", "raised MemoryError"),
    ("def again(): again()\nagain()", "raised RecursionError"),
    (GARBAGE, "corrupted the output of its process"),
    (GARBAGE + "os._exit(1)", "corrupted the output of its process|exit code 1"),
    ("os.closerange(0, 1000)", "ended its process with exit code 1"),
    ("os.closerange(0, 1000)\nwhile True: time.sleep(1)", "closed the connection"),
    ("if os.fork():\n    os._exit(3)\nwhile True: time.sleep(1)", "exit code 3"),
    ("for fd in range(3, 256):\n    try: os.ftruncate(fd, 0)\n    except OSError: pass\nt.sum()",
     "SIGBUS"),
    ("import builtins; builtins.isinstance = None", "ended its process with exit code 1"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "says"), ACTS, ids=[act.strip()[:40] for act, _ in ACTS])
def test_a_failing_mask_is_an_error_and_the_next_one_succeeds(plugin_file, monkeypatch, act, says):
    monkeypatch.setattr(plugin_process, "GRACE_S", 0.2)
    [loaded] = load_file(plugin_file(source(act)))
    with pytest.raises(RecipeError, match=rf"^w: Bad .*({says}).* \(from .*own\.py\)\.$") as caught:
        pruned(loaded)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800
    assert pruned(loaded, 7) == 0


def test_a_process_that_cannot_be_started_is_an_error(plugin_file, monkeypatch):
    monkeypatch.setattr(
        SupervisorProcess, "start", raising(OSError(11, "Resource temporarily unavailable"))
    )
    with pytest.raises(PluginError, match="since its process does not start: Resource temporarily"):
        load_file(plugin_file(source("pass")))


@pytest.mark.slow
def test_the_supervisor_is_restarted_if_it_ends(plugin_file):
    [loaded] = load_file(plugin_file(source("os.kill(os.getppid(), 9)\nwhile True: pass")))
    with pytest.raises(RecipeError, match=r"Bad (raised PermissionError|.*SIGKILL)"):
        pruned(loaded)
    assert pruned(loaded, 7) == 0
    supervisor = psutil.Process(plugin_process._supervisor.pid)
    supervisor.kill()
    psutil.wait_procs([supervisor], 5)
    assert pruned(loaded, 7) == 0


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("class Own(BaseException): pass\nraise Own", "raised Own"),
        ("import os; os.kill(0, 9)", "ended its process by the signal SIGKILL"),
        ("import os; os.closerange(0, 1000)", "exit code 1"),
        ("held = [bytes(1 << 34) for _ in iter(int, 1)]", "raised MemoryError"),
        ("while True: pass", "took longer than 1 s and was stopped"),
    ],
)
def test_failing_to_load_is_an_error(plugin_file, monkeypatch, act, says):
    if "while" in act:
        monkeypatch.setattr(plugin_process, "LOAD_LIMIT_S", 1)
    path = plugin_file(act)
    with pytest.raises(PluginError, match=rf"^{path} .*{says}"):
        load_file(path)


def test_computing_a_mask_has_a_timeout(plugin_file, monkeypatch):
    [loaded] = load_file(plugin_file(source("while True: pass")))
    monkeypatch.setattr(method, "LIMIT_S", 0.3)
    with pytest.raises(RecipeError, match=r"Bad took longer than \d+ s and was stopped"):
        pruned(loaded)
    assert pruned(loaded, 7) == 0


@pytest.mark.parametrize(
    "act", ["while True: pass", "signal.pthread_sigmask(0, {2, 15})\ntime.sleep(99)", "loading"]
)
def test_cancelling_stops_a_plug_in_that_never_returns(plugin_file, act):
    cancel = threading.Event()
    monitor, timer = Monitor(cancel=cancel), threading.Timer(0.2, cancel.set)
    [loaded] = load_file(plugin_file(source(act)))
    assert pruned(loaded, 7) == 0
    endless = plugin_file("while True: pass")
    timer.start()
    start = time.monotonic()
    with monitor.in_charge(), pytest.raises(Cancelled):
        load_file(endless) if act == "loading" else pruned(loaded, monitor=monitor)
    assert time.monotonic() - start < 5
    timer.join()


def test_cancelling_stops_waiting_for_a_busy_plug_in(plugin_file):
    [loaded] = load_file(plugin_file(source("while True: pass")))
    stop_first, stop_second = threading.Event(), threading.Event()
    ended = []

    def first():
        with pytest.raises(Cancelled):
            pruned(loaded, monitor=Monitor(cancel=stop_first))
        ended.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    wait_until(loaded.process._lock.locked)
    stop_second.set()
    with pytest.raises(Cancelled):
        pruned(loaded, 7, Monitor(cancel=stop_second))
    assert not ended
    stop_first.set()
    thread.join(10)
    assert ended


def test_recomputing_an_evicted_mask_can_be_cancelled(plugin_file, tmp_path):
    hang, cancel = tmp_path / "hang", threading.Event()
    [loaded] = load_file(plugin_file(source(f"while os.path.exists({str(hang)!r}): pass")))
    [decision] = loaded().decide([target()], Monitor())
    masks._kept.clear()
    hang.touch()
    cancel.set()
    with Monitor(cancel=cancel).in_charge(), pytest.raises(Cancelled):
        decision.predicate.prunes(0, LARGE)


def test_large_output_does_not_block_and_goes_to_standard_error(plugin_file, capfd):
    act = "print('x' * (1 << 20))\nsys.stderr.write('y' * (1 << 20))\nos.write(1, b'z')\n"
    act += "assert sys.stdin.read() == ''"  # the standard input is empty
    [loaded] = load_file(plugin_file(source(act)))
    assert pruned(loaded) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert (err.count("x"), err.count("y"), err.count("z")) == (1 << 20, 1 << 20, 1)


def test_a_plug_in_cannot_change_this_process(plugin_file):
    change = "import prune_gui.errors\nprune_gui.errors.stolen = sys.own = 1"
    load_file(plugin_file(source("pass") + change))
    import prune_gui.errors

    assert not hasattr(prune_gui.errors, "stolen")
    assert not hasattr(sys, "own")


def test_modules_of_the_working_folder_are_not_imported(plugin_file, tmp_path, monkeypatch):
    (tmp_path / "beside_the_file.py").write_text("open('it ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match="No module named 'beside_the_file'"):
        load_file(plugin_file("import beside_the_file"))
    assert not (tmp_path / "it ran").exists()


def test_the_traceback_of_a_plug_in_is_logged(plugin_file, caplog):
    with caplog.at_level(logging.INFO), pytest.raises(PluginError):
        load_file(plugin_file("def deep(): raise KeyError(3)\ndeep()"))
    assert "in deep" in caplog.text
    assert "KeyError: 3" in caplog.text


@pytest.fixture
def pids(tmp_path):
    """Return a function that returns the pids of the processes that loaded a `noting` file."""
    return lambda: [int(pid) for pid in (tmp_path / "pids").read_text().split()]


def noting(act):
    """Return `source(act)` of a method whose file notes the pid of its process."""
    note = "from pathlib import Path\nwith open(Path(__file__).with_name('pids'), 'a') as pids:\n"
    return source(act) + note + "    print(os.getpid(), file=pids)\n"


def test_a_crashed_process_is_replaced_by_a_new_one(plugin_file, pids):
    [loaded] = load_file(plugin_file(noting("os._exit(1)")))
    with pytest.raises(RecipeError):
        pruned(loaded)
    assert not psutil.pid_exists(pids()[0])
    assert pruned(loaded, 7) == 0
    process = psutil.Process(pids()[1])
    process.kill()  # while it is idle
    psutil.wait_procs([process], 1)
    assert pruned(loaded, 7) == 0
    assert len(set(pids())) == 3


def test_reloading_a_file_ends_the_process_of_the_old_version(plugin_file, pids):
    [old] = load_file(plugin_file(noting("default_mask = default_mask * 0")))
    [new] = load_file(plugin_file(source("pass")))
    assert not psutil.pid_exists(pids()[0])
    assert pruned(new) == 0
    assert pruned(old) == LARGE  # steps of the old version still work after undo


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff" * 8,
        b"\0\0\0\4nope",
        b"\0\0\0\2[]",
        b"\0\0\0\1\xff",
        b"\0\1\x86\xa0" + b"[" * 100_000,
        b"\0\0\x13\x88" + b"9" * 5000,
        pack({"fault": "gone", "fields": {}}),
        pack({"fault": "raised", "fields": 3}),
        pack({"fault": ["raised"], "fields": {}}),
        pack({"fault": "raised", "fields": {"kind": "a", "told": "b", "it": "c"}}),
        pack({"fault": "exit_code", "fields": {"status": {}}}),
    ],
)
def test_an_invalid_answer_is_an_error(plugin_file, answer):
    act = (
        "import gc, socket\n"
        "[own] = [o for o in gc.get_objects() if type(o) is socket.socket and o.fileno() > 2]\n"
        f"own.sendall({answer!r})"
    )
    [loaded] = load_file(plugin_file(source(act)))
    with pytest.raises(RecipeError, match="Bad corrupted the output of its process"):
        pruned(loaded)
    assert pruned(loaded, 7) == 0


PARAMETERS = [
    {},
    {"schema": {"type": "object"}},
    {"schema": {"anyOf": []}},
    {"schema": {"enum": [[]]}},
    {"schema": {"type": "string", "pattern": "("}},
    {"schema": {"type": "integer", "minimum": "a"}},
    {"schema": {"type": "integer"}, "name": "x y"},
    {"name": "seed", "default": []},
]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "not a name"},
        {"name": 3},
        {"kind": "other"},
        {"kind": []},
        {"parameters": None},
        {"parameters": [3]},
        *({"parameters": [{"name": "x", "description": None, **more}]} for more in PARAMETERS),
    ],
)
def test_an_invalid_description_is_an_error(change):
    described = {"name": "Bad", "kind": "global", "doc": "Bad.", "parameters": []}
    assert method.method_from(Silent(), described, "own.py").name == "bad"
    with pytest.raises((Fault, PluginError)) as caught:
        method.method_from(Silent(), described | change, "own.py")
    if isinstance(caught.value, Fault):
        assert caught.value.code == "bad_answer"


class Silent(plugin_process.PluginProcess):
    """Has no process, and accepts everything."""

    def __init__(self):
        super().__init__({})

    def ask(self, *_):
        return {}
