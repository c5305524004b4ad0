"""Malformed safetensors files."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

from corpus_forms import Bad, Harmless, file

ENTRY = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
RIGHT = json.dumps({"a": ENTRY}).encode()


def st(header: object, body: bytes = b"ab", length: int | None = None) -> Callable[[Path], Path]:
    """Return what writes a header, given as bytes or to be put into JSON, and what follows it."""
    made = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(made) if length is None else length
    return file(struct.pack("<Q", length) + made + body, "m.safetensors")


def entry(**changes: object) -> Callable[[Path], Path]:
    """Return what writes a file of one tensor that is changed a little."""
    return st({"a": ENTRY | changes})


def raw(shape: bytes, offsets: bytes = b"[0,2]") -> Callable[[Path], Path]:
    """Return what writes a shape that Python's json would not."""
    return st(b'{"a":{"dtype":"U8","shape":%b,"data_offsets":%b}}' % (shape, offsets))


def named(key: str, body: bytes = b"ab") -> Harmless:
    """Return a file with an odd name for its tensor."""
    return Harmless(st({key: ENTRY}, body))


def huge_header(folder: Path) -> Path:
    """Write a header over the limit, as a hole in the file."""
    path = folder / "m.safetensors"
    path.write_bytes(struct.pack("<Q", 100_000_001) + b"{")
    os.truncate(path, 8 + 100_000_001)
    return path


def cut(share: float) -> Callable[[Path], Path]:
    """Return what writes a part of a right file."""
    whole = struct.pack("<Q", len(RIGHT)) + RIGHT + b"ab"
    return file(whole[: int(share * len(whole))], "m.safetensors")


F4, F6 = {"dtype": "F4"}, {"dtype": "F6_E2M3"}
LENGTHS = {"0": 0, "1": 1, "7": 7, "past-the-end": 900, "2**33": 2**33, "2**64-1": 2**64 - 1}
IMPOSSIBLE = {
    "a-text": ["x"],
    "negative": [-1],
    "a-bool": [True, 2],
    "null": [None],
    "a-list": [[2]],
    "2**63": [2**63],
    "2**64+2": [2**64 + 2],
    "65-dims": [1] * 64 + [2],
    "empty-but-overflowing": [0, 2**40, 2**40],
    "a-product-that-wraps-around-to-2": [2**63 - 1, 2**62, 2],
}

