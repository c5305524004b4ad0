"""Signals that request termination."""

from __future__ import annotations

import signal
import sys

import pytest

from prune_gui.session.end_signals import end_signals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_each_signal_gives_the_conventional_exit_code(name, code):
    number = signal.Signals[name]
    before, codes = signal.getsignal(number), []
    with end_signals(codes.append):
        signal.raise_signal(number)
    assert codes == [code]
    assert signal.getsignal(number) is before


def test_sigint_is_handled_even_if_it_was_ignored_at_the_start():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells do
    codes = []
    with end_signals(codes.append):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert codes == [130]


def test_an_ignored_sighup_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    codes = []
    with end_signals(codes.append):
        signal.raise_signal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)
    assert codes == []
