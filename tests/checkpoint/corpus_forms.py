"""The classes of the corpus, and functions that build parts of bad torch files."""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

RAN = "ran"
LEGACY = {"_use_new_zipfile_serialization": False}
PREAMBLE = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})


@dataclass(frozen=True)
class Bad:
    """A file that is refused with words of a message.

    `make` writes it to a folder and returns its path. A bomb makes a naive reader use excessive
    memory or time.
    """

    says: str
    make: Callable[[Path], Path]
    bomb: bool = False


@dataclass(frozen=True)
class Harmless:
    """An unusual file that opens; `make` and `bomb` as in `Bad`, `says` of the remarks on it."""

    make: Callable[[Path], Path]
    bomb: bool = False
    says: str = ""


def file(octets: bytes, name: str = "m.pt") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(octets)
        return folder / name

    return make


def text(value: str) -> bytes:
    octets = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(octets)) + octets


def name(path: str) -> bytes:
    module, _, last = path.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def call(path: str, *arguments: bytes) -> bytes:
    return name(path) + b"(" + b"".join(arguments) + b"tR"


def dictionary(**members: bytes) -> bytes:
    return b"}" + b"".join(text(key) + value + b"s" for key, value in members.items())


def storage(key: str = "0", numel: bytes = b"K\x04", kind: str = "torch.FloatStorage") -> bytes:
    return b"(" + text("storage") + name(kind) + text(key) + text("cpu") + numel + b"tQ"


def shaped(*sizes: int) -> bytes:
    return b"(" + b"".join(long(size) for size in sizes) + b"t"


def long(value: int) -> bytes:
    octets = pickle.encode_long(value)
    return b"\x8a" + bytes([len(octets)]) + octets


def tensor(
    of: bytes | None = None,
    offset: bytes = b"K\x00",
    shape: bytes = b"K\x04\x85",
    strides: bytes = b"K\x01\x85",
    hooks: bytes = b"}",
    rest: bytes = b"",
    version: str = "_v2",
) -> bytes:
    of = storage() if of is None else of
    return call(
        f"torch._utils._rebuild_tensor{version}", of, offset, shape, strides, b"\x89", hooks, rest
    )


def archive(
    octets: bytes,
    records: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
    order: bytes = b"little",
    name_in_folder: str = "m.pt",
) -> Callable[[Path], Path]:
    """Return a function that writes an archive; `octets` is a pickle without PROTO and STOP."""
    records = {"data/0": bytes(16)} if records is None else records

    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / name_in_folder, "w", compression) as target:
            target.writestr("m/data.pkl", b"\x80\x02" + octets + b".")
            target.writestr("m/byteorder", order)
            for record, content in records.items():
                target.writestr(f"m/{record}", content)
            target.writestr("m/version", "3\n")
        return folder / name_in_folder

    return make


def legacy(
    octets: bytes,
    keys: tuple[str, ...] = ("0",),
    data: bytes = (4).to_bytes(8, "little") + bytes(16),
) -> Callable[[Path], Path]:
    """Return a function that writes a legacy file; `octets` is a pickle without PROTO and STOP."""
    before = b"".join(pickle.dumps(value, 2) for value in PREAMBLE)
    return file(before + b"\x80\x02" + octets + b"." + pickle.dumps(list(keys), 2) + data)


def compress(path: Path, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path) as plain:
        records = {record: plain.read(record) for record in plain.namelist()}
    with zipfile.ZipFile(path, "w", compression) as target:
        for record, content in records.items():
            target.writestr(record, content)
    return path


def saved(
    content: object, name_in_folder: str = "m.pt", **options: object
) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        torch.save(content, folder / name_in_folder, **options)
        return folder / name_in_folder

    return make


def octets_of(content: object, **options: object) -> bytes:
    """Return the bytes that torch.save writes."""
    result = io.BytesIO()
    torch.save(content, result, **options)
    return result.getvalue()


def edited(
    make: Callable[[Path], Path], edit: Callable[[bytes], bytes | bytearray]
) -> Callable[[Path], Path]:
    def make_and_edit(folder: Path) -> Path:
        path = make(folder)
        path.write_bytes(edit(path.read_bytes()))
        return path

    return make_and_edit


STATE = OrderedDict(weight=torch.arange(600.0).reshape(20, 30), bias=torch.ones(20))
