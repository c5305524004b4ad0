"""Files of less than a megabyte open or are refused within two seconds, whatever they contain."""

from __future__ import annotations

import random
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from corpus_forms import archive, call, dictionary, file, legacy, long, name, storage, tensor, text

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

MAX_BYTES = 1_000_000
MAX_SECONDS = 2

VIEW = b"(" + storage() + b"K\x00K\x04\x85K\x01\x85\x89}t"
"""The arguments of a tensor."""
REBUILD = name("torch._utils._rebuild_tensor_v2")


def short(value: str) -> bytes:
    """Return the opcode of protocol 4 for a text of less than 256 bytes."""
    return b"\x8c" + bytes([len(value)]) + value.encode()


def repeated(octets: bytes, nbytes: int = 990_000, then: bytes = b"") -> bytes:
    """Return as many copies as fit, each followed by `then` at the end."""
    count = nbytes // (len(octets) + len(then))
    return octets * count + then * count


def listed(octets: bytes) -> bytes:
    return b"](" + octets + b"e"


def beside(octets: bytes) -> bytes:
    """Return a state dict, and these opcodes before it, whose results are dropped."""
    return octets + b"0" + dictionary(w=tensor())


def numbered(value: bytes, count: int) -> bytes:
    """Return a dictionary with one value, from the memo, under many names."""
    names = b"".join(short(f"{index:x}") + value for index in range(count))
    return b"}(" + names + b"u"


def modules(depth: int, width: int, parameters: int) -> bytes:
    """Return modules that contain each other `width` times, with one tensor under many names."""
    result = name("a.B") + b"q\x010" + tensor() + b"q\x020"
    members = numbered(b"h\x02", parameters) + b"q\x030"
    inner = b"}q\x04" if not depth else b""
    result += members + inner + (b"0" if inner else b"")
    for _ in range(depth):
        children = b"}q\x05(" + b"".join(short(f"{i}") + b"h\x04" for i in range(width)) + b"u0"
        state = dictionary(_parameters=b"h\x03", _modules=b"h\x05" if _ else b"}", _buffers=b"}")
        result += (children if _ else b"") + b"h\x01)\x81" + state + b"bq\x040"
    return result + b"h\x04"


def deflated(octets: bytes) -> Callable[[Path], Path]:
    """Return a function that writes a compressed pickle beside noise, which stays large."""
    noise = random.Random(0).randbytes(900_000)
    return archive(octets, {"data/0": bytes(16), "noise": noise}, zipfile.ZIP_DEFLATED)


