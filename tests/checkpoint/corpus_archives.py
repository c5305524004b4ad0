"""Torch files whose zip archives are odd, damaged or bombs."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from corpus_forms import (
    STATE,
    Bad,
    Harmless,
    archive,
    dictionary,
    edited,
    file,
    octets_of,
    saved,
    tensor,
)

ONE = dictionary(a=tensor())
RIGHT = archive(ONE)
MEMBER, END = b"PK\x01\x02", b"PK\x05\x06"


def packed(compression: int, content: object = STATE) -> Callable[[Path], Path]:
    """Return what packs what torch.save writes anew."""

    def make(folder: Path) -> Path:
        with (
            zipfile.ZipFile(io.BytesIO(octets_of(content))) as plain,
            zipfile.ZipFile(folder / "m.pt", "w", compression) as made,
        ):
            for record in plain.namelist():
                made.writestr(record, plain.read(record))
        return folder / "m.pt"

    return make


def others(*records: str) -> Callable[[Path], Path]:
    """Return what writes an archive of other things."""

    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "m.pt", "w") as made:
            for record in records:
                made.writestr(record, "x")
        return folder / "m.pt"

    return make


def with_record(record: str, content: bytes = b"x", **options: object) -> Callable[[Path], Path]:
    """Return what adds a record to a right archive."""

    def make(folder: Path) -> Path:
        with warnings.catch_warnings(), zipfile.ZipFile(RIGHT(folder), "a") as made:
            warnings.simplefilter("ignore")
            made.writestr(record, content, **options)
        return folder / "m.pt"

    return make


def listed(record: str, place: int, form: str, *values: int) -> Callable[[Path], Path]:
    """Return what changes what the list of an archive says of a record, from a byte on."""

    def edit(octets: bytes) -> bytearray:
        made = bytearray(octets)
        at = made.rindex(f"m/{record}".encode()) - 46
        struct.pack_into(f"<{form}", made, at + place, *values)
        return made

    return edited(RIGHT, edit)


def ended(place: int, form: str, value: int) -> Callable[[Path], Path]:
    """Return what changes what the end of an archive says."""

    def edit(octets: bytes) -> bytearray:
        made = bytearray(octets)
        struct.pack_into(f"<{form}", made, made.rindex(END) + place, value)
        return made

    return edited(RIGHT, edit)


def zip64(*sizes: int) -> Callable[[Path], Path]:
    """Return what says in the form for large files that a record has these sizes."""

    def edit(octets: bytes) -> bytearray:
        made = bytearray(octets)
        at = made.rindex(b"m/data/0") - 46
        extra = struct.pack(f"<HH{len(sizes)}Q", 1, 8 * len(sizes), *sizes)
        struct.pack_into("<II", made, at + 20, 2**32 - 1, 2**32 - 1)
        struct.pack_into("<H", made, at + 30, len(extra))
        made[at + 46 + 8 : at + 46 + 8] = extra
        end = made.rindex(END)
        (before,) = struct.unpack_from("<I", made, end + 12)
        struct.pack_into("<I", made, end + 12, before + len(extra))
        return made

    return edited(RIGHT, edit)


def begun(place: int, form: str, value: int) -> Callable[[Path], Path]:
    """Return what changes what an archive says right before the bytes of a record."""

    def edit(octets: bytes) -> bytearray:
        made = bytearray(octets)
        struct.pack_into(f"<{form}", made, made.index(b"m/data/0") - 30 + place, value)
        return made

    return edited(RIGHT, edit)


def many_times_one_record(folder: Path) -> Path:
    """List the bytes of one large record under many names."""
    octets = bytearray(archive(ONE, {"data/0": bytes(10**6)})(folder).read_bytes())
    start, end = octets.index(MEMBER), octets.rindex(END)
    at = octets.rindex(b"m/data/0") - 46
    member = octets[at : at + 46 + 8]
    copies = b"".join(member[:-1] + bytes([48 + i]) for i in range(1, 10))
    octets[end:end] = copies
    end += len(copies)
    struct.pack_into("<HHII", octets, end + 8, 13, 13, end - start, start)
    (folder / "m.pt").write_bytes(octets)
    return folder / "m.pt"


def moved(octets: bytes) -> bytes:
    """Put something before an archive."""
    return b"PK\x03\x04" + bytes(60) + octets


def swapped(folder: Path) -> Path:
    """Write the values of a right file in the order of the other kind of machine."""
    numbers = struct.pack(">4f", 1, 2, 3, 4)
    return archive(ONE, {"data/0": numbers}, order=b"big")(folder)


ARCHIVES: dict[str, Bad | Harmless] = {
    "empty": Bad("not one that torch.save wrote", others()),
    "of-something-else": Bad("not one that torch.save wrote", others("one/readme", "two/readme")),
    "of-numpy": Bad("not one that torch.save wrote", others("a.npy", "b.npy")),
    "of-keras": Bad("not one that torch.save wrote", others("config.json", "model.weights.h5")),
    "of-office": Bad("not one that torch.save wrote", others("[Content_Types].xml", "word/a.xml")),
    "without-a-folder": Bad("not one that torch.save wrote", others("data.pkl", "data/0")),
    "two-pickles": Bad("two records of the same name", with_record("n/data.pkl")),
    "two-of-a-record": Bad("two records of the same name", with_record("m/data/0", bytes(16))),
    "two-but-for-case": Bad("two records of the same name", with_record("m/DATA.PKL")),
    "torchscript": Bad(
        "TorchScript program", others("m/data.pkl", "m/constants.pkl", "m/code/a.py")
    ),
    "torchscript-to-convert": Bad('torch.jit.load("m.pt")', others("m/constants.pkl")),
    "named-safetensors": Bad("Rename", saved(STATE, "m.safetensors")),
    "encrypted": Bad("archive is encrypted", listed("data/0", 8, "H", 1)),
    "compressed-by-lzma": Bad("in a way torch cannot read", packed(zipfile.ZIP_LZMA)),
    "compressed-by-bzip2": Bad("in a way torch cannot read", packed(zipfile.ZIP_BZIP2)),
    "compressed-somehow": Bad("in a way torch cannot read", listed("data/0", 10, "H", 99)),
    "sizes-that-differ": Bad("'data/0' claims more", listed("data/0", 24, "I", 4000)),
    "sizes-beyond-the-end": Bad("'data/0' claims more", listed("data/0", 20, "II", 4000, 4000)),
    "sizes-of-4-gb": Bad("claims more", listed("data/0", 20, "II", 2**32 - 2, 2**32 - 2)),
    "sizes-of-zip64-missing": Bad("m.pt", listed("data/0", 20, "II", 2**32 - 1, 2**32 - 1)),
    "zip64-of-2**62": Bad("claims more", zip64(2**62, 2**62)),
    "zip64-of-2**64-1": Bad("claims more", zip64(2**64 - 1, 2**64 - 1)),
    "zip64-that-differs": Bad("claims more", zip64(2**40, 16)),
    "zip64-of-one-size": Bad("m.pt", zip64(16)),
    "harmless-zip64": Harmless(zip64(16, 16)),
    "record-begins-far-away": Bad("overlap", begun(28, "H", 2**16 - 1)),
    "record-begins-elsewhere": Bad("overlap", begun(28, "H", 16)),
    "record-begins-with-another-name": Bad("overlap", begun(26, "H", 2**16 - 1)),
    "place-beyond-the-end": Bad("claims more", listed("data/0", 42, "I", 2**31)),
    "place-inside-another": Bad("m.pt", listed("data.pkl", 42, "I", 7)),
    "place-of-the-first-moved": Bad(
        "does not start with a record", listed("data.pkl", 42, "I", 60)
    ),
    "pickle-said-to-be-short": Bad("m.pt", listed("data.pkl", 20, "II", 20, 20)),
    "checksum-wrong": Bad("damaged", listed("data.pkl", 16, "I", 7)),
    "count-wrong": Bad("m.pt", ended(10, "H", 2)),
    "list-too-long": Bad("directory that does not end where it says", ended(12, "I", 2**31)),
    "list-elsewhere": Bad("directory that does not end where it says", ended(16, "I", 2**31)),
    "of-several-disks": Bad("m.pt", ended(4, "H", 3)),
    "end-cut-off": Bad("damaged zip", edited(RIGHT, lambda octets: octets[:-22])),
    "something-before": Bad("does not end where it says", edited(RIGHT, moved)),
    "something-behind": Bad("damaged zip", edited(RIGHT, lambda octets: octets + bytes(70_000))),
    "byte-order-nonsense": Bad("order of bytes is unknown", archive(ONE, order=b"middle")),
    "byte-order-huge": Bad(
        "unpacks from", archive(ONE, order=b" " * 10**7, compression=8), bomb=True
    ),
    "pickle-missing-its-storage": Bad("'0' is missing", archive(ONE, {})),
    "records-that-overlap": Bad("overlap", many_times_one_record, bomb=True),
    "bomb-of-zeros": Bad(
        "unpacks from", packed(zipfile.ZIP_DEFLATED, {"a": torch.zeros(50_000_000)}), bomb=True
    ),
    "bomb-that-claims-little": Bad(
        "m.pt",
        edited(
            archive(ONE + b"0" + b"]0" * 30_000_000 + ONE, compression=zipfile.ZIP_DEFLATED),
            lambda octets: _claiming(octets, 1000),
        ),
        bomb=True,
    ),
    "bomb-in-our-record": Bad(
        "unpacks from",
        archive(
            ONE, {"data/0": bytes(16), "prune_gui.json": b" " * 50_000_000}, zipfile.ZIP_DEFLATED
        ),
        bomb=True,
    ),
    "nothing-but-the-magic": Bad("m.pt", file(b"PK\x03\x04")),
    "magic-and-zeros": Bad("m.pt", file(b"PK\x03\x04" + bytes(1000))),
    "magic-and-noise": Bad("m.pt", file(b"PK\x03\x04" + bytes(range(256)) * 9)),
    "harmless-deflated": Harmless(packed(zipfile.ZIP_DEFLATED)),
    "harmless-big-endian": Harmless(swapped),
    "harmless-comment": Harmless(edited(RIGHT, lambda o: o[:-2] + b"\x03\0abc")),
    "record-elsewhere": Bad("not lie in one folder", with_record("../../etc/passwd")),
    "harmless-record-with-nul": Harmless(
        edited(with_record("m/oddXrecord"), lambda o: o.replace(b"oddX", b"odd\0"))
    ),
    "harmless-own-record-of-nonsense": Harmless(with_record("m/prune_gui.json", b"[" * 99_999)),
}


def _claiming(octets: bytes, size: int) -> bytearray:
    """Say of the pickle that it unpacks to so many bytes, in both of its places."""
    made = bytearray(octets)
    for before, place in ((30, 22), (46, 24)):
        at = (made.index if before == 30 else made.rindex)(b"m/data.pkl") - before
        struct.pack_into("<I", made, at + place, size)
    return made
