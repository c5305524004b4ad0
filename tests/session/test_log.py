"""The log and the trace of a crash, which stay on the disk, and signals to end."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from datetime import datetime

import pytest
from python_process import ended_python

from prune_gui.session import CrashTrace
from prune_gui.session.end_signals import end_signals
from prune_gui.session.log import MAX_TRACE_BYTES, LogFormatter, log_path, start_log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and files of POSIX")


@pytest.fixture(autouse=True)
def _restore_logging(tmp_path, monkeypatch):
    """Log to a temporary folder, and remove the handler afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(logging, "raiseExceptions", True)
    yield
    for handler in set(root.handlers).difference(before):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_text_that_is_not_valid_unicode_is_logged_escaped():
    start_log()
    *_, handler = logging.getLogger().handlers
    # Not through the logger: pytest would send the record between processes, as UTF-8.
    handler.emit(logging.LogRecord("a", logging.INFO, "", 1, "\udcff.safetensors", (), None))
    assert r"\udcff.safetensors" in log_path().read_text()


def test_a_fifo_at_the_path_of_the_log_does_not_block_the_start():
    log_path().parent.mkdir(parents=True)
    os.mkfifo(log_path())
    assert start_log() is None
    reader = os.open(log_path(), os.O_RDONLY | os.O_NONBLOCK)
    assert start_log() is None
    os.close(reader)


def test_there_is_no_log_if_the_folder_cannot_be_made(tmp_path):
    (tmp_path / "state").write_text("no folder")
    assert start_log() is None


def test_a_full_disk_prints_nothing_to_standard_error(capsys):
    start_log()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        logging.getLogger().warning("a line that cannot be written")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert capsys.readouterr().err == ""


def formatted(message: str, *arguments: object, error: BaseException | None = None) -> list[str]:
    trace = (type(error), error, None) if error else None
    record = logging.LogRecord("a.b", logging.INFO, "x.py", 1, message, arguments, trace)
    shown = LogFormatter("%(levelname)s %(name)s: %(message)s").format(record)
    assert shown.replace("\n", "").isprintable()
    return shown.split("\n")


def test_a_name_with_a_line_feed_cannot_start_a_record():
    assert formatted("Opened %s", "a\nERROR a.b: forged") == [
        "INFO a.b: Opened a",
        "    ERROR a.b: forged",
    ]


def test_control_characters_in_names_are_escaped():
    assert formatted("Opened %s", "\x1b[2J\u202e\r") == [r"INFO a.b: Opened \x1b[2J\u202e\r"]


def test_the_lines_of_a_traceback_are_indented():
    assert formatted("Failed", error=ValueError("bad\nERROR a.b: forged")) == [
        "INFO a.b: Failed",
        "    ValueError: bad",
        "    ERROR a.b: forged",
    ]


PRELUDE = """
import os, signal, sys
from pathlib import Path
from prune_gui.session import CrashTrace
trail = CrashTrace(Path(sys.argv[1]))
trail.start()
"""


@pytest.fixture
def trail(tmp_path):
    """Return the path of a trace in a folder that does not exist yet."""
    return tmp_path / "log" / "crash.txt"


def run(code, trail):
    return ended_python(PRELUDE + code, trail).returncode


def test_a_crash_trace_is_found_once_by_the_next_start(trail):
    die = "def deep_inside():\n    os.kill(os.getpid(), signal.SIGSEGV)\ndeep_inside()"
    assert run(die, trail) == -signal.SIGSEGV
    crash = CrashTrace(trail).last
    assert crash is not None
    assert "Segmentation fault" in crash.text
    assert "in deep_inside" in crash.text
    kept = trail.with_name("crash.txt.old")
    assert kept.read_text().strip() == crash.text
    assert CrashTrace(trail).last is None  # it is reported once
    assert kept.exists()


def test_a_normal_exit_leaves_no_trace(trail):
    assert run("trail.stop()", trail) == 0
    assert CrashTrace(trail).last is None


def test_a_crash_after_stop_is_not_recorded(trail):
    assert run("trail.stop(); os.kill(os.getpid(), signal.SIGSEGV)", trail) == -signal.SIGSEGV
    assert CrashTrace(trail).last is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "log").write_text("no folder")
    assert run("trail.stop()", tmp_path / "log" / "crash.txt") == 0


def test_a_fifo_at_the_path_of_the_trace_does_not_block_the_start(trail, caplog):
    trail.parent.mkdir()
    os.mkfifo(trail)
    assert run("trail.stop()", trail) == 0
    assert trail.with_name("crash.txt.damaged-1").is_fifo()
    os.mkfifo(trail.with_name("other.txt"))
    crash_trail = CrashTrace(trail)
    crash_trail._path = trail.with_name("other.txt")
    crash_trail.start()  # the FIFO was made after the constructor checked the path
    crash_trail.stop()


@pytest.mark.parametrize("when", [-(2**40), 2**40, 0])
def test_an_extreme_modification_time_of_the_trace_is_no_error(trail, when):
    trail.parent.mkdir()
    trail.write_text("Segmentation fault")
    os.utime(trail, (when, when))
    crash = CrashTrace(trail).last
    assert crash is not None
    assert crash.when <= datetime.now()


def test_only_the_beginning_of_a_huge_trace_is_read(trail):
    trail.parent.mkdir()
    with trail.open("wb") as file:
        file.write(b"Segmentation fault")
        file.truncate(5 << 30)
    crash = CrashTrace(trail).last
    assert crash is not None
    assert len(crash.text) <= MAX_TRACE_BYTES
    trail.with_name("crash.txt.old").unlink()


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_each_signal_gives_the_conventional_exit_code(name, code):
    number, codes = signal.Signals[name], []
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
    with end_signals(codes.append):
        signal.raise_signal(number)
    assert codes == [code]
    assert signal.signal(number, before) is signal.SIG_DFL


@pytest.mark.parametrize(("name", "handled"), [("SIGINT", [130]), ("SIGHUP", [])])
def test_sigint_is_handled_although_it_was_ignored_at_the_start_but_not_sighup(name, handled):
    number = signal.Signals[name]
    before = signal.signal(number, signal.SIG_IGN)  # as shells do, and nohup
    codes = []
    with end_signals(codes.append):
        signal.raise_signal(number)
    signal.signal(number, before)
    assert codes == handled
