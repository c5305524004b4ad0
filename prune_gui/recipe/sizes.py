"""How large each form of a pruned checkpoint will be, and how much of that compression saves."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prune_gui.checkpoint.byte_chunks import byte_chunks
from prune_gui.checkpoint.source import FINGERPRINT_PREFIX
from prune_gui.checkpoint.write.checksums import CHECKSUMS
from prune_gui.checkpoint.write.file_sizes import file_nbytes, shards_nbytes
from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe.exporting import metadata_for, parts_to_write, surroundings
from prune_gui.recipe.parts import FORMS, Form, FormTensor
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.target import OutputPath

ANY_FINGERPRINT: Final = FINGERPRINT_PREFIX + "0" * 64
"""As long as that of any file."""
SAMPLE_BYTES: Final = 1 << 14
"""Of one sample: half of what zlib looks back. Many small ones tell more than a few large ones."""
SAMPLES: Final = 48
"""Of one form: a few tenths of a second of zlib for all three."""
GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Size:
    """How large one form will be.

    Attributes:
        nbytes: of the file, or of the shards and their index; to the byte.
        share: about which share of it would be left by zip, in [0, 1] or a little more: estimated
            from samples of the values.
    """

    nbytes: int
    share: float

    @property
    def compressed(self) -> int:
        """About how many bytes zip would leave."""
        return round(self.nbytes * self.share)


Sizes = Mapping[Form, Size | PruneGuiError]
"""By form, its size, or why it cannot be written."""


def sizes(
    resolution: Resolution,
    out: str | os.PathLike[str],
    shard_size: int | None = None,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> Sizes:
    """Return how large the pruned checkpoint would be in each form, without writing it.

    Args:
        resolution: what to prune.
        out: where to, as for `export`.
        shard_size: as for `export`.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        CheckpointError: `out` cannot be the name of what is written.
        Cancelled: `cancel` was set.

    Example:
        >>> sizes(resolution, "pruned.safetensors")["finalized"]
        Size(nbytes=365104, share=0.41)
    """
    target = OutputPath.of(resolution.checkpoint, out, shard_size)
    return measure(resolution, target, Monitor(progress, cancel))


def measure(resolution: Resolution, target: OutputPath, monitor: Monitor) -> Sizes:
    """Do as `sizes`, reporting to a monitor."""
    found: dict[Form, Size | PruneGuiError] = {}
    for form in FORMS:
        try:
            parts = parts_to_write(resolution, form)
            nbytes = _nbytes(resolution, target, form, parts, monitor)
            found[form] = Size(nbytes, _share(parts, monitor))
        except Cancelled:
            raise
        except PruneGuiError as error:
            found[form] = error
    return found


def _nbytes(
    resolution: Resolution,
    target: OutputPath,
    form: Form,
    parts: Sequence[FormTensor],
    monitor: Monitor,
) -> int:
    monitor.advance()
    checkpoint = resolution.checkpoint
    entries = [part.entry for part in parts]
    like = surroundings(resolution, form)
    metadata = {**metadata_for(resolution, form, ANY_FINGERPRINT), CHECKSUMS: ""}
    if not target.is_folder:
        metadata = {**checkpoint.metadata, **metadata}
        return file_nbytes(target.path, entries, like=like, metadata=metadata)
    return shards_nbytes(
        target.path,
        entries,
        source=checkpoint,
        like=like,
        metadata=metadata,
        shard_size=target.shard_size,
        monitor=monitor,
    )


def _share(parts: Sequence[FormTensor], monitor: Monitor) -> float:
    """Return about which share of the bytes of some tensors zip would leave; 1 if there are none.

    Samples lie all over the tensors laid end to end, so that each counts as much as it takes; what
    is no larger than all samples is compressed as a whole.
    """
    monitor.expect(min(SAMPLES * SAMPLE_BYTES, sum(part.entry.nbytes for part in parts)))
    before = after = 0
    for start, stop in _places(sum(part.entry.nbytes for part in parts)):
        sample = b"".join(_octets(parts, start, stop))
        before += len(sample)
        after += len(zlib.compress(sample))
        monitor.advance(len(sample))
    return after / before if before else 1.0


def _places(total: int) -> Iterator[tuple[int, int]]:
    """Yield where samples of so many bytes begin and end: one in each of some equal stretches.

    Where in it goes by the golden ratio, so as not to meet every layer of a model at one place.
    """
    count = min(SAMPLES, -(-total // SAMPLE_BYTES))
    for number in range(count):
        start, end = (total * edge // count for edge in (number, number + 1))
        spare = max(0, end - start - SAMPLE_BYTES)
        start += int(spare * (number * GOLDEN % 1))
        yield start, min(start + SAMPLE_BYTES, end)


def _octets(parts: Sequence[FormTensor], start: int, stop: int) -> Iterator[memoryview]:
    """Yield bytes [start, stop) of some tensors laid end to end, rounded out to entries."""
    begin = 0
    for part in parts:
        nbytes = part.entry.nbytes
        first, last = max(start - begin, 0), min(stop - begin, nbytes)
        if first < last:
            unit = nbytes // part.units
            for values in part.values([(first // unit, -(-last // unit))]):
                yield from byte_chunks(values)
        begin += nbytes
