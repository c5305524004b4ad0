"""Counting the zeros of a checkpoint and finding their patterns, in short slices of time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np
import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.parallel import run
from prune_gui.pruning.arrays import Flags
from prune_gui.pruning.selection.radix_select import MAX_SMALL_ELEMENTS
from prune_gui.statistics import weight_values
from prune_gui.statistics.dispatch import ROUND_BYTES, map_parameters, uses_executor
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns
from prune_gui.statistics.pattern_scan import PatternChunk, PatternScan

MAX_BATCH: Final = 256
SPANS_PER_THREAD: Final = 2
"""Spans that each thread reads before the time is checked: some milliseconds."""


class ZeroScan:
    """Counts the zeros of prunable parameters, the small ones first. Not thread-safe."""

    def __init__(self, checkpoint: Checkpoint, infos: Iterable[TensorInfo] | None = None) -> None:
        self._checkpoint = checkpoint
        every = checkpoint.tensors.values() if infos is None else infos
        prunable = [info for info in every if not info.not_prunable]
        small = [info for info in prunable if info.numel <= MAX_SMALL_ELEMENTS]
        large = [info for info in prunable if info.numel > MAX_SMALL_ELEMENTS]
        batches = (small[i : i + MAX_BATCH] for i in range(0, len(small), MAX_BATCH))
        self._groups = deque([*batches, *([info] for info in large)])
        self._total = sum(info.nbytes for info in prunable)
        self._counts: dict[str, int] = {}
        self._patterns: dict[str, ZeroPatterns] = {}
        self._done = self._elements = 0
        self._uncounted = frozenset(info.name for info in prunable if info.kind)
        if len(self._uncounted) == len(prunable):
            self._uncounted = frozenset()  # there is nothing else
        self._large: Iterator[None] | None = None  # the count of the large parameter in progress

    def advance(self, seconds: float, monitor: Monitor) -> FileZeros:
        """Count for about this time, or until all is counted; return the zeros so far.

        An executor, whose speed is not known, counts in `ROUND_BYTES` instead.
        """
        end = time.monotonic() + seconds
        monitor.expect(self._total - self._done)
        while self._groups or self._large:
            is_unlimited = not math.isfinite(seconds) and len(self._groups) > 1
            if self._large is None and (is_unlimited or uses_executor(self._total - self._done)):
                self._count_elsewhere(None if is_unlimited else ROUND_BYTES, monitor)
            else:
                before = self._done
                self._count_next()
                monitor.advance(self._done - before)
            if time.monotonic() >= end:
                break
        self._checkpoint.check()
        return FileZeros(
            MappingProxyType(self._counts.copy()),
            MappingProxyType(self._patterns.copy()),
            self._done,
            self._total,
            self._elements,
            self._uncounted,
        )

    def _count_elsewhere(self, limit: int | None, monitor: Monitor) -> None:
        tasks, nbytes = [], 0
        for group in self._groups:
            if limit is not None and nbytes >= limit:
                break
            tasks.append((self._checkpoint, group))
            nbytes += sum(info.nbytes for info in group)
        with monitor.plan(0):
            results = (
                map_parameters(_count_group, tasks, nbytes, monitor)
                if uses_executor(nbytes)
                else run(lambda task: _count_group(task, monitor), tasks)
            )
            for counts, patterns in results:
                self._counts |= counts
                self._patterns |= patterns
                group = self._groups.popleft()
                self._add_elements(group)
                self._done += sum(info.nbytes for info in group)

    def _add_elements(self, infos: Iterable[TensorInfo]) -> None:
        self._elements += sum(info.numel for info in infos if info.name not in self._uncounted)

    def _count_next(self) -> None:
        if self._large is None:
            group = self._groups.popleft()
            if group[0].numel <= MAX_SMALL_ELEMENTS:
                self._count_small(group)
                return
            self._large = self._count_large(group[0])
        if next(self._large, _ENDED) is _ENDED:
            self._large = None

    def _count_small(self, infos: Sequence[TensorInfo]) -> None:
        zero = weight_values.together(self._checkpoint, [info.name for info in infos]) == 0
        start = 0
        for info in infos:
            of_one: Flags = zero[start : start + info.numel]
            start += info.numel
            kept = self._checkpoint.read_mask(info.name)
            if kept is not None:
                of_one = of_one | ~kept.reshape(-1).numpy()
            self._counts[info.name] = count = int(np.count_nonzero(of_one))
            self._add_elements([info])
            if count and len(info.shape) > 1:
                scan = PatternScan.of(self._checkpoint, info)
                for span in scan.spans():
                    scan.add(scan.look(span[0], of_one[slice(*span)]))
                self._patterns[info.name] = scan.found()
            self._done += info.nbytes

    def _count_large(self, info: TensorInfo) -> Iterator[None]:
        checkpoint, scan = self._checkpoint, PatternScan.of(self._checkpoint, info)
        # Not a view: the thread that read the last span unmaps it.
        zeros = weight_values.zeros_reader(checkpoint, info.name)
        mask = checkpoint.read_mask(info.name)
        masked = None if mask is None else ~mask.reshape(-1).numpy()
        before, spans, count = self._done, scan.spans(), 0

        def look(span: tuple[int, int]) -> PatternChunk | None:
            zero = zeros(*span)
            if masked is not None:
                pruned = masked[slice(*span)]
                zero = pruned if zero is None else zero | pruned
            return None if zero is None else scan.look(span[0], zero)

        while some := list(islice(spans, SPANS_PER_THREAD * torch.get_num_threads())):
            for chunk in run(look, some):
                scan.add(chunk)
                count += chunk.zeros if chunk else 0
            if some[-1][1] == info.numel:
                self._counts[info.name] = count
                self._add_elements([info])
                if count and len(info.shape) > 1:
                    self._patterns[info.name] = scan.found()
            self._done = before + info.nbytes * some[-1][1] // info.numel
            yield


_ENDED: Final = object()


def _count_group(
    task: tuple[Checkpoint, Sequence[TensorInfo]], monitor: Monitor
) -> tuple[dict[str, int], dict[str, ZeroPatterns]]:
    found = ZeroScan(*task).advance(math.inf, monitor)
    return dict(found.counts), dict(found.patterns)
