"""Malformed `.npz` archives."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corpus_forms import Bad, Harmless, file


def npy(shape: str = "(2,)", descr: str = "'<f4'", values: bytes = bytes(8)) -> bytes:
    fields = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\0" + len(fields).to_bytes(2, "little") + fields + values


def archive_bytes(
    *octets: bytes, compression: int = zipfile.ZIP_STORED, name: str = "a.npy"
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as target:
        target.writestr("b.npy", npy())
        for each in octets:
            target.writestr(name, each)
    return buffer.getvalue()


def archive(*octets: bytes, **options: object) -> Callable[[Path], Path]:
    """Return a function that writes an archive with these files."""
    return file(archive_bytes(*octets, **options), "m.npz")


def edited(old: bytes, new: bytes) -> Callable[[Path], Path]:
    return file(archive_bytes(npy()).replace(old, new), "m.npz")


def not_text(octets: bytes, name: bytes) -> bytes:
    """Return an archive in which a name starts with a byte that is not text, declared as UTF-8.

    The name is changed wherever it is: in the local header, in the directory, or in both.
    """
    changed = bytearray(octets)
    for magic, flags, name_start in ((b"PK\x03\x04", 7, 30), (b"PK\x01\x02", 9, 46)):
        start = octets.find(name)
        while start >= 0:
            header = start - name_start
            if octets[header : header + 4] == magic:
                changed[start], changed[header + flags] = 0xFF, 8
            start = octets.find(name, start + 1)
    return bytes(changed)


def objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([None, print], dtype=object), allow_pickle=True)
    return buffer.getvalue()


NPZ: dict[str, Bad | Harmless] = {
    "no-header": Bad("header of its array 'a'", archive(b"abc")),
    "header-of-code": Bad("header of its array 'a'", archive(npy("(exit(),)"))),
    "header-nested": Bad("header of its array 'a'", archive(npy("(" * 9000 + ")" * 9000))),
    "header-unclosed": Bad("header of its array 'a'", archive(npy().replace(b"}\n", b" \n"))),
    "header-unclosed-text": Bad("header of its array 'a'", archive(npy(descr="'''<f4'"))),
    "name-not-text": Bad("damaged zip", file(not_text(archive_bytes(npy()), b"a.npy"), "m.npz")),
    "larger-by-7": Bad("bytes after its end: 7", file(archive_bytes(npy()) + bytes(7), "m.npz")),
    "header-too-long": Bad("header of its array 'a'", archive(npy("(" + "1," * 20000 + ")"))),
    "dtype-unknown": Bad("header of its array 'a'", archive(npy(descr="'q99'"))),
    "shape-negative": Bad("impossible shape", archive(npy("(-2,)"))),
    "shape-true": Bad("impossible shape", archive(npy("(True, 2)"))),
    "shape-too-large": Bad("does not fit its 8 bytes", archive(npy("(2000000000,)"))),
    "shape-of-2**70": Bad("impossible shape", archive(npy(f"({2**70},)"))),
    "shape-empty-but-overflowing": Bad("impossible shape", archive(npy(f"(0, {2**40}, {2**40})"))),
    "values-too-many": Bad("does not fit its 9 bytes", archive(npy(values=bytes(9)))),
    "compressed-by-lzma": Bad("compressed in a way", archive(npy(), compression=zipfile.ZIP_LZMA)),
    "cut-off": Bad("damaged zip", file(archive_bytes(npy())[:-30], "m.npz")),
    "bomb": Bad(
        "unpacks from",
        archive(npy("(50000000,)", values=bytes(200_000_000)), compression=zipfile.ZIP_DEFLATED),
        bomb=True,
    ),
    "two-of-a-name": Bad("two records of the same name", edited(b"a.npy", b"b.npy")),
    "harmless-objects": Harmless(archive(objects())),
    "harmless-structured": Harmless(archive(npy(descr="[('x', '<f4')]"))),
    "harmless-big-endian": Harmless(archive(npy(descr="'>f4'"))),
    "harmless-text-file": Harmless(archive(b"anything", name="readme")),
}
