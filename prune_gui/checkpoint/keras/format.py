"""The formats of Keras: HDF5 files, alone or in an archive, whose datasets are listed at opening.

A file is written as a copy in which only the values of tensors differ.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from prune_gui.checkpoint import spans
from prune_gui.checkpoint.base import Read, Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.keras.listing import UNUSUAL, ListingError, is_installed, list_datasets
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.checkpoint.torch.archive import MAX_PLAIN_BYTES, archive_nbytes
from prune_gui.checkpoint.torch.zip_layout import (
    MAX_SMALL_BYTES,
    open_archive,
    record_chunks,
    record_names,
)
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.content import FileContent, WrittenFile, with_checksums
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred
from prune_gui.monitor import Monitor

HDF5_NAME: Final = "hdf5"
KERAS_NAME: Final = "keras"
MAGIC: Final = b"\x89HDF\r\n\x1a\n"
WEIGHTS_RECORD: Final = "model.weights.h5"
"""The record of a `.keras` archive with the weights."""
OPTIMIZERS: Final = ("optimizer", "optimizer_weights")
"""Top groups with the state of the optimizer, which is kept and not shown."""
TRAILER_MAGIC: Final = b"prune_gui.json\0\0"
LENGTH_BYTES: Final = 8
MAX_METADATA_BYTES: Final = 1 << 26
DTYPES: Final = {**spans.NUMPY_DTYPES, "bfloat16": "bfloat16"}
FAULTS: Final = {
    "damaged": deferred("the HDF5 library cannot read it (a partial download?)"),
    "link": deferred("it has links, or values in other files"),
    "nested": deferred("it has too many groups, or a group in itself"),
}


class KerasCheckpoint(spans.SpanCheckpoint):
    """A file of `model.save_weights`, or an archive of `model.save`.

    Attributes:
        archive: None if the file is an HDF5 file.
        weights: its record that is the HDF5 file.
        hdf5: the span of the HDF5 file, without what this program added.
    """

    archive: zipfile.ZipFile | None = None
    weights: zipfile.ZipInfo

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        if not is_installed():
            raise CheckpointError(
                "{name} needs the package {package}. Install prune-gui[{extra}] to open it.",
                name=source.path.name,
                package="h5py",
                extra="keras",
            )
        span = self._hdf5_span(source)
        self.hdf5, metadata = _without_trailer(source, span)
        try:
            with source.whole_file() as file:
                datasets = list_datasets(file, span[0], span[1] - span[0])
        except ListingError as fault:
            problem = FAULTS.get(str(fault), FAULTS["damaged"])
            raise FalseClaimError(problem) from None
        self.format = KERAS_NAME if self.archive else HDF5_NAME
        super().__init__(
            source, spans.Header(_tensors(datasets, *self.hdf5), metadata), surroundings
        )

    def _hdf5_span(self, source: Source) -> spans.Span:
        """Return the span of the HDF5 file: the whole file, or a record of an archive."""
        source.file.seek(0)
        if source.file.read(len(MAGIC)) == MAGIC:
            return 0, source.size
        self.archive, entries, starts, self._checks = open_archive(source)
        weights = entries.get(WEIGHTS_RECORD)
        if weights is None:
            raise FalseClaimError("its archive has no {name}", name=WEIGHTS_RECORD)
        self.weights, start = weights, starts[weights.header_offset]
        for entry in entries.values():
            if entry is not weights and entry.file_size <= MAX_SMALL_BYTES:
                self._checks.check(entry)
        if weights.compress_type != zipfile.ZIP_STORED:
            raise FalseClaimError("{name} in it is compressed", name=WEIGHTS_RECORD)
        return start, start + weights.file_size

    def _check(self, keys: Sequence[str]) -> None:
        super()._check(keys)
        if self.archive is not None:
            self._checks.check(self.weights)

    @contextmanager
    def stored_reader(self) -> Iterator[Read]:
        self.check_records()
        with super().stored_reader() as read:
            yield read

    def check_records(self) -> None:
        """Compare all records of the archive, if there is one, with their checksums."""
        for entry in self.archive.infolist() if self.archive else ():
            self._checks.check(entry)


def _without_trailer(source: Source, span: spans.Span) -> tuple[spans.Span, dict[str, str]]:
    """Return the span without what this program wrote at its end, and the metadata there.

    The HDF5 library ignores bytes behind the end that the file declares.
    """
    start, stop = span
    stop -= LENGTH_BYTES + len(TRAILER_MAGIC)
    tail = source.read_at(span[1] - stop, stop) if stop >= start else b""
    nbytes = int.from_bytes(tail[:LENGTH_BYTES], "little")
    if tail[LENGTH_BYTES:] != TRAILER_MAGIC or nbytes > min(MAX_METADATA_BYTES, stop - start):
        return span, {}
    try:
        metadata = json.loads(source.read_at(nbytes, stop - nbytes))
    except (ValueError, RecursionError):
        return span, {}
    if not isinstance(metadata, dict) or not all(map(str.__instancecheck__, metadata.values())):
        return span, {}
    return (start, stop - nbytes), metadata


def trailer(metadata: Mapping[str, str]) -> bytes:
    """Return the bytes that this program adds to an HDF5 file."""
    text = json.dumps(dict(metadata), ensure_ascii=False).encode()
    return text + len(text).to_bytes(LENGTH_BYTES, "little") + TRAILER_MAGIC


def _tensors(datasets: list[dict[str, Any]], start: int, stop: int) -> dict[str, spans.SpanTensor]:
    """Return the tensors of the datasets of an HDF5 file that is at a span."""
    model = [each for each in datasets if each["path"].partition("/")[0] not in OPTIMIZERS]
    shown = model or datasets
    separator = spans.dotted([each["path"] for each in shown])
    tensors: dict[str, spans.SpanTensor] = {}
    for each in shown:
        key = each["path"].replace("/", separator)
        tensors[key] = _tensor(key, each, start)
    spans.check_spans(tensors, stop)
    return tensors


def _tensor(key: str, dataset: dict[str, Any], start: int) -> spans.SpanTensor:
    dtype, shape = DTYPES.get(dataset["dtype"]), dataset["shape"]
    if dataset["dtype"] == UNUSUAL:
        raise FalseClaimError(
            "the numbers of {key!r} have a form that NumPy does not know", key=key
        )
    if dtype is None or shape is None:
        special = deferred("HDF5 type {dtype}", dtype=one_line(dataset["dtype"], 40))
        return spans.SpanTensor(RawTensor((), "uint8", special=special))
    nbytes = spans.checked_nbytes(key, shape, dtype)
    if nbytes == 0:
        return spans.SpanTensor(RawTensor(tuple(shape), dtype))
    if dataset["start"] is None:
        special = deferred("not written") if dataset["contiguous"] else deferred("stored in chunks")
        return spans.SpanTensor(RawTensor(tuple(shape), dtype, special=special))
    first = start + dataset["start"]
    return spans.SpanTensor(RawTensor(tuple(shape), dtype, view=first), ((first, first + nbytes),))


LOAD_CODE: Final = (
    '{{name.replace("/", "."): torch.from_numpy(np.asarray(file[name])) for file in [FILE] '
    "for names in [[]] if file.visit(names.append) is None for name in names "
    'if isinstance(file[name], h5py.Dataset) and not name.startswith("optimizer")}}'
)
"""The expression that reads the HDF5 file FILE."""


def _write(path: Path, content: FileContent, monitor: Monitor, *, name: str) -> WrittenFile:
    keras = _template(content, name)
    keras.check_records()
    checksums: dict[str, int] = {}
    hdf5_chunks = _hdf5_chunks(keras, content, checksums, monitor)
    with path.open("wb") as file:
        if keras.archive is None:
            file.writelines(hdf5_chunks)
        else:
            trailer_nbytes = len(trailer(with_checksums(content.metadata, ())))
            with zipfile.ZipFile(file, "w") as archive:
                for entry in keras.archive.infolist():
                    copy = zipfile.ZipInfo(entry.orig_filename, entry.date_time)
                    copy.compress_type = entry.compress_type
                    chunks: Iterable[bytes | memoryview] = record_chunks(keras.archive, entry)
                    if entry.orig_filename == WEIGHTS_RECORD:
                        chunks = hdf5_chunks
                    large = entry.file_size + trailer_nbytes > MAX_PLAIN_BYTES
                    with archive.open(copy, "w", force_zip64=large) as out:
                        out.writelines(chunks)
        flush(file)
    return WrittenFile(checksums)


def _file_nbytes(content: FileContent, *, name: str) -> int:
    keras = _template(content, name)
    start, stop = keras.hdf5
    hdf5_nbytes = stop - start + len(trailer(content.texts()))
    if keras.archive is None:
        return hdf5_nbytes
    sizes = {entry.orig_filename: entry.compress_size for entry in keras.archive.infolist()}
    return archive_nbytes({**sizes, WEIGHTS_RECORD: hdf5_nbytes}.items())


def _template(content: FileContent, name: str) -> KerasCheckpoint:
    keras = spans.in_place(content, name)
    assert isinstance(keras, KerasCheckpoint)
    return keras


def _hdf5_chunks(
    keras: KerasCheckpoint, content: FileContent, checksums: dict[str, int], monitor: Monitor
) -> Iterator[bytes | memoryview]:
    yield from spans.copy_chunks(keras, content, keras.hdf5, checksums, monitor)
    yield trailer(content.texts(checksums))


HDF5: Final = FileFormat(
    name=HDF5_NAME,
    suffixes=(".h5", ".hdf5"),
    shard_suffix=".weights.h5",
    recognizes=lambda start, _: start.startswith(MAGIC),
    program="Keras",
    open=KerasCheckpoint,
    write=partial(_write, name=HDF5_NAME),
    file_nbytes=partial(_file_nbytes, name=HDF5_NAME),
    load_code=LOAD_CODE.replace("FILE", "h5py.File({path})"),
    load_import="import h5py\nimport numpy as np",
    opens_without_torch=True,
)
KERAS: Final = FileFormat(
    name=KERAS_NAME,
    suffixes=(".keras",),
    shard_suffix=".keras",
    recognizes=lambda start, file: WEIGHTS_RECORD in record_names(start, file),
    program="Keras",
    open=KerasCheckpoint,
    write=partial(_write, name=KERAS_NAME),
    file_nbytes=partial(_file_nbytes, name=KERAS_NAME),
    load_code=LOAD_CODE.replace(
        "FILE", f"h5py.File(zipfile.ZipFile({{path}}).open({WEIGHTS_RECORD!r}))"
    ),
    load_import="import zipfile\n\nimport h5py\nimport numpy as np",
    opens_without_torch=True,
)
