"""Verifying a checkpoint: reads all of it and compares it with its recorded metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from zlib_ng.zlib_ng import crc32

from prune_gui.checkpoint import Checkpoint, ShardedCheckpoint, open_checkpoint
from prune_gui.checkpoint.base import FileCheckpoint, Read
from prune_gui.checkpoint.formats import format_named
from prune_gui.checkpoint.parameters import MASK_SUFFIX
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, PACKED_DTYPES, RawTensor, size_in_bytes
from prune_gui.checkpoint.write.content import checksums_in
from prune_gui.errors import CheckpointError
from prune_gui.language import tr, trn
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.number_formats import sparsity_share
from prune_gui.parallel import run
from prune_gui.recipe.recipe import Provenance

MIN_NON_FINITE_BITS: Final = {
    "float64": 0x7FF0 << 48,
    "float32": 0x7F80 << 16,
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7C,
}
"""The smallest non-finite magnitude, as bits: infinity, or NaN where a dtype has no infinity."""
NAN_BITS: Final = {"float8_e4m3fnuz": 0x80, "float8_e5m2fnuz": 0x80, "float8_e8m0fnu": 0xFF}
"""The bits of the only non-finite value of a dtype."""
REAL_DTYPES: Final = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}


class Finding(NamedTuple):
    """A problem or a note about a tensor, by its key in the file, or about a file, by its name."""

    name: str
    text: str


@dataclass
class Verification:
    """The result of verifying a checkpoint.

    Attributes:
        path: the checkpoint.
        tensors: number of tensors read.
        nbytes: bytes of their values.
        compared: number of tensors compared with a checksum recorded at saving.
        problems: differences from what was saved, and defects of any checkpoint.
        notes: other remarks.
    """

    path: Path
    tensors: int = 0
    nbytes: int = 0
    compared: int = 0
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def verify(
    path: str | os.PathLike[str], progress: Progress | None = None, cancel: CancelFlag | None = None
) -> Verification:
    """Read all of a checkpoint, and compare it with what was recorded when it was saved.

    In a file that `export` wrote, each tensor must match its checksum and have at least as many
    zeros as elements were pruned in it (masks: exactly as many). In any file, the records of a
    torch archive must match their checksums, and values must be finite. Non-finite values in a
    tensor that matches its checksum were in the input; they are a note, not a problem.

    Args:
        path: as for `open_checkpoint`.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        CheckpointError: the checkpoint cannot be opened.

    Example:
        >>> verify("pruned.safetensors").problems
        [Finding(name='fc1.weight', text='its values are not those that were saved')]
    """
    monitor = Monitor(progress, cancel)
    with open_checkpoint(path) as checkpoint:
        result = Verification(checkpoint.path)
        made = Provenance.of(checkpoint.metadata)
        if made is not None and made.errors:
            result.notes.append(Finding(checkpoint.path.name, _reconstructed(made)))
        suffix = MASK_SUFFIX if made and made.form == "reparametrized" else ""
        pruned = {name + suffix: count for name, count in (made.pruned if made else {}).items()}
        exactly = made is not None and made.form in ("reparametrized", "masks")
        monitor.expect(sum(_nbytes(raw) for raw in checkpoint.raw.values()))
        with monitor.plan(0):
            for single in _files(checkpoint):
                _File(single, result, pruned, exactly, monitor).verify()
    if not result.compared and not result.problems:
        result.notes.append(Finding(checkpoint.path.name, tr("no checksums are recorded in it")))
    return result


def _reconstructed(made: Provenance) -> str:
    worst = max(made.errors, key=lambda name: made.errors[name])
    return tr(
        "it was reconstructed with calibration data {digest}; the largest error of a layer is "
        "{error}, of {name}",
        digest=made.calibration,
        error=sparsity_share(made.errors[worst]),
        name=worst,
    )


def _files(checkpoint: Checkpoint) -> Iterator[FileCheckpoint]:
    if isinstance(checkpoint, FileCheckpoint):
        yield checkpoint
        return
    assert isinstance(checkpoint, ShardedCheckpoint)
    for shard in checkpoint.index.shards:
        with checkpoint.open_shard(shard) as opened:
            yield opened


def _nbytes(raw: RawTensor) -> int:
    return size_in_bytes(raw.shape, raw.dtype) if raw.special is None else 0


@dataclass
class _File:
    """Verifies a file, of which so many elements are zero, `exactly` or at least, by key."""

    checkpoint: FileCheckpoint
    result: Verification
    pruned: Mapping[str, int]
    exactly: bool
    monitor: Monitor
    checksums: dict[str, int] = field(default_factory=dict)

    def verify(self) -> None:
        checkpoint, name = self.checkpoint, self.checkpoint.path.name
        try:
            self.checksums = checksums_in(checkpoint.metadata)
        except ValueError:
            self._problem(name, tr("the checksums recorded in it are invalid"))
        with ExitStack() as stack:
            try:
                with checkpoint.source.open_again() as file:
                    damaged = format_named(checkpoint.format).damaged_record
                    record = damaged(file, self.monitor, None)
                if record is not None:
                    self._problem(name, tr("its record {record!r} is damaged", record=record))
                read = stack.enter_context(checkpoint.stored_reader())
            except (OSError, CheckpointError) as error:
                self._problem(name, _reason(error))
                return
            dense = [(key, raw) for key, raw in checkpoint.raw.items() if raw.special is None]
            for (key, raw), found in zip(dense, run(partial(self._read, read), dense), strict=True):
                self._judge(key, raw, found)
        for key in self.checksums.keys() - checkpoint.raw.keys():
            self._problem(key, tr("it was saved in this file, and is missing"))

    def _judge(
        self, key: str, raw: RawTensor, found: tuple[int, int, int] | OSError | CheckpointError
    ) -> None:
        self.result.tensors += 1
        self.result.nbytes += _nbytes(raw)
        if isinstance(found, OSError | CheckpointError):
            self._problem(key, _reason(found))
            return
        checksum, zeros, non_finite = found
        recorded = self.checksums.get(key)
        if self.checksums:
            self.result.compared += 1
            if recorded is None:
                self._problem(key, tr("it was not in the file when the file was saved"))
            elif checksum != recorded:
                self._problem(key, tr("its values are not those that were saved"))
        pruned = self.pruned.get(key, 0)
        if key in self.pruned and (zeros != pruned if self.exactly else zeros < pruned):
            few = tr(
                "{pruned:,} of its elements were pruned, and {zeros:,} are zero",
                pruned=pruned,
                zeros=zeros,
            )
            self._problem(key, few)
        if non_finite and checksum == recorded:
            saved = trn(
                "{count:,} of its values is not finite, as when it was saved",
                "{count:,} of its values are not finite, as when it was saved",
                non_finite,
            )
            self.result.notes.append(Finding(key, saved))
        elif non_finite:
            wrong = trn(
                "{count:,} of its values is not finite",
                "{count:,} of its values are not finite",
                non_finite,
            )
            self._problem(key, wrong)

    def _read(
        self, read: Read, tensor: tuple[str, RawTensor]
    ) -> tuple[int, int, int] | OSError | CheckpointError:
        """Return the CRC-32 of a tensor, and its numbers of zeros and of non-finite values."""
        checksum, zeros, non_finite = 0, 0, 0
        (key, raw) = tensor
        try:
            for chunk in read(key):
                if self.checksums:
                    checksum = crc32(chunk, checksum)
                if key in self.pruned and raw.dtype not in PACKED_DTYPES:
                    bits = _bits(chunk, raw.dtype)
                    zeros += bits.size - int(np.count_nonzero(bits))
                non_finite += _non_finite_count(chunk, raw.dtype)
                self.monitor.advance(len(chunk))
        except (OSError, CheckpointError) as error:
            return error
        return checksum, zeros, non_finite

    def _problem(self, name: str, text: str) -> None:
        self.result.problems.append(Finding(name, text))


def _reason(error: OSError | CheckpointError) -> str:
    if isinstance(error, OSError):
        return tr("it cannot be read: {reason}", reason=error.strerror or error)
    return str(error).rstrip(".。")  # what shows a finding ends it


def _bits(chunk: memoryview, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return bytes as unsigned integers, one per element; two per complex element."""
    return np.frombuffer(chunk, f"u{ELEMENT_BITS[dtype] // 8}")


def _non_finite_count(chunk: memoryview, dtype: str) -> int:
    dtype = REAL_DTYPES.get(dtype, dtype)
    if dtype in NAN_BITS:
        return int(np.count_nonzero(_bits(chunk, dtype) == NAN_BITS[dtype]))
    if dtype not in MIN_NON_FINITE_BITS or not len(chunk):
        return 0
    bits, min_non_finite = _bits(chunk, dtype), MIN_NON_FINITE_BITS[dtype]
    magnitudes = bits & bits.dtype.type((1 << (ELEMENT_BITS[dtype] - 1)) - 1)
    if magnitudes.max() < min_non_finite:  # the usual case; `max` is faster than counting
        return 0
    return int(np.count_nonzero(magnitudes >= min_non_finite))
