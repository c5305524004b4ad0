"""The format of `flax.serialization.to_bytes`: msgpack with arrays, which are changed in place.

The file is a tree of maps, whose arrays are found without unpacking it. Its leaves are arrays
(extension type 1: shape, name of the dtype, bytes), scalars of NumPy (type 3, in the same form),
complex numbers (type 2), and plain values. An array of more than 1 GiB is a map with its parts
(`flax.serialization._chunk`).
https://github.com/msgpack/msgpack/blob/master/spec.md describes the bytes.
"""

from __future__ import annotations

import math
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import (
    Header,
    Span,
    SpanCheckpoint,
    SpanTensor,
    check_spans,
    checked_nbytes,
    copy_chunks,
    dotted,
    in_place,
)
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, MAX_DIMS, RawTensor
from prune_gui.checkpoint.write.atomic import flush
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.errors import one_line
from prune_gui.language import deferred
from prune_gui.monitor import Monitor

NAME: Final = "flax"
OPTIMIZER: Final = "opt_state"
"""The key of the state of the optimizer in a `TrainState`, which is kept and not shown."""
MAP_HEADS: Final = {0xDE: 3, 0xDF: 5}
"""Bytes before the first key of a large map, by its first byte."""


MAX_DEPTH: Final = 64
MAX_VALUES: Final = 1 << 21
"""The limit for the values of a file; a checkpoint has about ten per tensor."""
MAX_TEXT_BYTES: Final = 1 << 16
ARRAY_TYPES: Final = (1, 3)
COMPLEX_TYPE: Final = 2
MAX_TYPE: Final = 127
"""Negative types of extensions are reserved, and flax uses none."""
CHUNKED: Final = "__msgpack_chunked_array__"
CHUNKED_MEMBERS: Final = 3
"""The first key of an array in parts, and its members: this one, shape and chunks."""
DTYPES: Final = frozenset(
    dtype
    for dtype, bits in ELEMENT_BITS.items()
    if bits >= 8 and not dtype.startswith("q") and dtype not in ("complex32", "float4_e2m1fn_x2")
)
"""The dtypes whose names in NumPy and ml_dtypes are those in torch."""
BYTE_DTYPES: Final = frozenset(
    (
        *("int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    )
)
"""Further dtypes of ml_dtypes, of one byte each, which torch does not have."""
DECODED_BYTES: Final = 1 << 20
FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
"""By the first byte of an extension, the bytes after its type."""
NUMBERS: Final = {
    **dict.fromkeys((0xC0, 0xC2, 0xC3), 0),
    **dict.fromkeys((0xCC, 0xD0), 1),
    **dict.fromkeys((0xCD, 0xD1), 2),
    **dict.fromkeys((0xCA, 0xCE, 0xD2), 4),
    **dict.fromkeys((0xCB, 0xCF, 0xD3), 8),
}
"""Bytes after the first one of nil, booleans and numbers."""
UNSIGNED: Final = (0xCC, 0xCD, 0xCE, 0xCF)
LENGTHS: Final = {
    0xD9: ("text", 1),
    0xDA: ("text", 2),
    0xDB: ("text", 4),
    0xC4: ("bytes", 1),
    0xC5: ("bytes", 2),
    0xC6: ("bytes", 4),
    0xC7: ("extension", 1),
    0xC8: ("extension", 2),
    0xC9: ("extension", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
"""By the first byte, the kind of a value, and the bytes of its length, which follows."""
CUT_OFF: Final = deferred("it ends in the middle of a value (a partial download?)")
NO_MSGPACK: Final = deferred("it is not a msgpack file")
NO_NAME: Final = deferred("one of its names is not a text")


class _Head(NamedTuple):
    """The first bytes of a value: a number stands for nil and booleans, too.

    The size counts the members of a map or an array; else the bytes that follow. The code is the
    type of an extension, or a small whole number; else -1.
    """

    kind: str
    size: int
    code: int = -1


class FlaxParser:
    """Finds the arrays in a file of `size` bytes, by the keys that lead to each of them."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._values = file, size, 0
        self.arrays: dict[tuple[str, ...], SpanTensor] = {}
        self._value(())
        if file.tell() != size:
            raise FalseClaimError("it goes on after its last value")

    def _value(self, path: tuple[str, ...]) -> None:
        head = self._head()
        if len(path) > MAX_DEPTH:
            raise FalseClaimError("it is nested too deeply")
        if not path and head.kind != "map":
            raise FalseClaimError("it is not a map of names")
        if head.kind == "map":
            self._map(path, head.size)
        elif head.kind == "array":
            for index in range(head.size):
                self._value((*path, str(index)))
        elif head.kind == "extension" and head.code in ARRAY_TYPES:
            self.arrays[path] = self._array("/".join(path), head.size)
        elif head.kind == "extension" and head.code == COMPLEX_TYPE:
            self._complex("/".join(path), head.size)
        elif head.kind == "text":
            self._check_text(head.size)
        else:
            self._file.seek(head.size, 1)

    def _map(self, path: tuple[str, ...], size: int) -> None:
        keys: set[str] = set()
        for index in range(size):
            key = self._text()
            if key in keys:
                raise FalseClaimError("{key!r} appears more than once", key=key)
            keys.add(key)
            self._value((*path, key))
            if key == CHUNKED:
                if size != CHUNKED_MEMBERS or index:
                    raise _damaged("/".join(path))
                self.arrays[path] = self._chunked("/".join(path))
                return

    def _chunked(self, key: str) -> SpanTensor:
        """Return an array in parts, from the rest of its map: the maps of its shape and parts."""
        shape = [self._expected("number", key).code for _ in self._indices("shape", key)]
        parts = [
            self._array(key, self._expected("extension", key).size)
            for _ in self._indices("chunks", key)
        ]
        dtypes = {part.raw.dtype for part in parts}
        flat = all(len(part.raw.shape) == 1 and part.raw.special is None for part in parts)
        if len(dtypes) != 1 or not flat:
            raise _damaged(key)
        spans = tuple(span for part in parts for span in part.spans)
        return _tensor(key, shape, dtypes.pop(), spans)

    def _indices(self, name: str, key: str) -> Iterator[int]:
        """Read a name, and then the keys of its map, which are its indices, before each value."""
        if self._text() != name:
            raise _damaged(key)
        for index in range(self._expected("map", key).size):
            if self._text() != str(index):
                raise _damaged(key)
            yield index

    def _array(self, key: str, nbytes: int) -> SpanTensor:
        end = self._file.tell() + nbytes
        if self._expected("array", key).size != 3:
            raise _damaged(key)
        dims = self._expected("array", key).size
        if dims > MAX_DIMS:
            raise FalseClaimError("{key!r} has an impossible shape", key=key)
        shape = [self._expected("number", key).code for _ in range(dims)]
        dtype = self._text()
        octets = self._expected("bytes", key).size
        start = self._file.tell()
        if start + octets != end:
            raise _damaged(key)
        self._file.seek(end)
        if dtype not in DTYPES:
            if checked_nbytes(key, shape, "uint8") != _number_of_others(key, dtype, octets):
                raise _damaged(key)
            special = deferred("NumPy dtype {dtype}", dtype=one_line(dtype, 40))
            return SpanTensor(RawTensor((octets,), "uint8", special=special))
        return _tensor(key, shape, dtype, ((start, end),) if octets else ())

    def _complex(self, key: str, nbytes: int) -> None:
        end = self._file.tell() + nbytes
        if self._expected("array", key).size != 2:
            raise _damaged(key)
        for _ in range(2):
            self._expected("number", key)
        if self._file.tell() != end:
            raise _damaged(key)

    def _check_text(self, nbytes: int) -> None:
        decoder = getincrementaldecoder("utf-8")()
        try:
            while nbytes:
                part = self._file.read(min(nbytes, DECODED_BYTES))
                nbytes -= len(part)
                decoder.decode(part, final=not nbytes)
        except UnicodeDecodeError:
            raise FalseClaimError("one of its texts is not UTF-8") from None

    def _expected(self, kind: str, key: str) -> _Head:
        head = self._head()
        if head.kind != kind:
            raise _damaged(key)
        return head

    def _text(self) -> str:
        head = self._head()
        if head.kind not in ("text", "bytes") or head.size > MAX_TEXT_BYTES:
            raise FalseClaimError(NO_NAME)
        try:
            return self._file.read(head.size).decode()
        except UnicodeDecodeError:
            raise FalseClaimError(NO_NAME) from None

    def _head(self) -> _Head:
        """Read the first bytes of a value, all of which must be in the file."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise FalseClaimError("it holds too many values")
        head = self._unchecked_head(self._number(1))
        if head.size > self._size - self._file.tell():
            raise FalseClaimError(CUT_OFF)
        if head.kind == "number" and head.size:
            number = self._number(head.size)
            return _Head("number", 0, number if head.code in UNSIGNED else -1)
        return head

    def _unchecked_head(self, first: int) -> _Head:
        if first <= 0x7F or first >= 0xE0:  # a small whole number
            return _Head("number", 0, first if first <= 0x7F else -1)
        if first <= 0x8F:
            return _Head("map", first & 0x0F)
        if first <= 0x9F:
            return _Head("array", first & 0x0F)
        if first <= 0xBF:
            return _Head("text", first & 0x1F)
        if first in NUMBERS:
            return _Head("number", NUMBERS[first], first)
        if first in FIXED_EXTENSIONS:
            kind, size = "extension", FIXED_EXTENSIONS[first]
        elif first in LENGTHS:
            kind, nbytes = LENGTHS[first]
            size = self._number(nbytes)
        else:
            raise FalseClaimError(NO_MSGPACK)
        code = self._number(1) if kind == "extension" else -1
        if code > MAX_TYPE:
            raise FalseClaimError(NO_MSGPACK)
        return _Head(kind, size, code)

    def _number(self, nbytes: int) -> int:
        octets = self._file.read(nbytes)
        if len(octets) < nbytes:
            raise FalseClaimError(CUT_OFF)
        return int.from_bytes(octets, "big")


def _number_of_others(key: str, dtype: str, nbytes: int) -> int:
    """Return the number of elements of a dtype of NumPy that torch does not have."""
    if dtype in BYTE_DTYPES:
        return nbytes
    import numpy as np  # slow to import

    try:
        found = np.dtype(dtype)
        if found.hasobject or nbytes % found.itemsize:
            raise _damaged(key)
    except (TypeError, ValueError, SyntaxError, ArithmeticError) as error:
        raise _damaged(key) from error
    return nbytes // found.itemsize * math.prod(found.shape)


def _damaged(key: str) -> FalseClaimError:
    return FalseClaimError("its array {key!r} is damaged", key=key)


def _tensor(key: str, shape: list[int], dtype: str, spans: tuple[Span, ...]) -> SpanTensor:
    nbytes = sum(stop - start for start, stop in spans)
    if checked_nbytes(key, shape, dtype) != nbytes:
        raise FalseClaimError("{key!r} does not fit its {nbytes:,} bytes", key=key, nbytes=nbytes)
    return SpanTensor(RawTensor(tuple(shape), dtype), spans)


class FlaxCheckpoint(SpanCheckpoint):
    """A file of `flax.serialization.to_bytes`."""

    format = NAME

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        source.file.seek(0)
        arrays = FlaxParser(source.file, source.size).arrays
        model = {path: each for path, each in arrays.items() if path[:1] != (OPTIMIZER,)} or arrays
        paths = {"/".join(path): each for path, each in model.items()}
        if len(paths) < len(model):
            raise FalseClaimError("two of its arrays have the same path")
        separator = dotted(list(paths))
        tensors = {path.replace("/", separator): each for path, each in paths.items()}
        check_spans(tensors, source.size)
        super().__init__(source, Header(tensors), surroundings)


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether a file starts with a map whose first key is a text."""
    first = start[0]
    key = start[1:2] if 0x81 <= first <= 0x8F else start[MAP_HEADS.get(first, len(start)) :][:1]
    return bool(key) and (0xA0 <= key[0] <= 0xBF or key[0] == 0xD9)


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    """Write a copy of the file of the template; the format has no place for metadata."""
    flax = in_place(content, NAME)
    checksums: dict[str, int] = {}
    with path.open("wb") as file:
        file.writelines(copy_chunks(flax, content, (0, flax.source.size), checksums, monitor))
        flush(file)
    return WrittenFile(checksums)


FLAX: Final = FileFormat(
    name=NAME,
    suffixes=(".msgpack",),
    shard_suffix=".msgpack",
    shard_stem="flax_model",
    preferred_name=r"flax_model\.msgpack",
    recognizes=_recognizes,
    recognizes_loosely=True,
    program="flax.serialization",
    open=FlaxCheckpoint,
    write=_write,
    file_nbytes=lambda content: in_place(content, NAME).source.size,
    load_code=(
        "{{name: torch.from_numpy(np.array(a)) for name, a in "
        'flatten_dict(msgpack_restore(Path({path}).read_bytes()), sep=".").items() '
        "if isinstance(a, np.ndarray)}}"
    ),
    load_import=(
        "from pathlib import Path\n\nimport numpy as np\n"
        "from flax.serialization import msgpack_restore\n"
        "from flax.traverse_util import flatten_dict"
    ),
    opens_without_torch=True,
    holds_metadata=False,
)
