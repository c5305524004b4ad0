"""The size of each form of a pruned checkpoint: exact, and as estimated if compressed."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import torch

from prune_gui.checkpoint import TensorWriter
from prune_gui.checkpoint.source import byte_chunks
from prune_gui.checkpoint.torch.archive import deflated_chunks
from prune_gui.checkpoint.write.content import ANY_FINGERPRINT, CHECKSUMS_KEY
from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe.compaction.plan import check_format
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.exporting import metadata_for, output_of, parts_to_write
from prune_gui.recipe.output import FORMS, Form, OutputOptions, OutputPath
from prune_gui.recipe.resolution import Resolution

SAMPLE_BYTES: Final = 1 << 15
"""The window of deflate. Many small samples estimate better than a few large ones."""
MAX_SAMPLES: Final = 128
"""Limit per form: compressing the samples of all forms takes about half a second."""
GOLDEN_RATIO: Final = (5**0.5 - 1) / 2  # the fractional part of the golden ratio


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one form.

    Attributes:
        nbytes: exact size in bytes of the file, or of the shards and their index, without the other
            files in the folder.
        share: estimated size of a compressed file over `nbytes`, from samples of the values; in
            [0, 1] or slightly more. What a torch file keeps besides the parameters counts in full.
    """

    nbytes: int
    share: float
    note: str = ""

    @property
    def compressed(self) -> int:
        """Estimated bytes of a compressed file."""
        return round(self.nbytes * self.share)


Sizes = Mapping[Form, Size | PruneGuiError]
"""By form, its size, or the error that prevents writing it."""


def sizes(
    resolution: Resolution,
    out: str | os.PathLike[str],
    shard_size: int | None = None,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> Sizes:
    """Return the size of the pruned checkpoint in each form, without writing it.

    Args:
        progress: called with (done, total) in bytes.

    Example:
        >>> sizes(resolution, "pruned.safetensors")["finalized"]
        Size(nbytes=365104, share=0.41)
    """
    target = OutputPath.of(resolution.checkpoint, out, OutputOptions(shard_size=shard_size))
    return measure(resolution, target, Monitor(progress, cancel))


def measure(resolution: Resolution, target: OutputPath, monitor: Monitor) -> Sizes:
    """Return what `sizes` returns, with a monitor for progress and cancelling."""
    result: dict[Form, Size | PruneGuiError] = {}
    for form in FORMS:
        try:
            if form == "compact":
                check_format(target.format, target.file.name)
            options = OutputOptions(form)
            parts = parts_to_write(resolution, options, monitor)
            output = output_of(resolution, target, options, parts)
            metadata = metadata_for(resolution, options, ANY_FINGERPRINT)
            nbytes = output.nbytes({**metadata, CHECKSUMS_KEY: ""}, monitor)
            share = _compressed_share(parts, monitor)
            if target.format.write_compressed is not None:
                share = 1 - (1 - share) * sum(part.nbytes for part in parts) / nbytes
            note = contents_note(resolution, target, form, parts)
            result[form] = Size(nbytes, share, note)
        except Cancelled:
            raise
        except PruneGuiError as error:
            result[form] = error
    return result


def _compressed_share(parts: Sequence[TensorWriter], monitor: Monitor) -> float:
    """Return the estimated share of bytes after compression; 1 if there are no bytes.

    Samples are spread over the concatenated tensors, so that each tensor counts by its size.
    """
    monitor.expect(min(MAX_SAMPLES * SAMPLE_BYTES, sum(part.nbytes for part in parts)))
    before = after = 0
    spans = _sample_spans(sum(part.nbytes for part in parts))
    ends = list(accumulate(part.nbytes for part in parts))
    samples = (memoryview(b"".join(_byte_views(parts, ends, *span))) for span in spans)
    with closing(deflated_chunks(enumerate(samples), torch.get_num_threads())) as compressed:
        for _, sample, blocks in compressed:
            before += len(sample)
            after += len(blocks)
            monitor.advance(len(sample))
    return after / before if before else 1.0


def _sample_spans(total: int) -> Iterator[tuple[int, int]]:
    """Yield the byte span (start, stop) of each sample: one in each of several equal intervals.

    The offset follows the golden ratio, so that samples do not hit the same position of every
    layer.
    """
    count = min(MAX_SAMPLES, -(-total // SAMPLE_BYTES))
    for number in range(count):
        start, end = (total * edge // count for edge in (number, number + 1))
        spare = max(0, end - start - SAMPLE_BYTES)
        start += int(spare * (number * GOLDEN_RATIO % 1))
        yield start, min(start + SAMPLE_BYTES, end)


def _byte_views(
    parts: Sequence[TensorWriter], ends: Sequence[int], start: int, stop: int
) -> Iterator[memoryview]:
    for index in range(bisect_right(ends, start), len(parts)):
        part, nbytes = parts[index], parts[index].nbytes
        begin = ends[index] - nbytes
        if begin >= stop:
            break
        if nbytes:
            assert part.values is not None
            unit = nbytes // part.units
            first, last = max(start - begin, 0), min(stop - begin, nbytes)
            for values in part.values([(first // unit, -(-last // unit))]):
                yield from byte_chunks(values)
