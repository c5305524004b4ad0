"""Longest pause of the window while it opens, prunes and saves a large checkpoint.

Usage: ``python benchmarks/pauses.py [MEGABYTES]``; the default is 300. A timer of 1 ms beats in
the real window. The longest time between two beats is printed for every job, and also how long the
first picture of a parameter and Cancel take during a save, and which files Cancel leaves behind.
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
from window import Accept, PauseMeter, always, draft_step, is_resolved, opened_window, wait

from prune_gui.engine import Dropped, Event
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.recipe.output import OutputOptions

TENSORS = 24
SAVING_MS = 200
"""Time from the start of a save to the command that is measured during it."""


class SaveCancelled(QObject):
    """Emits `happened` when a save job is dropped, and records the time.

    Attributes:
        at: time of the event by `time.perf_counter`, in seconds.
    """

    happened = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.at = 0.0
        bench.bridge.happened.connect(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Dropped) and event.job.title.startswith("Saving"):
            self.at = time.perf_counter()
            self.happened.emit()


def report(
    pause_meter: PauseMeter,
    job: str,
    start: Callable[[], object],
    until: SignalInstance,
    accept: Accept = always,
) -> None:
    """Run a job, and print its duration and the longest pause of the window."""
    timing = pause_meter.measure(start, until, accept)
    print(f"{job:<28} {timing.seconds:7.2f} s   longest pause {1000 * timing.longest:6.1f} ms")


def make_checkpoint(path: Path, megabytes: int) -> None:
    """Write a checkpoint of random float32 weights; torch is not loaded for it."""
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
        bench, during = window.workbench, partial(report, PauseMeter())
        step = Step(
            method=METHODS["l1_unstructured"].model_validate({"scope": "global"}), targets=("*",)
        )
        during("load torch and compile", bench.warm_up, bench.ready)
        during(
            f"open {megabytes} MB", lambda: bench.files.open(checkpoint), bench.changed, is_resolved
        )
        window.views.bring_forward("mask")
        wait(SAVING_MS)
        during(
            "draw one of its masks",
            lambda: bench.choose("encoder.layer.3.dense.weight"),
            window.views.view("mask").pictured,
        )

        during("preview L1 global", lambda: draft_step(bench, step), bench.changed, is_resolved)
        during(
            "add the step",
            lambda: bench.edit(lambda session: session.add(step)),
            bench.changed,
            is_resolved,
        )
        during(
            "save finalized",
            lambda: bench.files.save(out, OutputOptions()),
            bench.saved,
        )
        saved: list[Path] = []
        bench.saved.connect(saved.append)
        bench.files.save(Path(folder) / "beside.safetensors", OutputOptions())
        wait(SAVING_MS)
        mask = window.views.view("mask")
        during(
            "first picture during a save" + " (which has ended)" * bool(saved),
            lambda: bench.choose("encoder.layer.11.dense.weight"),
            mask.pictured,
            lambda: mask.picture() is not None,
        )
        while not saved:
            wait(SAVING_MS)
        target = Path(folder) / "cancelled.safetensors"
        ticket: list[int | None] = []
        cancelled = SaveCancelled(bench)
        cancel_time = 0.0

        def cancel() -> None:
            nonlocal cancel_time
            cancel_time = time.perf_counter()
            assert ticket[0] is not None
            bench.bridge.cancel(ticket[0])

        def save_and_cancel() -> None:
            ticket.append(bench.files.save(target, OutputOptions()))
            QTimer.singleShot(SAVING_MS, cancel)

        during("save and cancel", save_and_cancel, cancelled.happened)
        print(f"Cancel took {1000 * (cancelled.at - cancel_time):.0f} ms")
        expected = (checkpoint, out, *saved)
        print("left behind:", [p.name for p in Path(folder).iterdir() if p not in expected])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
