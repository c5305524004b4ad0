"""Metadata to write, of which some is known only after the values are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import FINGERPRINT_PREFIX
from prune_gui.executor import current_executor
from prune_gui.monitor import Monitor

ANY_FINGERPRINT: Final = f"{FINGERPRINT_PREFIX}{'0' * 64}"
"""A fingerprint of the usual length."""


@dataclass(frozen=True, slots=True)
class LateText:
    """A text that is computed while the values are written.

    Attributes:
        placeholder: a text with the same number of bytes.
        result: waits for the text and returns it; raises the error of its computation.
    """

    placeholder: str
    result: Callable[[], str]

    def text(self, *, wait: bool) -> str:
        """Return the text, or the placeholder."""
        return self.result() if wait else self.placeholder


Metadata = Mapping[str, str | LateText]
"""The texts to write by key."""


@contextmanager
def fingerprint_beside(
    checkpoint: Checkpoint, monitor: Monitor, *, at_once: bool = False
) -> Iterator[str | LateText]:
    """Yield the fingerprint of a checkpoint, which another thread computes during the block.

    The computation is cancelled if the block ends before it. On an executor (see
    `prune_gui.executor`), whose workers cannot wait for it, it is computed before the block.

    Args:
        checkpoint: the checkpoint.
        monitor: counts the bytes that are read.
        at_once: whether to compute it before the block.
    """
    if at_once or current_executor() is not None:
        yield checkpoint.fingerprint(monitor)
        return
    left = Event()
    with ThreadPoolExecutor(1, "prune-gui-fingerprint") as pool:
        future = pool.submit(_fingerprint, checkpoint, monitor.stopped_by(left))
        try:
            yield LateText(ANY_FINGERPRINT, future.result)
        finally:
            left.set()


def _fingerprint(checkpoint: Checkpoint, monitor: Monitor) -> str:
    with monitor.in_charge():
        return checkpoint.fingerprint(monitor)
