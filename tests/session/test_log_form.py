"""The log format: only records start in the first column."""

from __future__ import annotations

import logging

from prune_gui.session.log import LogFormatter


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
