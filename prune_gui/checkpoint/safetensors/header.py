"""The header of a safetensors file, checked completely before anything in it is believed.

The format (https://huggingface.co/docs/safetensors): eight bytes with the length N of the header as
an unsigned little-endian integer, N bytes of JSON, and the data of all tensors without holes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from reprlib import repr as short
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.tensor_info import ENTRY_BITS, MAX_DIMS, size_in_bytes
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import tr

LENGTH_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 100_000_000
METADATA_KEY: Final = "__metadata__"
SIZE_LIMIT: Final = 1 << 63
"""Sizes, and products of sizes in bits, stay below this, which torch counts up to."""
FIELDS: Final = {"dtype", "shape", "data_offsets"}
MAX_MESSAGE: Final = 400
MAX_OTHER_BRACKETS: Final = 1 << 19
ESCAPE: Final = re.compile(r"\\.")
KEY_END: Final = re.compile(r'"[ \t\n\r]*:')
ENTRY_END: Final = re.compile(r'\},[ \t\n\r]*(?=")')
PIECE: Final = 1 << 18
"""Characters read at once, at least."""

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


class Header(NamedTuple):
    """What a header says.

    Attributes:
        tensors: in the order of the header.
        spans: the bytes of the file that each tensor takes, as (start, stop).
        metadata: the strings under `__metadata__`.
    """

    tensors: dict[str, RawTensor]
    spans: dict[str, tuple[int, int]]
    metadata: dict[str, str]


def read_header(file: BinaryIO, size: int, name: str) -> Header:
    """Read and check the header of a file of `size` bytes; `name` is for messages.

    Raises:
        CheckpointError: the header breaks a rule of the format.
    """
    header = Header({}, {}, {})
    try:
        entries, text, data_start = _parse(file, size)
        header.metadata.update(_metadata(entries.pop(METADATA_KEY, None)))
        if "\\" in text:
            for written in (*entries, *header.metadata, *header.metadata.values()):
                _check_text(written)
        may_have_bools = "true" in text or "false" in text
        kinds: dict[tuple[object, ...], tuple[RawTensor, int]] = {}
        for key, entry in entries.items():
            if may_have_bools:
                kinds.clear()  # in which True would be found as 1
            header.tensors[key], start, stop = _tensor(key, entry, kinds)
            header.spans[key] = data_start + start, data_start + stop
        _check_cover(header.spans, data_start, size)
    except _HeaderError as problem:
        raise CheckpointError(
            tr(
                "{name} is not a valid safetensors file: {problem}. "
                "Get the file again, or save it again with safetensors.",
                name=name,
                problem=one_line(str(problem), MAX_MESSAGE),
            )
        ) from None
    return header


def header_bytes(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> bytes:
    """Return length and header for tensors (key, dtype, shape) whose data follow in this order.

    The header is padded with spaces, so that the data start at a multiple of eight.
    """
    header: dict[str, object] = {METADATA_KEY: dict(metadata)} if metadata else {}
    position = 0
    for key, dtype, shape in tensors:
        stop = position + size_in_bytes(shape, dtype)
        header[key] = {"dtype": CODES[dtype], "shape": shape, "data_offsets": (position, stop)}
        position = stop
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


class _HeaderError(Exception):
    """What is wrong with a header, as the end of a sentence."""


def _parse(file: BinaryIO, size: int) -> tuple[dict[str, object], str, int]:
    """Return the header as an object and as text, and where the data start."""
    if size < LENGTH_BYTES:
        raise _HeaderError(tr("it is too short"))
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > size - LENGTH_BYTES:
        raise _HeaderError(
            tr(
                "its header claims {claimed:,} bytes, and the file has {size:,} "
                "(a partial download?)",
                claimed=length,
                size=size,
            )
        )
    if length > MAX_HEADER_BYTES:
        raise _HeaderError(
            tr(
                "its header of {length:,} bytes is over the limit of {limit:,}",
                length=length,
                limit=MAX_HEADER_BYTES,
            )
        )
    try:
        text = file.read(length).decode("utf-8")
        # Lists and objects take much more memory than text. Strings of metadata may hold brackets.
        if text.count("[") + text.count("{") > 3 * text.count('"dtype"') + MAX_OTHER_BRACKETS:
            raise _HeaderError(tr("its header nests too much for a header"))
        rules: dict[str, Any] = {
            "parse_int": _not_minus_zero if "-0" in text else None,  # costs time on long headers
            "parse_float": _refuse_constant,
            "parse_constant": _refuse_constant,
        }
        header = decode(text, rules)
        if isinstance(header, dict) and _number_of_keys(text) != len(header) + sum(
            len(entry) for entry in header.values() if isinstance(entry, dict)
        ):
            json.loads(text, object_pairs_hook=_without_duplicates, **rules)  # says which
    except UnicodeDecodeError:
        raise _HeaderError(tr("its header is not UTF-8 text")) from None
    except (ValueError, RecursionError):
        raise _HeaderError(tr("its header is not JSON")) from None
    if not isinstance(header, dict):
        raise _HeaderError(tr("its header is not a JSON object"))
    return header, text, LENGTH_BYTES + length


def decode(text: str, rules: Mapping[str, Any]) -> object:
    """Do as `json.loads`, but read a long object of objects piece by piece.

    Whatever else runs has to wait while JSON is read, for a tenth of a second and more. A piece
    ends where an inner object seems to end and a key to follow. If that lies in a string, or
    deeper, the piece is no JSON, and all is read at once.
    """
    found: dict[str, object] = {}
    start, opening = 0, ""
    try:
        while end := ENTRY_END.search(text, start + PIECE):
            found |= json.loads(f"{opening}{text[start : end.start() + 1]}}}", **rules)
            start, opening = end.end(), "{"
        rest = json.loads(opening + text[start:], **rules)
    except ValueError:
        return json.loads(text, **rules)
    return found | rest if start else rest


def _number_of_keys(text: str) -> int:
    """Count the keys of all objects in a text of JSON: what is in quotes and before a colon."""
    if "\\" in text:
        text = ESCAPE.sub("", text)  # then a quote is never part of a string
    quoted = text.count('":')
    return quoted if quoted == text.count(":") else len(KEY_END.findall(text))


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _HeaderError(tr("{key!r} appears more than once", key=twice))
    return unique


def _not_minus_zero(digits: str) -> int:
    """Read a number; refuse the one that is not unsigned and does not show it as an int."""
    if digits == "-0":
        raise _HeaderError(tr("{number} is no size", number=digits))
    return int(digits)


def _refuse_constant(constant: str) -> NoReturn:
    raise _HeaderError(tr("{number} is no size", number=constant))


def _metadata(entry: object) -> dict[str, str]:
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise _HeaderError(tr("its metadata is not a JSON object"))
    for key, value in entry.items():
        if not isinstance(value, str):
            raise _HeaderError(tr("its metadata {key!r} is not text", key=key))
    return entry


def _check_text(text: str) -> None:
    """Refuse lone surrogates: JSON can spell them, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _HeaderError(tr("{text!r} is not valid text", text=text[:80])) from None


