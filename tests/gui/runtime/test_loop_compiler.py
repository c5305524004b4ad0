"""Compiling the loops beside the program."""

from __future__ import annotations

import sys

import pytest

from prune_gui.gui.panels.status_bar import StatusBar
from prune_gui.gui.runtime import loop_compiler
from prune_gui.gui.runtime.loop_compiler import LoopCompiler


@pytest.fixture
def compiler(qtbot, monkeypatch):
    """Return a function that makes a compiler which runs Python code."""

    def make(code):
        command = [sys.executable, "-u", "-c", code]
        monkeypatch.setattr(loop_compiler, "isolated_command", lambda _: command)
        made = LoopCompiler()
        stopped.append(made)
        return made

    stopped = []
    yield make
    for each in stopped:
        each.stop()


def test_the_status_bar_counts_the_parts_until_the_process_ends(
    compiler, workbench, qtbot, monkeypatch
):
    status = StatusBar(workbench)
    qtbot.addWidget(status)
    status.show()
    texts = []
    made = compiler("print('0 2'); print('1 2'); print('2 2')")
    made.advanced.connect(status.show_preparation)
    made.advanced.connect(
        lambda *_: texts.append(status._preparation.isVisible() and status._preparation.text())
    )
    made.start()
    made.start()  # has no effect
    qtbot.waitUntil(lambda: len(texts) == 4)
    first, second = (
        "Compiling loops, once per installation: 0 of 2",
        "Compiling loops, once per installation: 1 of 2",
    )
    assert texts == [first, second, False, False]


def test_a_process_that_fails_is_logged(compiler, qtbot, caplog):
    made = compiler("import sys; print('0 2'); sys.exit('no room')")
    with qtbot.waitSignal(made.advanced, check_params_cb=lambda _, total: total == 0):
        made.start()
    assert "exit code 1: no room" in caplog.text


def test_a_running_process_is_killed_at_the_end(compiler, qtbot):
    made = compiler("import time; print('0 2'); time.sleep(1000)")
    with qtbot.waitSignal(made.advanced):
        made.start()
    made.stop()
    assert made._process.state() == made._process.ProcessState.NotRunning
