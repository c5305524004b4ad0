"""Malformed GGUF files."""

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from corpus_forms import Bad, Harmless, file

U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10
TENSOR_F32, TENSOR_Q4_0 = 0, 2
HUGE = 2**63


def string(text: str | bytes) -> bytes:
    octets = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(octets)) + octets


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, values: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + values


def tensor(
    name: str | bytes = "a",
    dims: Sequence[int] = (2,),
    kind: int = TENSOR_F32,
    offset: int = 0,
    count: int | None = None,
) -> bytes:
    sizes = b"".join(struct.pack("<Q", size) for size in dims)
    number = len(dims) if count is None else count
    return string(name) + struct.pack("<I", number) + sizes + struct.pack("<IQ", kind, offset)


def octets_of(
    tensors: Sequence[bytes] = (),
    entries: Sequence[bytes] = (),
    data: bytes = bytes(8),
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """Return the bytes of a file; the counts are those of tensors and of entries."""
    head = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(tensors), len(entries))))
    header = head + b"".join((*entries, *tensors))
    return header + bytes(-len(header) % alignment) + data


def file_of(*arguments: Sequence[bytes] | bytes, **options: object) -> Callable[[Path], Path]:
    return file(octets_of(*arguments, **options), "m.gguf")


def file_with(*entries: bytes) -> Callable[[Path], Path]:
    return file_of([tensor()], entries)


def aligned(value: bytes, kind: int = U32) -> Callable[[Path], Path]:
    return file_with(entry("general.alignment", kind, value))


def long_header(folder: Path) -> Path:
    path = folder / "m.gguf"
    path.write_bytes(octets_of([], [entry("k", STRING, struct.pack("<Q", 10**9))]))
    os.truncate(path, 2 * 10**9)
    return path


def nested(depth: int) -> bytes:
    return array(ARRAY, 1) * (depth - 1) + array(U8, 1, b"x")


VALID = octets_of([tensor()], [entry("k", STRING, string("v"))])

