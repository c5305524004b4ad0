"""Long work in slices."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QObject, QTimer

from prune_gui.gui.runtime import startup
from prune_gui.gui.runtime.startup import SlicedWork


def test_other_timers_fire_between_two_parts(qtbot, monkeypatch):
    monkeypatch.setattr(startup, "SLICE_S", 0.0)
    done = []
    parent, beat = QObject(), QTimer(interval=0)
    beat.timeout.connect(lambda: done.append("beat"))
    beat.start()
    SlicedWork((done.append(part) for part in range(3)), parent, lambda: done.append("end"))
    qtbot.waitUntil(lambda: "end" in done)
    beat.stop()
    parts = [done.index(part) for part in (0, 1, 2, "end")]
    assert parts == sorted(parts)
    assert all("beat" in done[a:b] for a, b in pairwise(parts))


def test_work_stops_when_its_parent_is_deleted(qtbot):
    done = []
    parent = QObject()
    SlicedWork((done.append(part) for part in range(3)), parent)
    parent.deleteLater()
    qtbot.waitSignal(parent.destroyed).wait()
    assert done == []
