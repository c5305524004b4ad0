"""Signals that ask the program to end."""

from __future__ import annotations

import signal
import sys

import pytest

from prune_gui.session.end_signals import end_signals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_each_gives_the_exit_code_that_shells_have_for_it(name, code):
    number = signal.Signals[name]
    before, codes = signal.getsignal(number), []
    with end_signals(codes.append):
        signal.raise_signal(number)
    assert codes == [code]
    assert signal.getsignal(number) is before


def test_ctrl_c_counts_in_a_program_that_a_shell_started_in_the_background():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells do
    codes = []
    with end_signals(codes.append):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert codes == [130]


def test_a_closed_terminal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    codes = []
    with end_signals(codes.append):
        signal.raise_signal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)
    assert codes == []