def _tensor(
    key: str, entry: object, kinds: dict[tuple[object, ...], tuple[RawTensor, int]]
) -> tuple[RawTensor, int, int]:
    """Return a tensor and its data offsets, if they agree with each other.

    Args:
        key: its name.
        entry: what the header says of it.
        kinds: those seen before, by dtype and shape: most tensors are of few of them.
    """
    if not isinstance(entry, dict) or entry.keys() != FIELDS:
        raise _HeaderError(
            tr("{key!r} does not have exactly a dtype, a shape and data offsets", key=key)
        )
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2):
        raise _HeaderError(
            tr("{key!r} has no list for its shape or no pair of data offsets", key=key)
        )
    start, stop = offsets
    try:
        kind, nbytes = kinds[code, *shape]
        if stop - start == nbytes and start >= 0:
            return kind, start, stop
    except (KeyError, TypeError):
        pass
    dtype = DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise _HeaderError(tr("{key!r} has the unknown dtype {dtype}", key=key, dtype=short(code)))
    bits = ENTRY_BITS[dtype]
    if not (_are_sizes(shape + offsets) and _is_within_reach(shape, bits)):
        raise _HeaderError(
            tr(
                "{key!r} has the impossible shape {shape} or data offsets {offsets}",
                key=key,
                shape=short(shape),
                offsets=short(offsets),
            )
        )
    if (stop - start) * 8 != math.prod(shape) * bits:
        raise _HeaderError(
            tr(
                "{key!r} of shape {shape} and dtype {dtype} does not fit its {nbytes:,} bytes",
                key=key,
                shape=short(shape),
                dtype=code,
                nbytes=stop - start,
            )
        )
    kind = RawTensor(tuple(shape), dtype)
    kinds[code, *shape] = kind, stop - start
    return kind, start, stop


def _are_sizes(values: list[int]) -> bool:
    """Tell whether what JSON gave as sizes are such; `True` and `1.0` are not."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) < SIZE_LIMIT


def _is_within_reach(shape: list[int], bits: int) -> bool:
    """Tell whether torch can count the entries, and the strides of a tensor without any."""
    return len(shape) <= MAX_DIMS and math.prod(filter(None, shape)) * bits < SIZE_LIMIT


def _check_cover(spans: Mapping[str, tuple[int, int]], data_start: int, size: int) -> None:
    """Check that the tensors follow each other, without overlap or hole, to the end of the file."""
    position = data_start
    ordered = sorted(spans.items(), key=lambda named: named[1])
    for key, (start, stop) in ordered:
        if start != position:
            raise _HeaderError(
                tr("{key!r} does not start where the tensor before it ends", key=key)
            )
        position = stop
    if position != size:
        raise _HeaderError(
            tr(
                "its tensors end at byte {stop:,}, and the file at byte {size:,} "
                "(a partial download?)",
                stop=position,
                size=size,
            )
        )
