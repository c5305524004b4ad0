"""Cyclic garbage collection on the GUI thread only.

Python collects on any thread that allocates an object, and destroys the garbage on that thread.
A widget must not be destroyed on a thread of the engine.
"""

from __future__ import annotations

import gc
import time
from typing import Final

from PySide6.QtCore import QObject, QTimer

YOUNG_INTERVAL_MS: Final = 500
"""Interval between collections of the two young generations."""
FULL_INTERVAL_MS: Final = 20_000
"""Interval between full collections."""
MAX_YOUNG_OBJECTS: Final = 20_000
"""Limit of the new objects that a young collection examines; more are frozen.

Widgets never make that many within the interval. They belong to the tensors of a large checkpoint
or to a resolution, hold no cycles, and take long to examine.
"""
MAX_FULL_COLLECTION_S: Final = 0.03
"""If a full collection takes longer, the surviving objects are frozen."""


class GcTimer(QObject):
    """Replaces Python's automatic collection by timers of the thread that creates this object.

    Automatic collection is disabled on creation. The timers start with `settle`: while libraries
    load, there are many objects to examine and no garbage.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._young = QTimer(self, interval=YOUNG_INTERVAL_MS)
        self._young.timeout.connect(_collect_young)
        self._full = QTimer(self, interval=FULL_INTERVAL_MS)
        self._full.timeout.connect(_collect_all)

    def settle(self) -> None:
        """Freeze all existing objects, mostly those of libraries, and start the timers."""
        if not self._full.isActive():
            gc.freeze()
            self._young.start()
            self._full.start()

    def look_again(self) -> None:
        """Collect frozen objects too, after a window that may be frozen was closed."""
        gc.unfreeze()
        gc.collect()
        if self._full.isActive():
            gc.freeze()

    def stop(self) -> None:
        self._young.stop()
        self._full.stop()
        gc.unfreeze()
        gc.enable()


def _collect_young() -> None:
    if gc.get_count()[0] > MAX_YOUNG_OBJECTS:
        gc.freeze()
    else:
        gc.collect(1)


def _collect_all() -> None:
    start = time.perf_counter()
    gc.collect(2)
    if time.perf_counter() - start > MAX_FULL_COLLECTION_S:
        gc.freeze()
