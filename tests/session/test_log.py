"""The log never blocks the start, and never prints to standard error."""

from __future__ import annotations

import logging
import os
import resource
import sys

import pytest

from prune_gui.session.log import LogFormatter, log_path, start_log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")


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
