"""Reading files of torch.save, zip or legacy, without running code from them."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from prune_gui.checkpoint.named_code import runs_programs, with_code_statement
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.pickle_machine import MAX_OPCODES, MIN_OPCODES
from prune_gui.checkpoint.torch.storages import (
    FileStorages,
    LegacyStorages,
    StorageLocation,
    UnreadStorages,
    ZipStorages,
)
from prune_gui.checkpoint.torch.unpickling import Unpickled, ValuesNeededError, unpickle
from prune_gui.checkpoint.torch.zip_layout import (
    BYTE_ORDER,
    METADATA_RECORD,
    PICKLE_RECORD,
    SCRIPT_RECORD,
    VERSION_RECORD,
    TorchLayout,
    damaged_zip_error,
)
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import tr

ZIP_MAGIC: Final = b"PK"
MAX_PICKLE_BYTES: Final = 1 << 29
MAX_METADATA_BYTES: Final = 1 << 26
LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL: Final = 1001
"""The first two numbers of a legacy torch file, one pickle each."""
LEGACY_PICKLES: Final = 5
"""These two, the system information, the saved object, and the keys of the storages after it."""


@dataclass(frozen=True, slots=True)
class TorchFile:
    """The content of a torch file."""

    content: object  # see `Unpickled`; all tensors are on the CPU
    nbytes: int
    foreign: tuple[str, ...]
    has_records: bool
    is_plain: bool
    root: tuple[str | int, ...] | None = None  # of the state dict, if this program wrote the file
    metadata: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    locations: tuple[StorageLocation, ...] = ()
    layout: TorchLayout | None = None  # of an archive
    swapped: bool = False  # the values are in the byte order of other machines
    unread: UnreadStorages | None = None  # reads values of a remote archive


def read_torch_file(source: Source, *, values: bool = True) -> TorchFile:
    """Read a torch file; refuse other pickles."""
    name = source.path.name
    try:
        source.file.seek(0)
        zipped = source.file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        if not zipped:
            return _read_legacy(source)
        if not source.maps_neighbours:
            with suppress(ValuesNeededError):
                return _read_zip(source, late=True)
        return _read_zip(source, values=values)
    except FalseClaimError as problem:
        raise claim_error(name, problem) from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise damaged_zip_error(name, error) from error


def claim_error(name: str, problem: FalseClaimError) -> CheckpointError:
    """Return the refusal of the file `name` with a false claim."""
    refusal = tr(
        "{name} cannot be opened: {problem}. Download the file again, or save it again "
        "with torch.save.",
        name=name,
        problem=one_line(tr(problem.claim), 300),
    )
    return CheckpointError(with_code_statement(refusal, runs_programs(problem.foreign)))


def _read_zip(source: Source, *, values: bool = True, late: bool = False) -> TorchFile:
    path = source.path
    layout = TorchLayout(source.file, source.size, source.read_at if late else None)
    if SCRIPT_RECORD in layout.records:
        raise CheckpointError(
            "{name} is a TorchScript program, not a checkpoint. Loading it with torch makes "
            "its code run. If you trust its author, load it in the environment it came from, "
            "and save its `state_dict()` with torch.save.",
            name=path.name,
        )
    if PICKLE_RECORD not in layout.records:
        raise CheckpointError(
            "{name} is a zip archive, but not one that torch.save wrote. If a checkpoint is in "
            "it, unpack it first.",
            name=path.name,
        )
    if VERSION_RECORD not in layout.records:
        raise FalseClaimError("its archive has no format version")
    if layout.records[PICKLE_RECORD].nbytes > MAX_PICKLE_BYTES:
        raise FalseClaimError("its pickle is too large")
    swapped = _byte_order(layout) != sys.byteorder
    unread = UnreadStorages(source, layout, swapped=swapped) if late else None
    storages = unread or ZipStorages(source, layout, swapped=swapped, values=values)
    # No file needs more opcodes than it has bytes, except a small one that is compressed.
    max_opcodes = min(MAX_OPCODES, MIN_OPCODES + source.size)
    opened = unpickle(io.BytesIO(layout.read(PICKLE_RECORD)), storages, max_opcodes)
    if not late:
        layout.check_small_records()
    _finish(opened, storages)
    root, metadata, warnings = _own_record(layout)
    return TorchFile(
        opened.value,
        storages.nbytes,
        opened.foreign,
        opened.has_records,
        opened.is_plain,
        root,
        metadata,
        warnings,
        tuple(storages.locations),
        layout,
        swapped,
        unread,
    )


def _byte_order(layout: TorchLayout) -> str:
    """Return "little" or "big"; archives without a record of it are little-endian, as in torch."""
    record = layout.records.get(BYTE_ORDER)
    if record is None:
        return "little"
    order = layout.read(BYTE_ORDER).decode("latin-1") if record.nbytes < len("little") + 1 else ""
    if order not in ("little", "big"):
        raise FalseClaimError("its byte order is unknown")
    return order


def _finish(opened: Unpickled, storages: FileStorages) -> None:
    try:
        storages.fill()
    except FalseClaimError as problem:
        problem.foreign = opened.foreign
        raise
    opened.finish()


def _own_record(
    layout: TorchLayout,
) -> tuple[tuple[str | int, ...] | None, dict[str, str], tuple[str, ...]]:
    """Return the root and metadata that this program wrote, or a warning if they are invalid."""
    record = layout.records.get(METADATA_RECORD)
    if record is None:
        return None, {}, ()
    try:
        if record.nbytes <= MAX_METADATA_BYTES:
            match json.loads(layout.read(METADATA_RECORD)):
                case {"root": list() as root, "metadata": dict() as metadata} if all(
                    isinstance(key, str | int) for key in root
                ) and all(isinstance(text, str) for text in metadata.values()):
                    return tuple(root), metadata, ()
    except (ValueError, RecursionError):
        pass
    remark = tr("Its record {name} is invalid and is ignored.", name=METADATA_RECORD)
    return None, {}, (remark,)


def _read_legacy(source: Source) -> TorchFile:
    source.file.seek(0)
    storages = LegacyStorages(source)
    magic = unpickle(source.file, storages)
    if magic.value != LEGACY_MAGIC:
        refusal = tr(
            "{name} is a Python pickle that torch.save did not write. If you trust the author "
            "of the file, load it in the environment it came from, and save the state dict "
            "with torch.save.",
            name=source.path.name,
        )
        raise CheckpointError(with_code_statement(refusal, runs_programs(magic.foreign)))
    pickles = [magic, *(unpickle(source.file, storages) for _ in range(LEGACY_PICKLES - 1))]
    _, protocol, _, opened, keys = pickles
    # torch.load executes all of the pickles, so the names in all of them count.
    foreign = tuple(dict.fromkeys(name for each in pickles for name in each.foreign))
    if protocol.value != LEGACY_PROTOCOL:
        problem = FalseClaimError("its format version is not supported")
        problem.foreign = foreign
        raise problem
    storages.order = keys.value if isinstance(keys.value, list) else []
    _finish(opened, storages)
    return TorchFile(
        opened.value,
        storages.nbytes,
        foreign,
        opened.has_records,
        all(each.is_plain for each in pickles),
        locations=tuple(storages.locations),
    )