SAFETENSORS: dict[str, Bad | Harmless] = {
    "too-short": Bad("it is too short", file(b"\x07\0\0", "m.safetensors")),
    "header-over-the-limit": Bad("over the limit", huge_header, bomb=True),
    "no-json": Bad("not JSON", st(b"{a: 1}")),
    "trailing-comma": Bad("not JSON", st(RIGHT[:-1] + b",}")),
    "two-objects": Bad("not JSON", st(RIGHT + b"{}")),
    "no-utf8": Bad("not UTF-8", st(b'{"\xff":1}')),
    "byte-order-mark": Bad("not JSON", st(b"\xef\xbb\xbf" + RIGHT)),
    "a-list": Bad("not a JSON object", st(b'["{"]')),
    "a-text": Bad("not a JSON object", st(b'"{"')),
    "deep-lists": Bad("not JSON", st(b'{"a":' + b"[" * 100_000)),
    "deep-dicts": Bad("not JSON", st(b'{"a":' * 100_000)),
    "deep-metadata": Bad("not JSON", st(b'{"__metadata__":' + b'{"a":' * 100_000)),
    "many-lists": Bad("nests too much", st(b'{"a":[' + b"[]," * 10**7 + b"[]]}"), bomb=True),
    "many-objects": Bad("nests too much", st(b'{"a":[' + b"{}," * 10**7 + b"{}]}"), bomb=True),
    "key-twice": Bad("'a' appears more than once", st(b'{"a":%b,"a":%b}' % ((RIGHT[6:-1],) * 2))),
    "field-twice": Bad("'dtype' appears more", st(RIGHT.replace(b'"shape"', b'"dtype"'))),
    "metadata-twice": Bad("'k' appears", st(b'{"__metadata__":{"k":"1","k":"2"}}', b"")),
    "dtype-unknown": Bad("unknown dtype 'F3'", entry(dtype="F3")),
    "dtype-lowercase": Bad("unknown dtype 'u8'", entry(dtype="u8")),
    "dtype-a-number": Bad("unknown dtype 8", entry(dtype=8)),
    "dtype-a-list": Bad("unknown dtype ['U8']", entry(dtype=["U8"])),
    "dtype-very-long": Bad("unknown dtype 'FFF", entry(dtype="F" * 10**6)),
    **{
        f"shape-{kind}": Bad("the impossible shape", entry(shape=shape))
        for kind, shape in IMPOSSIBLE.items()
    },
    "shape-minus-zero": Bad("-0 is no size", raw(b"[-0]")),
    "shape-nan": Bad("NaN is no size", raw(b"[NaN]")),
    "shape-infinity": Bad("Infinity is no size", raw(b"[2]", b"[0,Infinity]")),
    "shape-minus-infinity": Bad("-Infinity is no size", raw(b"[2]", b"[-Infinity,2]")),
    "shape-a-float": Bad("2.0 is no size", raw(b"[2.0]")),
    "shape-a-float-of-another-form": Bad("2E0 is no size", raw(b"[2E0]")),
    "shape-1e400": Bad("1e400 is no size", raw(b"[1e400]")),
    "shape-true-after-one": Bad(
        "the impossible shape [True, 2]",
        st(
            {
                "a": ENTRY | {"shape": [1, 2]},
                "b": {"dtype": "U8", "shape": [True, 2], "data_offsets": [2, 4]},
            },
            b"abcd",
        ),
    ),
    "key-twice-with-spaces": Bad(
        "'a' appears more than once", st(b'{"a" :%b,"a"\n:%b}' % ((RIGHT[6:-1],) * 2))
    ),
    "key-twice-with-escapes": Bad(
        "'a' appears more than once",
        st(b'{"__metadata__":{"\\"k\\":":":\\""},"a":%b,"\\u0061":%b}' % ((RIGHT[6:-1],) * 2)),
    ),
    "shape-of-6000-digits": Bad("not JSON", raw(b"[" + b"9" * 6000 + b"]")),
    "shape-no-list": Bad("no list for its shape", entry(shape=2)),
    "shape-of-a-million-dims": Bad("the impossible shape", entry(shape=[1] * 10**6)),
    "shape-too-large-for-the-bytes": Bad("does not fit its 2 bytes", entry(shape=[3])),
    "shape-of-4-gb": Bad("does not fit its 2 bytes", entry(dtype="F32", shape=[2**30])),
    "zero-bytes-claimed": Bad("does not fit its 0 bytes", entry(data_offsets=[0, 0])),
    "shape-zero-with-bytes": Bad("does not fit its 2 bytes", entry(shape=[0])),
    "offsets-three": Bad("no pair of data offsets", entry(data_offsets=[0, 1, 2])),
    "offsets-a-dict": Bad("no pair of data offsets", entry(data_offsets={"0": 2})),
    "offsets-backwards": Bad("does not fit its -2 bytes", entry(data_offsets=[2, 0])),
    "offsets-negative": Bad("data offsets [-2, 0]", entry(data_offsets=[-2, 0])),
    "offsets-beyond-the-end": Bad("does not start where", entry(data_offsets=[100, 102])),
    "offsets-huge": Bad("data offsets [9223", entry(data_offsets=[2**63, 2**63 + 2])),
    "field-missing": Bad("exactly a dtype", st({"a": {"dtype": "U8", "shape": [2]}})),
    "field-too-many": Bad("exactly a dtype", entry(strides=[1])),
    "entry-a-list": Bad("exactly a dtype", st({"a": ["U8", [2], [0, 2]]})),
    "entry-null": Bad("exactly a dtype", st({"a": None})),
    "overlap": Bad("does not start where", st({"a": ENTRY, "b": ENTRY})),
    "overlap-in-part": Bad(
        "does not start where", st({"a": ENTRY, "b": ENTRY | {"data_offsets": [1, 3]}}, b"abc")
    ),
    "hole": Bad(
        "does not start where", st({"a": ENTRY, "b": ENTRY | {"data_offsets": [3, 5]}}, b"abcde")
    ),
    "hole-at-the-start": Bad("does not start", st({"a": ENTRY | {"data_offsets": [1, 3]}}, b"abc")),
    "trailing-bytes": Bad("tensors end at byte", st({"a": ENTRY}, b"abc")),
    "trailing-bytes-alone": Bad("tensors end at byte", st({})),
    "name-with-a-lone-surrogate": Bad("is not valid text", st({"\ud800": ENTRY})),
    "metadata-a-number": Bad("metadata 'k' is not text", st({"__metadata__": {"k": 1}}, b"")),
    "metadata-a-list": Bad("metadata is not a JSON object", st({"__metadata__": []}, b"")),
    "metadata-a-surrogate": Bad("not valid text", st({"__metadata__": {"k": "\udfff"}}, b"")),
    "4-bits-that-end-on-no-byte": Bad("does not fit its 2 bytes", entry(**F4, shape=[3])),
    "6-bits-that-end-on-no-byte": Bad("does not fit its 2 bytes", entry(**F6, shape=[3])),
    "4-bits-of-a-byte-less": Bad("does not fit its 2 bytes", entry(**F4, shape=[6])),
    **{
        f"length-{kind}": Bad("not a valid safetensors file", st(RIGHT, length=length))
        for kind, length in LENGTHS.items()
    },
    **{
        f"cut-at-{share}": Bad("m.safetensors", cut(share))
        for share in (0.01, 0.1, 0.3, 0.6, 0.9, 0.98)
    },
    "harmless-64-dims": Harmless(entry(shape=[1] * 63 + [2])),
    "harmless-4-bits": Harmless(entry(**F4, shape=[2, 2])),
    "harmless-6-bits": Harmless(st({"a": {**F6, "shape": [4], "data_offsets": [0, 3]}}, b"abc")),
    "harmless-bool-of-2": Harmless(entry(dtype="BOOL")),
    "harmless-metadata-null": Harmless(st({"__metadata__": None, "a": ENTRY})),
    "harmless-empty": Harmless(st({}, b"")),
    "harmless-nothing-in-it": Harmless(
        st({"a": {**ENTRY, "shape": [2, 0], "data_offsets": [0, 0]}}, b"")
    ),
    "harmless-name-empty": named(""),
    "harmless-name-of-dots": named("." * 1000),
    "harmless-name-with-nul": named("a\0b"),
    "harmless-name-with-slashes": named("../../etc/passwd"),
    "harmless-name-with-newlines": named("a\nb\r\u2028\x1b[2J\u202e"),
    "harmless-name-of-a-megabyte": named("n" * 10**6),
    "harmless-name-as-a-number": named("0"),
    "harmless-name-with-quotes": named('a":"\\"\\\\":'),
    "harmless-name-with-colons": named("a:b: c"),
    "harmless-name-like-a-pair": Harmless(
        st({"_orig": ENTRY, "_mask": ENTRY | {"data_offsets": [2, 4]}}, b"abab")
    ),
}
