"""Malformed safetensors files."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

from corpus_forms import Bad, Harmless, file

ENTRY = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
VALID_HEADER = json.dumps({"a": ENTRY}).encode()


def file_of(
    header: object, body: bytes = b"ab", length: int | None = None
) -> Callable[[Path], Path]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    return file(struct.pack("<Q", length) + text + body, "m.safetensors")


def file_with_fields(**changes: object) -> Callable[[Path], Path]:
    return file_of({"a": ENTRY | changes})


def file_with_shape(shape: bytes, offsets: bytes = b"[0,2]") -> Callable[[Path], Path]:
    """Return a function that writes a shape that Python's json cannot write."""
    return file_of(b'{"a":{"dtype":"U8","shape":%b,"data_offsets":%b}}' % (shape, offsets))


def file_with_name(key: str, body: bytes = b"ab") -> Harmless:
    return Harmless(file_of({key: ENTRY}, body))


def huge_header(folder: Path) -> Path:
    path = folder / "m.safetensors"
    path.write_bytes(struct.pack("<Q", 100_000_001) + b"{")
    os.truncate(path, 8 + 100_000_001)
    return path


def file_cut_at(share: float) -> Callable[[Path], Path]:
    whole = struct.pack("<Q", len(VALID_HEADER)) + VALID_HEADER + b"ab"
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
    "no-json": Bad("not JSON", file_of(b"{a: 1}")),
    "trailing-comma": Bad("not JSON", file_of(VALID_HEADER[:-1] + b",}")),
    "two-objects": Bad("not JSON", file_of(VALID_HEADER + b"{}")),
    "no-utf8": Bad("not UTF-8", file_of(b'{"\xff":1}')),
    "byte-order-mark": Bad("not JSON", file_of(b"\xef\xbb\xbf" + VALID_HEADER)),
    "a-list": Bad("not a JSON object", file_of(b'["{"]')),
    "a-text": Bad("not a JSON object", file_of(b'"{"')),
    "deep-lists": Bad("not JSON", file_of(b'{"a":' + b"[" * 100_000)),
    "deep-dicts": Bad("not JSON", file_of(b'{"a":' * 100_000)),
    "deep-metadata": Bad("not JSON", file_of(b'{"__metadata__":' + b'{"a":' * 100_000)),
    "many-lists": Bad(
        "nested too deeply", file_of(b'{"a":[' + b"[]," * 10**7 + b"[]]}"), bomb=True
    ),
    "many-objects": Bad(
        "nested too deeply", file_of(b'{"a":[' + b"{}," * 10**7 + b"{}]}"), bomb=True
    ),
    "key-twice": Bad(
        "'a' appears more than once", file_of(b'{"a":%b,"a":%b}' % ((VALID_HEADER[6:-1],) * 2))
    ),
    "field-twice": Bad(
        "'dtype' appears more", file_of(VALID_HEADER.replace(b'"shape"', b'"dtype"'))
    ),
    "metadata-twice": Bad("'k' appears", file_of(b'{"__metadata__":{"k":"1","k":"2"}}', b"")),
    "dtype-unknown": Bad("unknown dtype 'F3'", file_with_fields(dtype="F3")),
    "dtype-lowercase": Bad("unknown dtype 'u8'", file_with_fields(dtype="u8")),
    "dtype-a-number": Bad("unknown dtype 8", file_with_fields(dtype=8)),
    "dtype-a-list": Bad("unknown dtype ['U8']", file_with_fields(dtype=["U8"])),
    "dtype-very-long": Bad("unknown dtype 'FFF", file_with_fields(dtype="F" * 10**6)),
    **{
        f"shape-{kind}": Bad("the impossible shape", file_with_fields(shape=shape))
        for kind, shape in IMPOSSIBLE.items()
    },
    "shape-minus-zero": Bad("impossible shape [-0]", file_with_shape(b"[-0]")),
    "shape-nan": Bad("NaN is not a number", file_with_shape(b"[NaN]")),
    "shape-infinity": Bad("Infinity is not a number", file_with_shape(b"[2]", b"[0,Infinity]")),
    "shape-minus-infinity": Bad("-Infinity is not a", file_with_shape(b"[2]", b"[-Infinity,2]")),
    "shape-a-float": Bad("impossible shape [2.0]", file_with_shape(b"[2.0]")),
    "shape-a-float-of-another-form": Bad("impossible shape [2E0]", file_with_shape(b"[2E0]")),
    "shape-1e400": Bad("not JSON", file_with_shape(b"[1e400]")),
    "shape-true-after-one": Bad(
        "the impossible shape [True, 2]",
        file_of(
            {
                "a": ENTRY | {"shape": [1, 2]},
                "b": {"dtype": "U8", "shape": [True, 2], "data_offsets": [2, 4]},
            },
            b"abcd",
        ),
    ),
    "key-twice-with-spaces": Bad(
        "'a' appears more than once", file_of(b'{"a" :%b,"a"\n:%b}' % ((VALID_HEADER[6:-1],) * 2))
    ),
    "key-twice-with-escapes": Bad(
        "'a' appears more than once",
        file_of(
            b'{"__metadata__":{"\\"k\\":":":\\""},"a":%b,"\\u0061":%b}'
            % ((VALID_HEADER[6:-1],) * 2)
        ),
    ),
    "shape-of-6000-digits": Bad("not JSON", file_with_shape(b"[" + b"9" * 6000 + b"]")),
    "shape-no-list": Bad("no list for its shape", file_with_fields(shape=2)),
    "shape-of-a-million-dims": Bad("the impossible shape", file_with_fields(shape=[1] * 10**6)),
    "shape-too-large-for-the-bytes": Bad("does not fit its 2 bytes", file_with_fields(shape=[3])),
    "shape-of-4-gb": Bad("does not fit its 2 bytes", file_with_fields(dtype="F32", shape=[2**30])),
    "zero-bytes-claimed": Bad("does not fit its 0 bytes", file_with_fields(data_offsets=[0, 0])),
    "shape-zero-with-bytes": Bad("does not fit its 2 bytes", file_with_fields(shape=[0])),
    "offsets-three": Bad("no pair of data offsets", file_with_fields(data_offsets=[0, 1, 2])),
    "offsets-a-dict": Bad("no pair of data offsets", file_with_fields(data_offsets={"0": 2})),
    "offsets-backwards": Bad("does not fit its -2 bytes", file_with_fields(data_offsets=[2, 0])),
    "offsets-negative": Bad("data offsets [-2, 0]", file_with_fields(data_offsets=[-2, 0])),
    "offsets-beyond-the-end": Bad("does not start", file_with_fields(data_offsets=[100, 102])),
    "offsets-huge": Bad("data offsets [9223", file_with_fields(data_offsets=[2**63, 2**63 + 2])),
    "field-missing": Bad("lacks a dtype", file_of({"a": {"dtype": "U8", "shape": [2]}})),
    "field-with-a-key-twice": Bad(
        "ambiguous", file_of(VALID_HEADER[:-2] + b',"x":{"k":1,"k":2}}}')
    ),
    "field-of-1e400": Bad("not JSON", file_of(VALID_HEADER[:-2] + b',"x":1e400}}')),
    "entry-a-list-of-two": Bad("lacks a dtype", file_of({"a": ["U8", [2]]})),
    "entry-null": Bad("lacks a dtype", file_of({"a": None})),
    "float-after-an-integer": Bad(
        "the impossible shape [2.0]",
        file_of({"a": ENTRY, "b": {"dtype": "U8", "shape": [2.0], "data_offsets": [2, 4]}}),
    ),
    "metadata-a-float": Bad("is not text", file_of({"__metadata__": {"k": 1.5}}, b"")),
    "overlap": Bad("does not start where", file_of({"a": ENTRY, "b": ENTRY})),
    "overlap-in-part": Bad(
        "does not start where", file_of({"a": ENTRY, "b": ENTRY | {"data_offsets": [1, 3]}}, b"abc")
    ),
    "hole": Bad(
        "does not start where",
        file_of({"a": ENTRY, "b": ENTRY | {"data_offsets": [3, 5]}}, b"abcde"),
    ),
    "hole-at-the-start": Bad(
        "does not start", file_of({"a": ENTRY | {"data_offsets": [1, 3]}}, b"abc")
    ),
    "trailing-bytes": Bad("larger than its header declares, by one", file_of({"a": ENTRY}, b"abc")),
    "trailing-bytes-alone": Bad("larger than its header declares, by 2 bytes", file_of({})),
    "name-with-a-lone-surrogate": Bad("is not valid text", file_of({"\ud800": ENTRY})),
    "metadata-a-number": Bad("metadata 'k' is not text", file_of({"__metadata__": {"k": 1}}, b"")),
    "metadata-a-list": Bad("metadata is not a JSON object", file_of({"__metadata__": []}, b"")),
    "metadata-a-surrogate": Bad("not valid text", file_of({"__metadata__": {"k": "\udfff"}}, b"")),
    "4-bits-that-end-on-no-byte": Bad("does not fit its 2", file_with_fields(**F4, shape=[3])),
    "6-bits-that-end-on-no-byte": Bad("does not fit its 2", file_with_fields(**F6, shape=[3])),
    "4-bits-of-a-byte-less": Bad("does not fit its 2 bytes", file_with_fields(**F4, shape=[6])),
    **{
        f"length-{kind}": Bad("not a valid safetensors file", file_of(VALID_HEADER, length=length))
        for kind, length in LENGTHS.items()
    },
    **{
        f"cut-at-{share}": Bad("m.safetensors", file_cut_at(share))
        for share in (0.01, 0.1, 0.3, 0.6, 0.9, 0.98)
    },
    "harmless-further-field": Harmless(file_with_fields(strides=[1])),
    "harmless-further-field-of-any-type": Harmless(
        file_with_fields(x={"y": [1.5, True, None, {"dtype": -0.0}]}, y=-(10**30))
    ),
    "harmless-entry-a-list": Harmless(file_of({"a": ["U8", [2], [0, 2]]})),
    "harmless-64-dims": Harmless(file_with_fields(shape=[1] * 63 + [2])),
    "harmless-4-bits": Harmless(file_with_fields(**F4, shape=[2, 2])),
    "harmless-6-bits": Harmless(
        file_of({"a": {**F6, "shape": [4], "data_offsets": [0, 3]}}, b"abc")
    ),
    "harmless-bool-of-2": Harmless(file_with_fields(dtype="BOOL")),
    "harmless-metadata-null": Harmless(file_of({"__metadata__": None, "a": ENTRY})),
    "harmless-empty": Harmless(file_of({}, b"")),
    "harmless-nothing-in-it": Harmless(
        file_of({"a": {**ENTRY, "shape": [2, 0], "data_offsets": [0, 0]}}, b"")
    ),
    "harmless-name-empty": file_with_name(""),
    "harmless-name-of-dots": file_with_name("." * 1000),
    "harmless-name-with-nul": file_with_name("a\0b"),
    "harmless-name-with-slashes": file_with_name("../../etc/passwd"),
    "harmless-name-with-newlines": file_with_name("a\nb\r\u2028\x1b[2J\u202e"),
    "harmless-name-of-a-megabyte": file_with_name("n" * 10**6),
    "harmless-name-as-a-number": file_with_name("0"),
    "harmless-name-with-quotes": file_with_name('a":"\\"\\\\":'),
    "harmless-name-with-colons": file_with_name("a:b: c"),
    "harmless-name-like-a-pair": Harmless(
        file_of({"_orig": ENTRY, "_mask": ENTRY | {"data_offsets": [2, 4]}}, b"abab")
    ),
}
