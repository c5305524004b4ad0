"""How long the window ever stands still while it opens, prunes and saves a large checkpoint.

Run it as ``python benchmarks/heartbeat.py [MEGABYTES]``; 300 unless told. A timer of 1 ms beats
in the real window, and the longest time between two beats is printed for every job, as well as how
long Cancel takes during a save and whether it leaves anything behind.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import QEventLoop, QObject, Qt, QTimer, Signal, SignalInstance
from PySide6.QtWidgets import QApplication

from prune_gui.gui import app as application
from prune_gui.gui.collector import Collector
from prune_gui.gui.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session import Settings
from prune_gui.worker import Dropped as DroppedEvent
from prune_gui.worker import Event

TENSORS = 24


class Dropped(QObject):
    """Tells when a job was dropped."""

    happened = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.at = 0.0
        bench.bridge.happened.connect(self._look)

    def _look(self, event: Event) -> None:
        if isinstance(event, DroppedEvent) and event.job.title.startswith("Saving"):
            self.at = time.perf_counter()
            self.happened.emit()


class Heart(QObject):
    """Beats every millisecond, and remembers the longest it did not."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._last = time.perf_counter()
        self._timer = QTimer(self, interval=1, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.longest = max(self.longest, now - self._last)
        self._last = now

    def during(self, job: str, start: Callable[[], object], until: SignalInstance) -> float:
        """Run a job; print and return its seconds."""
        loop = QEventLoop()
        until.connect(loop.quit)
        self._beat()
        self.longest = 0.0
        began = time.perf_counter()
        QTimer.singleShot(0, start)
        loop.exec()
        seconds = time.perf_counter() - began
        pause = QEventLoop()  # what follows a job is part of it
        QTimer.singleShot(500, pause.quit)
        pause.exec()
        until.disconnect(loop.quit)
        print(f"{job:<28} {seconds:7.2f} s   longest pause {1000 * self.longest:6.1f} ms")
        return seconds


def make_checkpoint(path: Path, megabytes: int) -> None:
    """Write a checkpoint of random float32 weights, without torch: that comes later."""
    from safetensors.numpy import save_file

    generator = np.random.default_rng(0)
    rows = megabytes * 1_000_000 // TENSORS // 4 // 2048
    save_file(
        {
            f"encoder.layer.{i}.dense.weight": generator.standard_normal(
                (rows, 2048), dtype=np.float32
            )
            for i in range(TENSORS)
        },
        path,
    )


def main(megabytes: int) -> None:
    """Measure and print."""
    sys.setswitchinterval(application.SWITCH_INTERVAL)
    qt = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, out = Path(folder) / "model.safetensors", Path(folder) / "out.safetensors"
        make_checkpoint(checkpoint, megabytes)
        bench, collector = Workbench(), Collector(qt)
        bench.ready.connect(collector.settle)
        window = MainWindow(bench, Theme(qt, "light"), Settings(), Path(folder) / "log")
        window.show()
        heart = Heart()
        step = Step(
            method=METHODS["l1_unstructured"].model_validate({"scope": "global"}), targets=("*",)
        )
        heart.during("load torch and compile", bench.warm_up, bench.ready)
        heart.during(f"open {megabytes} MB", lambda: bench.open(checkpoint), bench.resolved_changed)
        heart.during(
            "draw one of its masks",
            lambda: bench.choose("encoder.layer.3.dense.weight"),
            bench.chosen_changed,
        )
        heart.during("preview L1 global", lambda: bench.set_draft(step), bench.resolved_changed)
        heart.during("add the step", bench.commit_draft, bench.resolved_changed)
        heart.during(
            "save finalized", lambda: bench.save(out, "finalized", overwrite=False), bench.saved
        )
        left = Path(folder) / "cancelled.safetensors"
        ticket: list[int | None] = []
        dropped = Dropped(bench)
        cancelled = 0.0

        def cancel() -> None:
            nonlocal cancelled
            cancelled = time.perf_counter()
            assert ticket[0] is not None
            bench.bridge.cancel(ticket[0])

        def save_and_cancel() -> None:
            ticket.append(bench.save(left, "finalized", overwrite=False))
            QTimer.singleShot(200, cancel)

        heart.during("save and cancel", save_and_cancel, dropped.happened)
        print(f"Cancel took {1000 * (dropped.at - cancelled):.0f} ms")
        print(
            "left behind:", [p.name for p in Path(folder).iterdir() if p not in (checkpoint, out)]
        )
        window.close()
        bench.close()
        collector.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