GGUF: dict[str, Bad | Harmless] = {
    "magic-alone": Bad("goes on to byte 8", file(b"GGUF", "m.gguf")),
    "magic-of-another-file": Bad("does not begin with", file(b"GGML" + VALID[4:], "m.gguf")),
    "version-1": Bad("its version 1 ", file_of([tensor()], version=1)),
    "version-99": Bad("its version 99 ", file_of([tensor()], version=99)),
    "big-endian": Bad("big-endian", file_of([tensor()], version=3 << 24)),
    "tensors-2**63": Bad("declares", file_of([tensor()], counts=(HUGE, 0)), bomb=True),
    "tensors-a-million": Bad(
        "the limit is 262,144", file_of([tensor(dims=[0])] * 10**6, data=b""), bomb=True
    ),
    "entries-2**63": Bad("declares", file_of([tensor()], counts=(1, HUGE)), bomb=True),
    "one-tensor-more": Bad("the file has", file_of([tensor()], data=b"", counts=(2, 0))),
    "header-over-the-limit": Bad("over the limit", long_header, bomb=True),
    "key-of-2**63-bytes": Bad(
        "goes on to byte", file_with(struct.pack("<Q", HUGE) + b"k"), bomb=True
    ),
    "key-no-utf8": Bad("is not UTF-8", file_with(entry(b"\xff", U8, b"x"))),
    "key-twice": Bad(
        "'k' appears more than once", file_with(entry("k", U8, b"x"), entry("k", BOOL, b"\1"))
    ),
    "value-of-an-unknown-type": Bad("'k' has the unknown type 13", file_with(entry("k", 13, b""))),
    "text-of-2**63-bytes": Bad(
        "goes on to byte", file_with(entry("k", STRING, struct.pack("<Q", HUGE)))
    ),
    "array-of-2**63": Bad(
        "goes on to byte", file_with(entry("k", ARRAY, array(U64, HUGE))), bomb=True
    ),
    "array-of-2**63-strings": Bad(
        "declares", file_with(entry("k", ARRAY, array(STRING, HUGE))), bomb=True
    ),
    "array-of-2**63-arrays": Bad(
        "declares", file_with(entry("k", ARRAY, array(ARRAY, HUGE))), bomb=True
    ),
    "array-of-a-string-of-2**63": Bad(
        "goes on to byte", file_with(entry("k", ARRAY, array(STRING, 1, struct.pack("<Q", HUGE))))
    ),
    "array-of-an-unknown-type": Bad("unknown type 99", file_with(entry("k", ARRAY, array(99, 1)))),
    "arrays-9-deep": Bad("nested too deeply", file_with(entry("k", ARRAY, nested(9)))),
    "arrays-100000-deep": Bad("nested too deeply", file_with(entry("k", ARRAY, nested(10**5)))),
    "alignment-zero": Bad("its alignment 0 ", aligned(struct.pack("<I", 0))),
    "alignment-48": Bad("its alignment 48 ", aligned(struct.pack("<I", 48))),
    "alignment-64-bits": Bad("its alignment 32 ", aligned(struct.pack("<Q", 32), U64)),
    "alignment-a-text": Bad("its alignment x ", aligned(string("x"), STRING)),
    "alignment-2**31": Bad("end at byte", aligned(struct.pack("<I", 2**31))),
    "name-twice": Bad(
        "'a' appears more than once", file_of([tensor(), tensor(offset=32)], data=bytes(64))
    ),
    "name-no-utf8": Bad("is not UTF-8", file_of([tensor(b"\xff")])),
    "type-unknown": Bad("'a' has the unknown type 31", file_of([tensor(kind=31)])),
    "type-2**32-1": Bad("unknown type 4,294,967,295", file_of([tensor(kind=2**32 - 1)])),
    "five-dims": Bad("5 dimensions", file_of([tensor(dims=[1] * 5)])),
    "dims-2**32-1": Bad("dimensions", file_of([tensor(count=2**32 - 1)]), bomb=True),
    "dims-huge": Bad("impossible shape", file_of([tensor(dims=[2**64 - 1])]), bomb=True),
    "dims-whose-product-wraps-around-to-2": Bad(
        "impossible shape", file_of([tensor(dims=[2**63 + 1, 2])])
    ),
    "dims-zero-and-huge": Bad("impossible shape", file_of([tensor(dims=[0, 2**62])])),
    "a-row-that-is-no-whole-block": Bad(
        "impossible shape", file_of([tensor(dims=[16, 2], kind=TENSOR_Q4_0)], data=bytes(18))
    ),
    "data-cut-off": Bad("end at byte", file_of([tensor(dims=[3])])),
    "data-of-4-gb": Bad("end at byte", file_of([tensor(dims=[2**30])]), bomb=True),
    "offset-beyond-the-end": Bad("end at byte", file_of([tensor(offset=2**40)])),
    "offset-2**64-32": Bad("end at byte", file_of([tensor(offset=2**64 - 32)])),
    "offset-unaligned": Bad("no multiple of", file_of([tensor(offset=4)], data=bytes(12))),
    "overlap": Bad("overlaps", file_of([tensor(), tensor("b")])),
    "overlap-in-part": Bad(
        "overlaps", file_of([tensor(dims=[16]), tensor("b", offset=32)], data=bytes(64))
    ),
    **{
        f"cut-at-{length}": Bad("m.gguf", file(VALID[:length], "m.gguf"))
        for length in (5, 8, 20, 30, 45, 60, 80, len(VALID) - 1)
    },
    "harmless-version-2": Harmless(file_of([tensor()], version=2)),
    "harmless-nothing-in-it": Harmless(file_of()),
    "harmless-zeros": Harmless(file(b"GGUF\x03\0\0\0" + bytes(99), "m.pt")),
    "harmless-no-dims": Harmless(file_of([tensor(dims=[])])),
    "harmless-empty-tensor": Harmless(file_of([tensor(dims=[0, 3])], data=b"")),
    "harmless-blocks": Harmless(file_of([tensor(dims=[32, 2], kind=TENSOR_Q4_0)], data=bytes(36))),
    "harmless-alignment-1": Harmless(
        file_of([tensor()], [entry("general.alignment", U32, struct.pack("<I", 1))], alignment=1)
    ),
    "harmless-hole": Harmless(file_of([tensor(offset=64)], data=bytes(72))),
    "harmless-bytes-at-the-end": Harmless(file_of([tensor()], data=bytes(1000))),
    "harmless-arrays-8-deep": Harmless(file_with(entry("k", ARRAY, nested(8)))),
    "harmless-text-no-utf8": Harmless(file_with(entry("k", STRING, string(b"\xff")))),
    "harmless-nan": Harmless(file_with(entry("k", F32, struct.pack("<f", float("nan"))))),
    "harmless-name-empty": Harmless(file_of([tensor("")])),
    "harmless-name-with-newlines": Harmless(file_of([tensor("a\nb\r\u2028\x1b[2J\u202e")])),
    "harmless-name-like-a-pair": Harmless(
        file_of([tensor("_orig"), tensor("_mask", offset=32)], data=bytes(40))
    ),
    "harmless-heads-of-text": Harmless(
        file_with(
            entry("general.architecture", STRING, string("x")),
            entry("x.attention.head_count", STRING, string("12")),
        )
    ),
}
