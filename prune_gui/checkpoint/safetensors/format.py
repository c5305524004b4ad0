"""The format of safetensors files. A header is checked completely before any of it is used.

The format (https://huggingface.co/docs/safetensors): eight bytes with the length N of the header as
an unsigned little-endian integer, N bytes of JSON, and the data of all tensors without gaps.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from reprlib import repr as short
from typing import Any, BinaryIO, Final, NoReturn

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.refusal import FalseClaimError, refuse_duplicates
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import SIZE_LIMIT, Header, MappedCheckpoint, SpanTensor
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, MAX_DIMS, RawTensor, size_in_bytes
from prune_gui.checkpoint.write.content import FileContent, WrittenFile
from prune_gui.checkpoint.write.plain_files import write_plain
from prune_gui.errors import CheckpointError, valid_text
from prune_gui.language import deferred, tr, trn
from prune_gui.monitor import Monitor

LENGTH_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 100_000_000
METADATA_KEY: Final = "__metadata__"
TENSOR_FIELDS: Final = ("dtype", "shape", "data_offsets")
FIELD_NAMES: Final = frozenset(TENSOR_FIELDS)
MAX_OTHER_BRACKETS: Final = 1 << 19
ESCAPE: Final = re.compile(r"\\.")
KEY_END: Final = re.compile(r'"[ \t\n\r]*:')
OBJECT_END: Final = re.compile(r'\},[ \t\n\r]*(?=")')
PARSE_CHUNK_CHARS: Final = 1 << 18
"""The minimum number of characters that are parsed at once."""

DTYPES: Final = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F6_E2M3": "float6_e2m3",
    "F6_E3M2": "float6_e3m2",
    "F4": "float4_e2m1",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
CODES: Final = {dtype: code for code, dtype in DTYPES.items()}


def read_header(file: BinaryIO, size: int, name: str) -> Header:
    """Read and check the header of a file of `size` bytes; `name` is for messages."""
    tensors: dict[str, SpanTensor] = {}
    further_fields: set[str] = set()
    entries, text, data_start = _parse(file, size)
    metadata = _metadata(entries.pop(METADATA_KEY, None))
    if "\\" in text:
        for text_value in (*entries, *metadata, *metadata.values()):
            if valid_text(text_value) != text_value:  # JSON can spell lone surrogates
                raise FalseClaimError("{text!r} is not valid text", text=text_value[:80])
    may_have_bools = "true" in text or "false" in text
    known_tensors: dict[tuple[object, ...], tuple[RawTensor, int]] = {}
    for key, entry in entries.items():
        if may_have_bools:
            known_tensors.clear()  # a shape with True would match one with 1
        if not isinstance(entry, dict) or entry.keys() != FIELD_NAMES:
            entry = _fields(key, entry)
            further_fields |= entry.keys() - FIELD_NAMES
        raw, start, stop = _checked_tensor(key, entry, known_tensors)
        tensors[key] = SpanTensor(raw, ((data_start + start, data_start + stop),))
    _check_cover(tensors, data_start, size)
    if not further_fields:
        return Header(tensors, metadata)
    remark = tr(
        "The header of {name} has fields that safetensors does not define, such as {field!r}. "
        "They are not kept when you save.",
        name=name,
        field=min(further_fields)[:80],
    )
    return Header(tensors, metadata, (remark,))


def header_bytes(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> bytes:
    """Return length and header for tensors (key, dtype, shape), padded to 8 bytes."""
    header: dict[str, object] = {METADATA_KEY: dict(metadata)} if metadata else {}
    position = 0
    for key, dtype, shape in tensors:
        stop = position + size_in_bytes(shape, dtype)
        header[key] = {"dtype": CODES[dtype], "shape": shape, "data_offsets": (position, stop)}
        position = stop
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _parse(file: BinaryIO, size: int) -> tuple[dict[str, object], str, int]:
    """Return the header as an object and as text, and the position of the data in bytes."""
    if size < LENGTH_BYTES:
        raise FalseClaimError("it is too short")
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > size - LENGTH_BYTES:
        raise FalseClaimError(
            "its header declares {claimed:,} bytes, and the file has {size:,} (a partial "
            "download?)",
            claimed=length,
            size=size,
        )
    if length > MAX_HEADER_BYTES:
        raise FalseClaimError(
            "its header of {length:,} bytes is over the limit of {limit:,}",
            length=length,
            limit=MAX_HEADER_BYTES,
        )
    try:
        text = file.read(length).decode("utf-8")
        # Parsed lists and objects take far more memory than text. Metadata may contain brackets.
        if text.count("[") + text.count("{") > 3 * text.count('"dtype"') + MAX_OTHER_BRACKETS:
            raise FalseClaimError("its header is nested too deeply")
        rules: dict[str, Any] = {
            # A hook in Python is slow on long headers.
            "parse_int": _parse_integer if "-0" in text else None,
            "parse_float": _NoSize,
            "parse_constant": _refuse_constant,
        }
        header = decode(text, rules)
        if isinstance(header, dict) and _number_of_keys(text) != len(header) + sum(
            len(entry) for entry in header.values() if isinstance(entry, dict)
        ):
            json.loads(text, object_pairs_hook=refuse_duplicates, **rules)  # names the key
    except UnicodeDecodeError:
        raise FalseClaimError("its header is not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise FalseClaimError("its header is not JSON") from None
    if not isinstance(header, dict):
        raise FalseClaimError("its header is not a JSON object")
    return header, text, LENGTH_BYTES + length


def decode(text: str, rules: Mapping[str, Any]) -> object:
    """Parse JSON as `json.loads` does, but a long object of objects in chunks.

    The JSON parser holds the GIL, for 0.1 s or more on a long header. A chunk ends where an inner
    object appears to end and a key to follow. If this place is in a string or in a deeper object,
    the chunk is not valid JSON, and the whole text is parsed at once.
    """
    header: dict[str, object] = {}
    start, opening = 0, ""
    try:
        while end := OBJECT_END.search(text, start + PARSE_CHUNK_CHARS):
            header |= json.loads(f"{opening}{text[start : end.start() + 1]}}}", **rules)
            start, opening = end.end(), "{"
        rest = json.loads(opening + text[start:], **rules)
    except ValueError:
        return json.loads(text, **rules)
    return header | rest if start else rest


def _number_of_keys(text: str) -> int:
    """Return the number of keys of all objects in a JSON text: quoted strings before a colon."""
    if "\\" in text:
        text = ESCAPE.sub("", text)  # now every quote delimits a string
    quoted = text.count('":')
    return quoted if quoted == text.count(":") else len(KEY_END.findall(text))


class _NoSize:
    """A number that is no size: "2.0" or "-0". It is not equal to a whole number."""

    def __init__(self, digits: str) -> None:
        if math.isinf(float(digits)):
            raise ValueError(digits)
        self._digits = digits

    def __repr__(self) -> str:
        return self._digits


def _parse_integer(digits: str) -> object:
    """Parse a whole number, but keep the sign of "-0", which `int` drops."""
    return _NoSize(digits) if digits == "-0" else int(digits)


def _refuse_constant(constant: str) -> NoReturn:
    raise FalseClaimError("{constant} is not a number of JSON", constant=constant)


def _metadata(entry: object) -> dict[str, str]:
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise FalseClaimError("its metadata is not a JSON object")
    for key, value in entry.items():
        if not isinstance(value, str):
            raise FalseClaimError("its metadata {key!r} is not text", key=key)
    return entry


def _fields(key: str, entry: object) -> dict[str, object]:
    """Return the fields of a tensor by name; the reference reader takes a list of them, too."""
    if isinstance(entry, list) and len(entry) == len(TENSOR_FIELDS):
        return dict(zip(TENSOR_FIELDS, entry, strict=True))
    if not isinstance(entry, dict) or not entry.keys() >= FIELD_NAMES:
        raise FalseClaimError("{key!r} lacks a dtype, a shape or data offsets", key=key)
    return entry


def _checked_tensor(
    key: str,
    fields: Mapping[str, Any],
    known_tensors: dict[tuple[object, ...], tuple[RawTensor, int]],
) -> tuple[RawTensor, int, int]:
    """Return a tensor and its data offsets; `known_tensors` caches tensors and bytes."""
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not (isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2):
        raise FalseClaimError(
            "{key!r} has no list for its shape or no pair of data offsets", key=key
        )
    start, stop = offsets
    try:
        tensor, nbytes = known_tensors[code, *shape]
        if stop - start == nbytes and start >= 0:
            return tensor, start, stop
    except (KeyError, TypeError):
        pass
    dtype = DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise FalseClaimError("{key!r} has the unknown dtype {dtype}", key=key, dtype=short(code))
    bits = ELEMENT_BITS[dtype]
    sizes = [*shape, *offsets]
    if (
        set(map(type, sizes)) != {int}  # True and 1.0 are no sizes
        or not 0 <= min(sizes) <= max(sizes) < SIZE_LIMIT
        or len(shape) > MAX_DIMS
        or math.prod(filter(None, shape)) * bits >= SIZE_LIMIT
    ):
        raise FalseClaimError(
            "{key!r} has the impossible shape {shape} or data offsets {offsets}",
            key=key,
            shape=short(shape),
            offsets=short(offsets),
        )
    if (stop - start) * 8 != math.prod(shape) * bits:
        raise FalseClaimError(
            "{key!r} of shape {shape} and dtype {dtype} does not fit its {nbytes:,} bytes",
            key=key,
            shape=short(shape),
            dtype=code,
            nbytes=stop - start,
        )
    tensor = RawTensor(tuple(shape), dtype)
    known_tensors[code, *shape] = tensor, stop - start
    return tensor, start, stop


def _check_cover(tensors: Mapping[str, SpanTensor], data_start: int, size: int) -> None:
    position = data_start
    spans = sorted((tensor.spans, key) for key, tensor in tensors.items())
    for ((start, stop),), key in spans:
        if start != position:
            raise FalseClaimError("{key!r} does not start where the tensor before it ends", key=key)
        position = stop
    if position < size:
        problem = trn(
            "it is larger than its header declares, by one byte",
            "it is larger than its header declares, by {count:,} bytes",
            size - position,
        )
        raise FalseClaimError(problem)
    if position > size:
        raise FalseClaimError(
            "its tensors end at byte {stop:,}, and the file at byte {size:,} (a partial download?)",
            stop=position,
            size=size,
        )


class SafetensorsCheckpoint(MappedCheckpoint):
    """A safetensors file: the header is read at opening, values are mapped on demand."""

    format = "safetensors"

    def __init__(self, source: Source, _: str | None, surroundings: Surroundings) -> None:
        source.file.seek(0)
        header = read_header(source.file, source.size, source.path.name)
        super().__init__(source, header, surroundings)


def _recognizes(start: bytes, _: BinaryIO) -> bool:
    """Return whether the bytes are a length below 2**40 and the start of a JSON object."""
    return start[8:9] == b"{" and start[5:8] == bytes(3)


def _write(path: Path, content: FileContent, monitor: Monitor) -> WrittenFile:
    return write_plain(path, content, partial(_header_of, content), monitor)


def _file_nbytes(content: FileContent) -> int:
    return len(_header_of(content)) + content.nbytes


def _header_of(content: FileContent, checksums: Mapping[str, int] | None = None) -> bytes:
    for writer in content.writers:
        if writer.tensor.dtype not in CODES:
            raise CheckpointError(
                "{key!r} has the dtype {dtype}, which safetensors cannot store. "
                "Save as .pt instead.",
                key=writer.key,
                dtype=writer.tensor.dtype,
            )
        if writer.key == METADATA_KEY:
            raise CheckpointError(
                "safetensors cannot store a tensor named {key!r}. Save as .pt instead.",
                key=METADATA_KEY,
            )
    header = header_bytes(
        ((writer.key, writer.tensor.dtype, writer.tensor.shape) for writer in content.writers),
        content.texts(checksums),
    )
    if len(header) - LENGTH_BYTES > MAX_HEADER_BYTES:
        raise CheckpointError(
            "The names and the metadata take {nbytes:,} bytes, more than safetensors can "
            "store. Save as .pt instead.",
            nbytes=len(header),
        )
    return header


SAFETENSORS: Final = FileFormat(
    name=SafetensorsCheckpoint.format,
    suffixes=(".safetensors",),
    shard_suffix=".safetensors",
    preferred_name=r"model.*\.safetensors",
    recognizes=_recognizes,
    program="safetensors",
    refusal=deferred(
        "{name} is not a valid safetensors file: {problem}. Download the file again, or "
        "save it again with safetensors."
    ),
    open=SafetensorsCheckpoint,
    write=_write,
    file_nbytes=_file_nbytes,
    load_code="load_file({path})",
    load_import="from safetensors.torch import load_file",
    opens_without_torch=True,
    special_refusal=deferred(
        "{key!r} ({special}) cannot be stored in {name}: safetensors holds plain dense tensors "
        "only. Save as .pt instead."
    ),
)
