"""Processes that the code of others starts: none outlives it, in whatever way it ends."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from polling import wait_until

PROGRAM = """
import os, signal, sys, threading, time
from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.isolated.watching import ProcessTree, Watch
from prune_gui.monitor import Monitor
from prune_gui.pruning.plugins import load_file
kind, path, end = sys.argv[1:]
os.environ["PROGRAM"] = str(os.getpid())
cancel = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: cancel.set())
monitor = Monitor(cancel=cancel)
try:
    if kind == "plug-in":
        with monitor.in_charge():
            load_file(path)
    else:
        tree = ProcessTree([sys.executable, path])
        try:
            wait = tree.watch(Watch(99, 1 << 40, monitor))
            while not wait():
                pass
        finally:
            tree.end()
except (Cancelled, PruneGuiError) as error:
    print(error, file=sys.stderr)
print("ended", flush=True)
if end != "the program returns":
    time.sleep(99)
"""
"""Runs code as a plug-in or as an evaluator, until it ends or SIGUSR1 cancels it; then waits."""

CODE = """
import os, signal, sys, time

PROGRAM = int(os.environ["PROGRAM"])
END = {end!r}

def sleep(name):
    os.execv("/bin/sleep", ["{marker}-" + name, "600"])

def fork(name, *before):
    if not os.fork():
        for step in before:
            step()
        sleep(name)

def fork_again():
    if os.fork():
        os._exit(0)

def ignore():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    for number in set(range(1, 32)) - {{9, 17, 19}}:
        signal.signal(number, signal.SIG_IGN)

def stop():
    if not os.fork():
        time.sleep(0.3)
        os.kill(os.getppid(), signal.SIGSTOP)
        sleep("stopper")

def hop():
    os.execv(sys.executable, [sys.executable, "-IS", "-c",
        "import os, time\\nend = time.monotonic() + 20\\n"
        "while time.monotonic() < end and (not os.fork() or os._exit(0)): time.sleep(0.003)",
        "{marker}-hops"])

fork("child")
fork("group", lambda: os.setpgid(0, 0))
fork("session", os.setsid)
fork("double fork", fork_again)
fork("daemon", fork_again, os.setsid, fork_again, lambda: os.closerange(0, 1000))
fork("daemon of another name", os.setsid, fork_again, lambda: os.environ.clear())
fork("deaf", os.setsid, fork_again, ignore)
fork("stopped", os.setsid, fork_again, stop)
fork("forks always", os.setsid, fork_again, hop)
time.sleep(0.5)
open({ready!r}, "w").write("1")
victim = {{"the code kills the program": PROGRAM, "the code kills its guard": os.getppid(),
           "the code stops its guard": os.getppid()}}.get(END)
if victim is not None:
    os.kill(victim, signal.SIGSTOP if "stops" in END else signal.SIGKILL)
if END not in ("the code returns", "the program returns"):
    if END == "the code forks and exits" and os.fork():
        os._exit(0)
    while True:
        time.sleep(1)
"""

ENDS = [
    *("the code returns", "the program returns", "the code forks and exits", "it is cancelled"),
    *("SIGTERM of the program", "SIGKILL of the program"),
    *("SIGKILL of the inner guard", "SIGKILL of the outer guard"),
    *("the code kills the program", "the code kills its guard", "the code stops its guard"),
]


def left(marker: str) -> list[str]:
    """Return the names of the processes that run."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        names = [word for word in process.info["cmdline"] or [] if word.startswith(marker)]
        found += [name.removeprefix(marker) for name in names]
    return sorted(set(found))


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plug-in", "evaluator"])
@pytest.mark.parametrize("end", ENDS)
def test_no_process_outlives_the_code_that_started_it(tmp_path, kind, end):
    marker = f"escaped-{os.getpid()}-{kind}-{ENDS.index(end)}"
    code, ready = tmp_path / "own.py", tmp_path / "ready"
    code.write_text(CODE.format(end=end, marker=marker, ready=str(ready)))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, str(code), end],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            wait_until(ready.exists, 30)
            assert "-child" in left(marker) or "code" in end or "returns" in end
            outer = psutil.Process(program.pid).children() if program.poll() is None else []
            match end:
                case "it is cancelled":
                    program.send_signal(10)
                case "SIGTERM of the program":
                    program.terminate()
                case "SIGKILL of the program":
                    program.kill()
                case "SIGKILL of the inner guard":
                    outer[0].children()[0].kill()
                case "SIGKILL of the outer guard":
                    outer[0].kill()
                case "the code stops its guard":
                    time.sleep(0.2)
                    program.kill()
            if not (program.poll() is not None or "program" in end or "stops" in end):
                assert program.stdout.readline() == "ended\n"
                assert left(marker) == [] or (kind, end) == ("plug-in", "the code returns")
            program.kill()
            wait_until(lambda: not any(map(runs, outer)), 40)
            assert left(marker) == []
        finally:
            program.kill()
