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
from functools import partial
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance
from window import Heart, opened_window

from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
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


def report(heart: Heart, job: str, start: Callable[[], object], until: SignalInstance) -> None:
    """Run a job, and print how long it took and for how long the window stood still."""
    beats = heart.during(start, until)
    print(f"{job:<28} {beats.seconds:7.2f} s   longest pause {1000 * beats.longest:6.1f} ms")


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
    with tempfile.TemporaryDirectory() as folder, opened_window() as window:
        checkpoint, out = Path(folder) / "model.safetensors", Path(folder) / "out.safetensors"
        make_checkpoint(checkpoint, megabytes)
        bench, during = window.workbench, partial(report, Heart())
        step = Step(
            method=METHODS["l1_unstructured"].model_validate({"scope": "global"}), targets=("*",)
        )
        during("load torch and compile", bench.warm_up, bench.ready)
        during(f"open {megabytes} MB", lambda: bench.open(checkpoint), bench.resolved_changed)
        during(
            "draw one of its masks",
            lambda: bench.choose("encoder.layer.3.dense.weight"),
            bench.chosen_changed,
        )
        during("preview L1 global", lambda: bench.set_draft(step), bench.resolved_changed)
        during("add the step", bench.commit_draft, bench.resolved_changed)
        during("save finalized", lambda: bench.save(out, "finalized", overwrite=False), bench.saved)
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

        during("save and cancel", save_and_cancel, dropped.happened)
        print(f"Cancel took {1000 * (dropped.at - cancelled):.0f} ms")
        print(
            "left behind:", [p.name for p in Path(folder).iterdir() if p not in (checkpoint, out)]
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
