"""The status bar."""

from __future__ import annotations

import re
import time

import pytest
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from prune_gui.engine import Dropped, Finished, Job, Progressed, Started
from prune_gui.gui.panels.status_bar import StatusBar

JOB = Job("Saving a.pt", lambda _: None)


@pytest.fixture
def status(qtbot, workbench):
    made = StatusBar(workbench)
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_short_job_is_not_shown(status, workbench):
    workbench.bridge.happened.emit(Started(1, JOB))
    assert not status.busy
    workbench.bridge.happened.emit(Finished(1, JOB, None))
    assert not status._job_timer.isActive()


def test_a_long_job_is_shown_and_can_be_cancelled(status, workbench, monkeypatch, qtbot):
    cancelled = []
    monkeypatch.setattr(workbench.bridge, "cancel", cancelled.append)
    with qtbot.waitSignal(status.busy_changed):
        workbench.bridge.happened.emit(Started(7, JOB))
    assert status.busy
    assert status._title.text() == "Saving a.pt …"
    status._cancel.click()
    assert cancelled == [7]
    workbench.bridge.happened.emit(Finished(7, JOB, None))
    assert not status.busy


def test_progress_never_decreases_within_a_job_and_restarts_with_the_next(status, workbench):
    shown = []
    for done, total in [(10, 100), (50, 100), (60, 1000), (700, 1000), (8 << 40, 9 << 40)]:
        workbench.bridge.happened.emit(Started(1, JOB) if not shown else Progressed(1, JOB, 0, 9))
        workbench.bridge.happened.emit(Progressed(1, JOB, done, total))
        shown.append(status._progress.value())
    assert shown == [100, 500, 500, 700, 888]
    workbench.bridge.happened.emit(Finished(1, JOB, None))
    workbench.bridge.happened.emit(Started(2, JOB))
    workbench.bridge.happened.emit(Progressed(2, JOB, 1, 10))
    assert status._progress.value() == 100


def test_the_remaining_time_is_shown_once_it_can_be_estimated(status, workbench, monkeypatch):
    clock = iter([100.0, 100.5, 104.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    workbench.bridge.happened.emit(Started(1, JOB))
    texts = []
    for done in (5, 20):
        workbench.bridge.happened.emit(Progressed(1, JOB, done, 100))
        texts.append(status._progress.text())
    monkeypatch.undo()
    assert texts == ["5 %", "20 %, 16 s left"]


def test_the_remaining_time_is_that_of_this_run_alone(status, workbench, monkeypatch):
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    workbench.bridge.happened.emit(Started(1, JOB))
    texts = []
    for done, skipped, seconds in [(3, 3, 5), (6, 6, 5), (6, 6, 5), (7, 6, 15)]:
        clock += seconds
        workbench.bridge.happened.emit(Progressed(1, JOB, done, 10, skipped))
        texts.append(status._progress.text())
    assert texts == ["30 %", "60 %", "60 %", "70 %, 60 s left"]


def test_of_two_running_jobs_the_long_one_is_shown_and_cancelled(status, workbench, monkeypatch):
    cancelled, happened = [], workbench.bridge.happened
    monkeypatch.setattr(workbench.bridge, "cancel", cancelled.append)
    saving, drawing = Job("Saving a.pt", lambda _: None, long=True), Job("Drawing", lambda _: None)
    happened.emit(Started(1, drawing))
    happened.emit(Started(2, saving))
    happened.emit(Progressed(2, saving, 30, 100))
    happened.emit(Progressed(1, drawing, 80, 100))
    assert (status._title.text(), status._progress.value()) == ("Saving a.pt …", 300)
    happened.emit(Finished(1, drawing, None))
    happened.emit(Started(3, drawing))
    happened.emit(Progressed(3, drawing, 10, 100))
    assert (status._title.text(), status._progress.value()) == ("Saving a.pt …", 300)
    status.cancel()
    assert cancelled == [2]
    happened.emit(Dropped(2, saving))
    assert (status._title.text(), status._progress.value()) == ("Drawing …", 100)
    happened.emit(Finished(3, drawing, None))
    assert not status.busy


def test_an_idle_job_is_not_shown(status, workbench, qtbot):
    compiling = Job("Preparing", lambda _: None, idle=True)
    workbench.bridge.happened.emit(Started(1, compiling))
    assert not status._job_timer.isActive()
    assert not status.busy


def test_the_pruned_count_is_shown_with_unit_prefixes(status, open_file, demo_checkpoint):
    open_file(demo_checkpoint, demo_checkpoint.with_suffix(".yaml"))
    assert status._pruned.text() == "68.4 k of 89.7 k pruned (76.3 %)"


def test_showing_a_job_does_not_change_the_layout(qtbot, workbench):
    window = QMainWindow()
    qtbot.addWidget(window)
    window.setStatusBar(status := StatusBar(workbench))
    window.setCentralWidget(middle := QWidget())
    window.resize(800, 600)
    window.show()
    room = middle.size()
    workbench.bridge.happened.emit(Started(1, JOB))
    qtbot.waitUntil(status._progress.isVisible)
    QApplication.sendPostedEvents()
    assert middle.size() == room
    workbench.bridge.happened.emit(Finished(1, JOB, None))


def test_memory_is_shown_once_the_libraries_are_loaded(status, workbench):
    assert status._memory.text() == ""
    workbench.ready.emit()
    assert re.fullmatch(r"Memory [0-9.]+ [MG]B", status._memory.text())
    assert status._memory_timer.isActive()
