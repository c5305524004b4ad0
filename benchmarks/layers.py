"""The view *Layers* on a checkpoint of 100,000 small tensors.

Usage: ``python benchmarks/layers.py [TENSORS]``. A timer of 1 ms beats in a real view. The longest
time between two beats is printed while the view computes its statistics: of the unpruned file and
after a global step, with modules as rows and with a row for every parameter.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from opening import experts
from pauses import report
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QComboBox
from window import PauseMeter, draft_step, is_resolved

from prune_gui.gui import app as application
from prune_gui.gui.runtime.gc_timer import GcTimer
from prune_gui.gui.views.layers.view import LayersView
from prune_gui.gui.widgets.theme import Theme
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step

ELEMENTS = 64


class Complete(QObject):
    """Emits `happened` when the statistics are complete, and counts updates of the view."""

    happened = Signal()

    def __init__(self, view: LayersView) -> None:
        super().__init__()
        self.updates = 0
        self._view = view
        view.pictured.connect(self._on_picture)

    def _on_picture(self) -> None:
        found = self._view._data
        self.updates += 1
        if found is not None and self._view.picture() is not None and found.statistics.is_complete:
            self.happened.emit()


def make_checkpoint(path: Path, number: int) -> None:
    """Write `number` random float32 tensors of `ELEMENTS` elements."""
    from safetensors.numpy import save_file

    weights = np.random.default_rng(0).standard_normal((number, ELEMENTS), dtype=np.float32)
    save_file(dict(zip(experts(number), weights, strict=True)), path)


def main() -> None:
    """Measure and print."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    sys.setswitchinterval(application.SWITCH_INTERVAL_S)
    qt = QApplication(sys.argv[:1])
    theme = Theme(qt, "light")
    bench, gc_timer = Workbench(), GcTimer(qt)
    bench.ready.connect(gc_timer.settle)
    view = LayersView(bench)
    view.resize(1000, 700)
    view.show()
    pause_meter, complete = PauseMeter(), Complete(view)
    step = Step(
        method=METHODS["l1_unstructured"].model_validate({"scope": "global"}), targets=("*",)
    )
    rows = next(box for box in view.findChildren(QComboBox) if box.count() == 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.safetensors"
        make_checkpoint(path, number)
        report(pause_meter, "load torch and compile", bench.warm_up, bench.ready)
        for title, prepare, act in (
            ("read them all", lambda: bench.files.open(path), view.show),
            ("a row for each", None, lambda: rows.setCurrentIndex(0)),
            ("read them after a step", lambda: draft_step(bench, step), view.show),
        ):
            if prepare is not None:
                view.hide()
                report(pause_meter, "  open, or prune", prepare, bench.changed, is_resolved)
            complete.updates = 0
            report(pause_meter, title, act, complete.happened)
            print(f"{'':<28} {complete.updates} updates")
        view.hide()
        bench.close()
    gc_timer.stop()
    del theme


if __name__ == "__main__":
    main()
