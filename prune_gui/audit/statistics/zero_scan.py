"""Counting the zeros of a checkpoint and finding their patterns, in short slices of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np
import torch

from prune_gui.architecture.heads import attention_heads
from prune_gui.audit.statistics import values
from prune_gui.audit.statistics.file_zeros import FileZeros
from prune_gui.audit.statistics.pattern_scan import Flags, PatternChunk, PatternScan
from prune_gui.audit.statistics.zero_patterns import ZeroPatterns
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.pruning.selection.radix_select import MAX_SMALL_ELEMENTS

MAX_BATCH: Final = 256
"""Limit of the small parameters that are read in one call."""
SPANS_PER_THREAD: Final = 2
"""Spans that each thread reads before the time is checked: some milliseconds."""


class ZeroScan:
    """Counts the zeros of all prunable parameters, the small ones first.

    Not thread-safe: only the engine's thread may use it.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        prunable = [info for info in checkpoint.tensors.values() if not info.not_prunable]
        self._small = [info for info in prunable if info.numel <= MAX_SMALL_ELEMENTS]
        self._large = [info for info in prunable if info.numel > MAX_SMALL_ELEMENTS]
        self._total = sum(info.nbytes for info in prunable)
        self._counts: dict[str, int] = {}
        self._patterns: dict[str, ZeroPatterns] = {}
        self._done = self._elements = 0
        self._work = self._count_all()

    def advance(self, seconds: float, monitor: Monitor) -> FileZeros:
        """Count for about this time, or until all is counted; return the zeros so far.

        Args:
            seconds: time limit.
            monitor: receives the number of bytes read.

        Raises:
            CheckpointError: the file changed while it was read.
            Cancelled: the monitor was cancelled; the count can be continued.
        """
        end, before = time.monotonic() + seconds, self._done
        monitor.expect(self._total - self._done)
        for _ in self._work:
            monitor.advance(self._done - before)
            before = self._done
            if time.monotonic() >= end:
                break
        self._checkpoint.check()
        return FileZeros(
            MappingProxyType(self._counts.copy()),
            MappingProxyType(self._patterns.copy()),
            self._done,
            self._total,
            self._elements,
        )

    def _count_all(self) -> Iterator[None]:
        """Count everything, a few milliseconds of work at a time."""
        for first in range(0, len(self._small), MAX_BATCH):
            self._count_small(self._small[first : first + MAX_BATCH])
            yield
        for info in self._large:
            yield from self._count_large(info)

    def _count_small(self, infos: Sequence[TensorInfo]) -> None:
        zero = values.together(self._checkpoint, [info.name for info in infos]) == 0
        start = 0
        for info in infos:
            of_one: Flags = zero[start : start + info.numel]
            start += info.numel
            kept = self._checkpoint.read_mask(info.name)
            if kept is not None:
                of_one = of_one | ~kept.reshape(-1).numpy()
            self._counts[info.name] = count = int(np.count_nonzero(of_one))
            self._elements += info.numel
            if count and len(info.shape) > 1:
                scan = self._pattern_scan(info)
                for span in scan.spans():
                    scan.add(scan.look(span[0], of_one[slice(*span)]))
                self._patterns[info.name] = scan.found()
            self._done += info.nbytes

    def _count_large(self, info: TensorInfo) -> Iterator[None]:
        read, scan, count = _zero_reader(self._checkpoint, info), self._pattern_scan(info), 0
        before, spans = self._done, scan.spans()

        def look(span: tuple[int, int]) -> PatternChunk:
            return scan.look(span[0], read(*span))

        while some := list(islice(spans, SPANS_PER_THREAD * torch.get_num_threads())):
            for chunk in run(look, some):
                scan.add(chunk)
                count += chunk.zeros
            if some[-1][1] == info.numel:
                self._counts[info.name] = count
                self._elements += info.numel
                if count and len(info.shape) > 1:
                    self._patterns[info.name] = scan.found()
            self._done = before + info.nbytes * some[-1][1] // info.numel
            yield

    def _pattern_scan(self, info: TensorInfo) -> PatternScan:
        if len(info.shape) < 2:
            return PatternScan((info.numel, 1))
        return PatternScan(info.shape, attention_heads(self._checkpoint, info.name))


def _zero_reader(checkpoint: Checkpoint, info: TensorInfo) -> Callable[[int, int], Flags]:
    """Return a reader of which elements with flat indices [start, stop) are zero or masked."""
    read, mask = values.reader(checkpoint, info.name), checkpoint.read_mask(info.name)
    if mask is None:
        return lambda start, stop: read(start, stop) == 0
    kept = mask.reshape(-1).numpy()
    return lambda start, stop: (read(start, stop) == 0) | ~kept[start:stop]