NESTED = name("a.B") + b"q\x010"
MANY = 3_000_000
SLOW: dict[str, Callable[[Path], Path]] = {
    "marks of ten million": deflated(b"(" * 10_000_000),
    "nothing": deflated(listed(b"N" * 10_000_000)),
    "dictionaries": archive(listed(repeated(b"}"))),
    "dictionaries, compressed": deflated(listed(b"}" * MANY)),
    "dictionaries with a value": archive(listed(repeated(b"}K\x01Ns"))),
    "dictionaries in each other": archive(beside(b"}K\x01" * 240_000 + b"N" + b"s" * 240_000)),
    "tuples in each other": archive(beside(b")" + repeated(b"\x85"))),
    "tuples in each other as a key": archive(b"})" + repeated(b"\x85") + b"Ns"),
    "calls": archive(beside(NESTED + listed(repeated(b"h\x01)R")))),
    "calls in calls": archive(beside(NESTED + b"N" + repeated(b"\x85", 900_000))),
    "calls in their arguments": archive(
        beside(b"N" + repeated(b"q\x020h\x01h\x02\x85R")).replace(b"N", NESTED + b"N", 1)
    ),
    "attributes of attributes": archive(
        beside(
            name("builtins.getattr")
            + b"q\x010"
            + name("a.B")
            + repeated(b"q\x020h\x01h\x02U\x01x\x86R")
        )
    ),
    "getattr passed around": archive(
        beside(
            name("builtins.getattr")
            + b"q\x010"
            + call("builtins.getattr", name("a.B"), text("x"))
            + b"0"
            + listed(repeated(b"h\x01"))
        )
    ),
    "calls, compressed": deflated(beside(NESTED + listed(b"h\x01)R" * MANY))),
    "tensors": archive(REBUILD + b"q\x010" + VIEW + b"q\x020" + listed(repeated(b"h\x01h\x02R"))),
    "tensors, compressed": deflated(
        REBUILD + b"q\x010" + VIEW + b"q\x020" + listed(b"h\x01h\x02R" * MANY)
    ),
    "one tensor by many names": archive(tensor() + b"q\x010" + numbered(b"h\x01", 100_000)),
    "state dicts": archive(
        tensor()
        + b"q\x010"
        + dictionary(w=b"h\x01")
        + b"q\x020"
        + b"}("
        + b"".join(short(f"{i:x}") + dictionary(w=b"h\x01") for i in range(50_000))
        + b"u"
    ),
    "state dicts, compressed": deflated(
        tensor()
        + b"q\x010}("
        + b"".join(short(f"{i:x}") + dictionary(w=b"h\x01") for i in range(40_000))
        + b"u"
    ),
    "lists of tensors": deflated(
        tensor() + b"q\x010" + listed((b"](" + b"h\x01" * 9 + b"e") * 100_000)
    ),
    "parameters of modules": archive(modules(1, 0, 100_000)),
    "modules in each other": archive(modules(60, 2, 1)),
    "modules with many names in each other": archive(modules(8, 4, 60_000)),
    "modules with long names": archive(
        modules(40, 2, 1).replace(short("0"), b"X\x10\x27\0\0" + b"n" * 10_000)
    ),
    "optimizers": archive(
        dictionary(
            w=tensor(), o=listed(repeated(dictionary(state=b"}", param_groups=b"]"), 900_000))
        )
    ),
    "objects that share their attributes": archive(
        tensor()
        + b"q\x030"
        + NESTED
        + numbered(b"h\x03", 60_000)
        + b"q\x020"
        + listed(repeated(b"h\x01)\x81h\x02b", 500_000))
    ),
    "names": archive(listed(b"".join(name(f"a.{i:x}") for i in range(90_000)))),
    "a long name": archive(beside(name("a." + "b" * 980_000))),
    "long names": archive(
        beside(
            short("a")
            + b"q\x010"
            + b"X"
            + (900_000).to_bytes(4, "little")
            + b"b." * 450_000
            + b"q\x020"
            + listed(b"h\x01h\x02\x93" * 10_000)
        )
    ),
    "numbers as keys": archive(
        b"}(" + b"".join(long((2**61 - 1) * i) + b"N" for i in range(60_000)) + b"u"
    ),
    "copies": archive(
        beside(
            name("collections.OrderedDict")
            + b"q\x010"
            + numbered(b"N", 80_000)
            + b"\x85q\x020"
            + listed(b"h\x01h\x02R" * 40_000)
        )
    ),
    "storages": archive(
        b"}("
        + b"".join(
            short(f"{i}") + tensor(storage(f"{i}", b"K\x01"), shape=b"K\x01\x85")
            for i in range(5200)
        )
        + b"u",
        {f"data/{i}": bytes(4) for i in range(5200)},
        zipfile.ZIP_DEFLATED,
    ),
    "records": archive(
        dictionary(w=tensor()), {"data/0": bytes(16), **{f"{i}": b"" for i in range(9000)}}
    ),
    "pickles of a legacy file": legacy(beside(repeated(b"N0", 900_000))),
    "a plain pickle": file(b"\x80\x02" + repeated(b"}") + b"."),
    "text of a plain pickle": file(b"(" + repeated(b"I1\n") + b"."),
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_small_file_opens_or_is_refused_soon(tmp_path, kind):
    path = SLOW[kind](tmp_path)
    assert path.stat().st_size < MAX_BYTES
    start = time.process_time()
    with suppress(CheckpointError), open_checkpoint(path) as opened:
        assert len(opened.module_types) == len(opened.tensors)
    assert time.process_time() - start < MAX_SECONDS
