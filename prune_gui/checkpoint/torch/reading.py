"""Reading files of torch.save, zip or legacy, without running code from them."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.torch.conversion import code_needed_error, conversion_lines
from prune_gui.checkpoint.torch.pickle_machine import OPAQUE, FalseClaimError
from prune_gui.checkpoint.torch.storages import FileStorages, LegacyStorages, ZipStorages
from prune_gui.checkpoint.torch.unpickling import Unpickled, unpickle
from prune_gui.checkpoint.torch.zip_layout import (
    BYTE_ORDER,
    METADATA_RECORD,
    PICKLE_RECORD,
    SCRIPT_RECORD,
    VERSION_RECORD,
    TorchLayout,
)
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred, tr

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
    """The content of a torch file.

    Attributes:
        content: the object that torch.load would return, with all tensors on the CPU.
        nbytes: the bytes of all storages.
        root: the path of the state dict if this program wrote the file; else None.
        metadata: the metadata if this program wrote the file.
        warnings: remarks for the user.
    """

    content: object
    nbytes: int
    root: tuple[str, ...] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_torch_file(source: Source) -> TorchFile:
    """Read a torch file; refuse other pickles.

    Raises:
        CheckpointError: the file is not a torch checkpoint, needs code, or makes a false claim.
    """
    name = source.path.name
    try:
        source.file.seek(0)
        zipped = source.file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        return _read_zip(source) if zipped else _read_legacy(source)
    except FalseClaimError as problem:
        raise CheckpointError(
            tr(
                "{name} cannot be opened: {problem}. Download the file again, or save it again "
                "with torch.save.",
                name=name,
                problem=one_line(tr(problem.claim), 300),
            )
        ) from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise CheckpointError(
            tr(
                "{name} is a damaged zip archive ({reason}; a partial download?). Download the "
                "file again.",
                name=name,
                reason=one_line(str(error), 200),
            )
        ) from error


def _read_zip(source: Source) -> TorchFile:
    path = source.path
    layout = TorchLayout(source.file, source.size)
    if SCRIPT_RECORD in layout.records:
        raise CheckpointError(
            tr(
                "{name} is a TorchScript program, not a checkpoint, and it is not run. "
                "If you trust it, save its weights:",
                name=path.name,
            ),
            conversion_lines(path, "torch.jit"),
        )
    if PICKLE_RECORD not in layout.records:
        raise CheckpointError(
            tr(
                "{name} is a zip archive, but not one that torch.save wrote. If a checkpoint is in "
                "it, unpack it first.",
                name=path.name,
            )
        )
    if VERSION_RECORD not in layout.records:
        raise FalseClaimError(deferred("its archive has no format version"))
    if layout.records[PICKLE_RECORD].nbytes > MAX_PICKLE_BYTES:
        raise FalseClaimError(deferred("its pickle is too large"))
    storages = ZipStorages(source, layout, swapped=_byte_order(layout) != sys.byteorder)
    opened = unpickle(io.BytesIO(layout.read(PICKLE_RECORD)), storages)
    _check_code(source, opened)
    _finish(opened, storages)
    root, metadata, warnings = _own_record(layout)
    return TorchFile(opened.value, storages.nbytes, root, metadata, warnings)


def _byte_order(layout: TorchLayout) -> str:
    """Return "little" or "big"; archives without a record of it are little-endian, as in torch."""
    record = layout.records.get(BYTE_ORDER)
    if record is None:
        return "little"
    order = layout.read(BYTE_ORDER).decode("latin-1") if record.nbytes < len("little") + 1 else ""
    if order not in ("little", "big"):
        raise FalseClaimError(deferred("its byte order is unknown"))
    return order


def _check_code(source: Source, opened: Unpickled, *, plain: bool = False) -> None:
    if plain or opened.foreign or not opened.readable:
        raise code_needed_error(source.path, opened, plain=plain)


def _finish(opened: Unpickled, storages: FileStorages) -> None:
    storages.fill()
    opened.finish()


def _own_record(
    layout: TorchLayout,
) -> tuple[tuple[str, ...] | None, dict[str, str], tuple[str, ...]]:
    """Return the root and metadata that this program wrote, or a warning if they are invalid."""
    record = layout.records.get(METADATA_RECORD)
    if record is None:
        return None, {}, ()
    try:
        if record.nbytes <= MAX_METADATA_BYTES:
            match json.loads(layout.read(METADATA_RECORD)):
                case {"root": list() as root, "metadata": dict() as metadata} if all(
                    isinstance(text, str) for text in (*root, *metadata.values())
                ):
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
        _check_code(source, magic, plain=True)
    pickles = magic, *(unpickle(source.file, storages) for _ in range(LEGACY_PICKLES - 1))
    # torch.load executes all pickles, so the names of all count; one may not be read to its end.
    names = tuple(name for each in pickles for name in each.foreign)
    for each in sorted(pickles, key=lambda each: (not each.foreign, each.value is not OPAQUE)):
        _check_code(source, replace(each, foreign=names))
    _, protocol, _, opened, keys = pickles
    if protocol.value != LEGACY_PROTOCOL:
        raise FalseClaimError(deferred("its format version is not supported"))
    storages.order = keys.value if isinstance(keys.value, list) else []
    _finish(opened, storages)
    return TorchFile(opened.value, storages.nbytes)
