"""Cyclic garbage, collected on the GUI thread alone.

A collection runs on whichever thread happens to make an object, and destroys what it finds there;
a widget must not be destroyed on the engine's thread.
"""

from __future__ import annotations

import gc
import time
from typing import Final

from PySide6.QtCore import QObject, QTimer

OFTEN: Final = 500
RARELY: Final = 20_000
"""Milliseconds between collections of young objects, and of all."""
FLOOD: Final = 20_000
"""New objects in that time that no widgets make: they are the tensors of a large checkpoint, or
what is pruned of them, which hold no cycles and would take long to look through."""
LONG: Final = 0.03
"""Seconds of a collection of all after which what is left is not looked through again."""


class GcTimer(QObject):
    """Collects on a timer of the thread it is made on, in place of Python's own way.

    Python's way ends at once. Collecting begins with `settle`: while libraries load there is much
    to look through and nothing to find.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._young = QTimer(self, interval=OFTEN)
        self._young.timeout.connect(_collect_young)
        self._all = QTimer(self, interval=RARELY)
        self._all.timeout.connect(_collect_all)

    def settle(self) -> None:
        """Begin, and leave alone what exists by now: libraries, most of it, there to stay."""
        if not self._all.isActive():
            gc.freeze()
            self._young.start()
            self._all.start()

    def look_again(self) -> None:
        """Look through what was left alone, too: a window that was part of it is gone."""
        gc.unfreeze()
        gc.collect()
        if self._all.isActive():
            gc.freeze()

    def stop(self) -> None:
        """Hand collecting back to Python."""
        self._young.stop()
        self._all.stop()
        gc.unfreeze()
        gc.enable()


def _collect_young() -> None:
    if gc.get_count()[0] > FLOOD:
        gc.freeze()
    else:
        gc.collect(1)


def _collect_all() -> None:
    began = time.perf_counter()
    gc.collect(2)
    if time.perf_counter() - began > LONG:
        gc.freeze()
