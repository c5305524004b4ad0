"""Reading a checkpoint again, and comparing it with what it says of itself."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from prune_gui.checkpoint import Checkpoint, ShardedCheckpoint, open_checkpoint
from prune_gui.checkpoint.parameters import MASK, RawTensor
from prune_gui.checkpoint.tensor_info import ENTRY_BITS, PACKED_DTYPES, size_in_bytes
from prune_gui.checkpoint.torch.archive import damaged_record
from prune_gui.checkpoint.write.checksums import checksums_in
from prune_gui.checkpoint.write.reading_back import Read, stored_reader
from prune_gui.errors import CheckpointError
from prune_gui.language import later, tr
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe.provenance import Provenance

INLINE_BYTES: Final = 1 << 19
"""Of a piece whose checksum is computed at once: to hand it to another thread takes longer."""
NON_FINITE_FROM: Final = {
    "float64": 0x7FF0 << 48,
    "float32": 0x7F80 << 16,
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7C,
}
"""The bits of infinity, or of NaN where a type has no infinity: the least magnitude not finite."""
ONLY_NAN: Final = {"float8_e4m3fnuz": 0x80, "float8_e5m2fnuz": 0x80, "float8_e8m0fnu": 0xFF}
"""The bits of the one value that is not finite."""
REAL: Final = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}
CHANGED: Final = later("its values are not those that were saved")
MISSING: Final = later("it was saved in this file, and is missing")
ADDED: Final = later("it was not in the file when that was saved")
FEW_ZEROS: Final = later("{pruned:,} of its entries were pruned, and {zeros:,} are zero")
NON_FINITE: Final = later("{count:,} of its values are not finite")
SAVED_NON_FINITE: Final = later("{count:,} of its values are not finite, as when it was saved")


class Finding(NamedTuple):
    """What is wrong with a tensor, or worth knowing of it.

    Attributes:
        name: of the tensor, by its key in the file; the name of a file if it is about that.
        text: what.
    """

    name: str
    text: str


@dataclass
class Verification:
    """What was found in a checkpoint.

    Attributes:
        path: of it.
        tensors: how many were read.
        nbytes: of their values.
        compared: how many were compared with a checksum recorded at saving.
        problems: how it differs from what was saved, or from what any checkpoint should be.
        notes: what else there is to know.
    """

    path: Path
    tensors: int = 0
    nbytes: int = 0
    compared: int = 0
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def verify(
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> Verification:
    """Read all of a checkpoint, and compare it with what was recorded when it was saved.

    Of a file that `export` wrote, each tensor has to have its checksum, and as many zeros as
    entries were pruned in it (masks: exactly as many). Of any file, the records of a torch archive
    have to agree with their checksums, and values have to be finite. Values that are not finite
    but have the checksum recorded at saving were so in the input; they are a note, not a problem.

    Args:
        path: as for `open_checkpoint`.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        CheckpointError: it cannot be opened.
        Cancelled: `cancel` was set.

    Example:
        >>> verify("pruned.safetensors").problems
        [Finding(name='fc1.weight', text='its values are not those that were saved')]
    """
    monitor = Monitor(progress, cancel)
    with open_checkpoint(path) as checkpoint, ThreadPoolExecutor(1, "prune-gui-crc") as pool:
        found = Verification(checkpoint.path)
        made = Provenance.of(checkpoint.metadata)
        zeros = _expected_zeros(made)
        monitor.expect(sum(_nbytes(raw) for raw in checkpoint.raw.values()))
        with monitor.plan(0):
            for single in _files(checkpoint):
                _File(single, found, zeros, pool, monitor).verify()
    if not found.compared and not found.problems:
        found.notes.append(Finding(checkpoint.path.name, tr("no checksums are recorded in it")))
    return found


def _files(checkpoint: Checkpoint) -> Iterator[Checkpoint]:
    """Yield the shards, each open till the next, or the checkpoint itself."""
    if not isinstance(checkpoint, ShardedCheckpoint):
        yield checkpoint
        return
    for shard in checkpoint.index.shards:
        with checkpoint.open_shard(shard) as opened:
            yield opened


def _nbytes(raw: RawTensor) -> int:
    return size_in_bytes(raw.shape, raw.dtype) if raw.special is None else 0


class _Zeros(NamedTuple):
    """How many zeros a tensor has to have.

    Attributes:
        number: how many.
        exactly: whether no more are right.
    """

    number: int
    exactly: bool

    def agree(self, found: int) -> bool:
        """Tell whether so many are right."""
        return found == self.number if self.exactly else found >= self.number


def _expected_zeros(made: Provenance | None) -> dict[str, _Zeros]:
    """Return how many zeros tensors have to have, by key."""
    if made is None:
        return {}
    suffix = MASK if made.form == "reparametrized" else ""
    masks = made.form in ("reparametrized", "masks")
    return {name + suffix: _Zeros(count, masks) for name, count in made.pruned.items()}


class _Facts(NamedTuple):
    """What reading a tensor tells of it.

    Attributes:
        checksum: the CRC-32 of its bytes.
        zeros: its entries with no bit set.
        non_finite: its values that are infinite or NaN.
    """

    checksum: int
    zeros: int
    non_finite: int


class _File:
    """A single file that is verified."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        found: Verification,
        zeros: Mapping[str, _Zeros],
        pool: ThreadPoolExecutor,
        monitor: Monitor,
    ) -> None:
        self._checkpoint = checkpoint
        self._found = found
        self._zeros = zeros
        self._pool = pool
        self._monitor = monitor
        self._checksums: dict[str, int] = {}

    def verify(self) -> None:
        """Add what is wrong with the file to what was found."""
        name = self._checkpoint.path.name
        try:
            self._checksums = checksums_in(self._checkpoint.metadata)
        except ValueError:
            self._problem(name, tr("the checksums recorded in it cannot be understood"))
        with ExitStack() as stack:
            try:
                self._verify_archive()
                read = stack.enter_context(stored_reader(self._checkpoint))
            except (OSError, CheckpointError) as error:
                self._problem(name, _reason(error))
                return
            for key, raw in self._checkpoint.raw.items():
                if raw.special is None:
                    self._verify_tensor(key, raw, read)
        for key in self._checksums.keys() - self._checkpoint.raw.keys():
            self._problem(key, tr(MISSING))

    def _verify_archive(self) -> None:
        path = self._checkpoint.path
        if self._checkpoint.format == "torch" and zipfile.is_zipfile(path):
            record = damaged_record(path, self._monitor)
            if record is not None:
                self._problem(path.name, tr("its record {record!r} is damaged", record=record))

    def _verify_tensor(self, key: str, raw: RawTensor, read: Read) -> None:
        self._found.tensors += 1
        self._found.nbytes += _nbytes(raw)
        try:
            facts = self._facts(key, raw.dtype, read)
        except (OSError, CheckpointError) as error:
            self._problem(key, _reason(error))
            return
        recorded = self._checksums.get(key)
        same = facts.checksum == recorded
        if self._checksums:
            self._found.compared += 1
            if not same:
                self._problem(key, tr(ADDED if recorded is None else CHANGED))
        zeros = self._zeros.get(key)
        if zeros and (
            facts.zeros < zeros.number or (zeros.exactly and facts.zeros != zeros.number)
        ):
            self._problem(key, tr(FEW_ZEROS, pruned=zeros.number, zeros=facts.zeros))
        if facts.non_finite and same:
            self._found.notes.append(Finding(key, tr(SAVED_NON_FINITE, count=facts.non_finite)))
        elif facts.non_finite:
            self._problem(key, tr(NON_FINITE, count=facts.non_finite))

    def _facts(self, key: str, dtype: str, read: Read) -> _Facts:
        """Read a tensor; the checksum of a piece is computed while the next one is read.

        It is done before the one after that is read, into the same buffer.
        """
        checksum, zeros, non_finite = 0, 0, 0
        pending: Future[int] | None = None
        for piece in read(key):
            if self._checksums:
                checksum = pending.result() if pending else checksum
                pending = None
                if len(piece) > INLINE_BYTES:
                    pending = self._pool.submit(zlib.crc32, piece, checksum)
                else:
                    checksum = zlib.crc32(piece, checksum)
            if key in self._zeros and dtype not in PACKED_DTYPES:
                zeros += _zero_count(piece, dtype)
            non_finite += _non_finite_count(piece, dtype)
            self._monitor.advance(len(piece))
        return _Facts(pending.result() if pending else checksum, zeros, non_finite)

    def _problem(self, name: str, text: str) -> None:
        self._found.problems.append(Finding(name, text))


def _reason(error: OSError | CheckpointError) -> str:
    if isinstance(error, OSError):
        return tr("it cannot be read: {reason}", reason=error.strerror or error)
    return str(error)


def _bits(piece: memoryview, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return bytes as the unsigned integers that entries of a type are, or the parts of complex."""
    return np.frombuffer(piece, f"u{ENTRY_BITS[dtype] // 8}")


def _zero_count(piece: memoryview, dtype: str) -> int:
    bits = _bits(piece, dtype)
    return bits.size - int(np.count_nonzero(bits))


def _non_finite_count(piece: memoryview, dtype: str) -> int:
    dtype = REAL.get(dtype, dtype)
    if dtype in ONLY_NAN:
        return int(np.count_nonzero(_bits(piece, dtype) == ONLY_NAN[dtype]))
    if dtype not in NON_FINITE_FROM or not len(piece):
        return 0
    bits, first = _bits(piece, dtype), NON_FINITE_FROM[dtype]
    magnitudes = bits & bits.dtype.type((1 << (ENTRY_BITS[dtype] - 1)) - 1)
    if magnitudes.max() < first:  # as usual, and faster to tell than how many there are
        return 0
    return int(np.count_nonzero(magnitudes >= first))
