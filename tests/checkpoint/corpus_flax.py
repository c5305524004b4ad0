"""Malformed msgpack files of flax."""

from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
from corpus_forms import Bad, Harmless, file


def array(
    shape: object = (2,), dtype: object = "float32", octets: object = bytes(8), code: int = 1
) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb((shape, dtype, octets)))


def array_of(values: np.ndarray) -> msgpack.ExtType:
    return array(values.shape, values.dtype.name, values.tobytes())


def packed(tree: object) -> Callable[[Path], Path]:
    return file(msgpack.packb(tree), "m.msgpack")


def chunked(shape: object, *chunks: object) -> Callable[[Path], Path]:
    """Return a function that writes an array in parts."""
    parts = {str(index): chunk for index, chunk in enumerate(chunks)}
    tree = {"__msgpack_chunked_array__": True, "shape": shape, "chunks": parts}
    return packed({"w": tree})


VALID = msgpack.packb({"w": array()})

FLAX: dict[str, Bad | Harmless] = {
    "no-map": Bad("not a map of names", packed([1, 2])),
    "text-of-letters": Bad("not a map of names", file(b"abc", "m.msgpack")),
    "reserved-byte": Bad("not a msgpack file", file(b"\x81\xa1a\xc1", "m.msgpack")),
    "cut-off": Bad("in the middle of a value", file(VALID[:-3], "m.msgpack")),
    "trailing-bytes": Bad("after its last value", file(VALID + b"\xc0", "m.msgpack")),
    "key-twice": Bad("'a' appears more than once", file(b"\x82\xa1a\xc0\xa1a\xc0", "m.msgpack")),
    "key-a-number": Bad("names is not a text", file(b"\x81\x01\xc0", "m.msgpack")),
    "key-no-text": Bad("names is not a text", file(b"\x81\xa1\xff\xc0", "m.msgpack")),
    "deep": Bad("nested too deeply", file(b"\x81\xa1a" * 100_000 + b"\xc0", "m.msgpack")),
    "map-of-2**32": Bad("in the middle", file(b"\xdf\xff\xff\xff\xff\xa1a", "m.msgpack")),
    "text-of-4-gb": Bad("in the middle", file(b"\x81\xdb\xff\xff\xff\xff" + b"a", "m.msgpack")),
    "many-values": Bad(
        "too many values", file(b"\x81\xa1a\xdd\x00\x40\x00\x00" + bytes(1 << 22), "m.msgpack"),
        bomb=True,
    ),
    "shape-negative": Bad("impossible shape", packed({"w": array((-2,))})),
    "shape-a-text": Bad("'w' is damaged", packed({"w": array("ab")})),
    "shape-of-70-dims": Bad("impossible shape", packed({"w": array((1,) * 70)})),
    "shape-too-large": Bad("does not fit its 8 bytes", packed({"w": array((2**30,))})),
    "shape-overflowing": Bad("impossible shape", packed({"w": array((0, 2**40, 2**40))})),
    "array-of-two": Bad("'w' is damaged", packed({"w": msgpack.ExtType(1, b"\x92\x01\x02")})),
    "array-no-bytes": Bad("'w' is damaged", packed({"w": array(octets=7)})),
    "array-shorter-than-it-says": Bad(
        "'w' is damaged", packed({"w": msgpack.ExtType(1, array().data + b"\xc0")})
    ),
    "chunks-too-few": Bad("does not fit", chunked({"0": 5}, array(), array())),
    "chunks-of-two-dtypes": Bad("'w' is damaged", chunked({"0": 4}, array(), array(dtype="int32"))),
    "chunks-no-arrays": Bad("'w' is damaged", chunked({"0": 4}, 7)),
    "chunks-and-more": Bad(
        "'w' is damaged",
        packed({"w": {"__msgpack_chunked_array__": True, "shape": {}, "chunks": {}, "x": 1}}),
    ),
    "same-path": Bad("the same path", packed({"a/b": array(), "a": {"b": array()}})),
    "harmless-chunks": Harmless(chunked({"0": 2, "1": 2}, array(), array())),
    "harmless-chunks-without-a-name": Harmless(
        packed({"__msgpack_chunked_array__": True, "shape": {"0": 2}, "chunks": {"0": array()}})
    ),
    "chunks-not-flat": Bad("'w' is damaged", chunked({"0": 2, "1": 2}, array((2, 1)), array())),
    "chunks-after-another-key": Bad(
        "'w' is damaged",
        packed({"w": {"shape": {}, "__msgpack_chunked_array__": True, "chunks": {}}}),
    ),
    "text-not-utf-8": Bad("texts is not UTF-8", file(b"\x81\xa1a\xa1\xff", "m.msgpack")),
    "text-not-utf-8-in-a-list": Bad(
        "texts is not UTF-8", file(b"\x81\xa1a\x91\xd9\x02a\xc3", "m.msgpack")
    ),
    "dtype-none": Bad("'w' is damaged", packed({"w": array(dtype="float3r")})),
    "dtype-none-in-bytes": Bad("'w' is damaged", packed({"w": array(dtype=b"float32\0")})),
    "dtype-of-objects": Bad("'w' is damaged", packed({"w": array((1,), dtype="O")})),
    "dtype-of-no-bytes": Bad("'w' is damaged", packed({"w": array(dtype="S0")})),
    "dtype-other-does-not-fit": Bad("'w' is damaged", packed({"w": array((3,), dtype="<f4")})),
    "dtype-other-cut-off": Bad("'w' is damaged", packed({"w": array((1,), ">f8", bytes(9))})),
    "values-a-text": Bad("'w' is damaged", packed({"w": array(octets="12345678")})),
    "complex-of-three": Bad("'c' is damaged", packed({"c": msgpack.ExtType(2, b"\x93\1\1\1")})),
    "complex-of-texts": Bad("'c' is damaged", packed({"c": msgpack.ExtType(2, b"\x92\xa1a\1")})),
    "complex-and-more": Bad("'c' is damaged", packed({"c": msgpack.ExtType(2, b"\x92\1\1\1")})),
    "harmless-dtype-of-ml-dtypes": Harmless(packed({"w": array((8,), dtype="int4")})),
    "harmless-dtype-of-numpy": Harmless(packed({"w": array(dtype=">f4")})),
    "harmless-complex": Harmless(packed({"c": msgpack.ExtType(2, b"\x92\1\1")})),
    "harmless-bytes-as-key": Harmless(packed({b"w": array()})),
    "harmless-nothing": Harmless(packed({"step": 3})),
}  # fmt: skip
