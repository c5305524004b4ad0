"""Torch files with unusual or damaged zip archives, and zip bombs."""

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
    compress,
    dictionary,
    edited,
    file,
    long,
    saved,
    storage,
    tensor,
)

ONE = dictionary(a=tensor())
VALID = archive(ONE)
MEMBER, END = b"PK\x01\x02", b"PK\x05\x06"


def compressed(compression: int, content: object = STATE) -> Callable[[Path], Path]:
    return lambda folder: compress(saved(content)(folder), compression)


def unrelated_archive(*records: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "m.pt", "w") as target:
            for record in records:
                target.writestr(record, "x")
        return folder / "m.pt"

    return make


def with_record(record: str, content: bytes = b"x", **options: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with warnings.catch_warnings(), zipfile.ZipFile(VALID(folder), "a") as target:
            warnings.simplefilter("ignore")
            target.writestr(record, content, **options)
        return folder / "m.pt"

    return make


def edited_at(find: Callable[[bytes], int], form: str, *values: int) -> Callable[[Path], Path]:
    return edited(VALID, lambda octets: packed_into(octets, find(octets), form, *values))


def packed_into(octets: bytes, at: int, form: str, *values: int) -> bytearray:
    result = bytearray(octets)
    struct.pack_into(f"<{form}", result, at, *values)
    return result


def edited_directory(record: str, field: int, form: str, *values: int) -> Callable[[Path], Path]:
    return edited_at(
        lambda octets: octets.rindex(f"m/{record}".encode()) - 46 + field, form, *values
    )


def edited_end(field: int, form: str, value: int) -> Callable[[Path], Path]:
    return edited_at(lambda octets: octets.rindex(END) + field, form, value)


def edited_local_header(field: int, form: str, value: int) -> Callable[[Path], Path]:
    return edited_at(lambda octets: octets.index(b"m/data/0") - 30 + field, form, value)


def zip64(*sizes: int) -> Callable[[Path], Path]:
    def edit(octets: bytes) -> bytearray:
        result = bytearray(octets)
        header_offset = result.rindex(b"m/data/0") - 46
        extra = struct.pack(f"<HH{len(sizes)}Q", 1, 8 * len(sizes), *sizes)
        struct.pack_into("<II", result, header_offset + 20, 2**32 - 1, 2**32 - 1)
        struct.pack_into("<H", result, header_offset + 30, len(extra))
        result[header_offset + 46 + 8 : header_offset + 46 + 8] = extra
        end = result.rindex(END)
        (before,) = struct.unpack_from("<I", result, end + 12)
        struct.pack_into("<I", result, end + 12, before + len(extra))
        return result

    return edited(VALID, edit)


def many_times_one_record(folder: Path) -> Path:
    """List the bytes of one large record under many names."""
    octets = bytearray(archive(ONE, {"data/0": bytes(10**6)})(folder).read_bytes())
    start, end = octets.index(MEMBER), octets.rindex(END)
    header_offset = octets.rindex(b"m/data/0") - 46
    member = octets[header_offset : header_offset + 46 + 8]
    copies = b"".join(member[:-1] + bytes([48 + i]) for i in range(1, 10))
    octets[end:end] = copies
    end += len(copies)
    struct.pack_into("<HHII", octets, end + 8, 13, 13, end - start, start)
    (folder / "m.pt").write_bytes(octets)
    return folder / "m.pt"


def prefixed(octets: bytes) -> bytes:
    return b"PK\x03\x04" + bytes(60) + octets


ARCHIVES: dict[str, Bad | Harmless] = {
    "empty": Bad("not one that torch.save wrote", unrelated_archive()),
    "of-something-else": Bad("not one that", unrelated_archive("one/readme", "two/readme")),
    "of-numpy": Bad("header of its array 'a' is invalid", unrelated_archive("a.npy", "b.npy")),
    "of-keras": Bad("HDF5 library cannot", unrelated_archive("config.json", "model.weights.h5")),
    "of-office": Bad("not one that", unrelated_archive("[Content_Types].xml", "word/a.xml")),
    "without-a-folder": Bad("not one that torch.save", unrelated_archive("data.pkl", "data/0")),
    "two-pickles": Bad("two records of the same name", with_record("n/data.pkl")),
    "two-of-a-record": Bad("two records of the same name", with_record("m/data/0", bytes(16))),
    "two-but-for-case": Bad("two records of the same name", with_record("m/DATA.PKL")),
    "torchscript": Bad(
        "TorchScript program", unrelated_archive("m/data.pkl", "m/constants.pkl", "m/code/a.py")
    ),
    "named-safetensors": Bad("Rename", saved(STATE, "m.safetensors")),
    "values-named-as-a-folder": Bad(
        "'data/1/' is marked as a folder", archive(ONE, {"data/0": bytes(16), "data/1/": b"x"})
    ),
    "name-with-a-null-byte": Bad(
        "storage '0' is missing",
        edited(archive(ONE, {"data/0Zx": bytes(16)}), lambda o: o.replace(b"data/0Z", b"data/0\0")),
    ),
    "deflated-with-a-wrong-checksum": Bad(
        "record 'data/0' is damaged",
        edited(
            archive(ONE, compression=zipfile.ZIP_DEFLATED),
            lambda o: packed_into(o, o.rindex(b"m/data/0") - 46 + 16, "I", 7),
        ),
    ),
    "deflated-and-shorter-than-claimed": Bad(  # no old memory may appear as values
        "record 'data/0' is damaged",
        edited(
            archive(
                dictionary(a=tensor(storage(numel=long(4000)))), compression=zipfile.ZIP_DEFLATED
            ),
            lambda octets: _claiming(octets, 16_000, b"m/data/0"),
        ),
    ),
    "encrypted": Bad("archive is encrypted", edited_directory("data/0", 8, "H", 1)),
    "compressed-by-lzma": Bad("in a way torch cannot read", compressed(zipfile.ZIP_LZMA)),
    "compressed-by-bzip2": Bad("in a way torch cannot read", compressed(zipfile.ZIP_BZIP2)),
    "compressed-somehow": Bad("in a way torch cannot", edited_directory("data/0", 10, "H", 99)),
    "sizes-that-differ": Bad(
        "'data/0' is declared larger", edited_directory("data/0", 24, "I", 4000)
    ),
    "sizes-beyond-the-end": Bad(
        "'data/0' is declared larger", edited_directory("data/0", 20, "II", 4000, 4000)
    ),
    "sizes-of-4-gb": Bad(
        "declared larger", edited_directory("data/0", 20, "II", 2**32 - 2, 2**32 - 2)
    ),
    "sizes-of-zip64-missing": Bad(
        "m.pt", edited_directory("data/0", 20, "II", 2**32 - 1, 2**32 - 1)
    ),
    "zip64-of-2**62": Bad("declared larger", zip64(2**62, 2**62)),
    "zip64-of-2**64-1": Bad("declared larger", zip64(2**64 - 1, 2**64 - 1)),
    "zip64-that-differs": Bad("declared larger", zip64(2**40, 16)),
    "zip64-of-one-size": Bad("m.pt", zip64(16)),
    "harmless-zip64": Harmless(zip64(16, 16)),
    "record-begins-far-away": Bad("overlap", edited_local_header(28, "H", 2**16 - 1)),
    "record-begins-elsewhere": Bad("overlap", edited_local_header(28, "H", 16)),
    "record-begins-with-another-name": Bad("overlap", edited_local_header(26, "H", 2**16 - 1)),
    "place-beyond-the-end": Bad("declared larger", edited_directory("data/0", 42, "I", 2**31)),
    "place-inside-another": Bad("m.pt", edited_directory("data.pkl", 42, "I", 7)),
    "place-of-the-first-moved": Bad("does not start", edited_directory("data.pkl", 42, "I", 60)),
    "pickle-said-to-be-short": Bad("m.pt", edited_directory("data.pkl", 20, "II", 20, 20)),
    "checksum-wrong": Bad("damaged", edited_directory("data.pkl", 16, "I", 7)),
    "count-wrong": Bad("m.pt", edited_end(10, "H", 2)),
    "list-too-long": Bad("directory of its archive does not end where", edited_end(12, "I", 2**31)),
    "list-elsewhere": Bad("directory of its archive does not end", edited_end(16, "I", 2**31)),
    "of-several-disks": Bad("m.pt", edited_end(4, "H", 3)),
    "end-cut-off": Bad("damaged zip", edited(VALID, lambda octets: octets[:-22])),
    "something-before": Bad("does not end where it is declared", edited(VALID, prefixed)),
    "something-behind": Bad("damaged zip", edited(VALID, lambda octets: octets + bytes(70_000))),
    "byte-order-nonsense": Bad("byte order is unknown", archive(ONE, order=b"middle")),
    "byte-order-huge": Bad(
        "unpacks from", archive(ONE, order=b" " * 10**7, compression=8), bomb=True
    ),
    "pickle-missing-its-storage": Bad("'0' is missing", archive(ONE, {})),
    "records-that-overlap": Bad("overlap", many_times_one_record, bomb=True),
    "bomb-of-zeros": Bad(
        "unpacks from", compressed(zipfile.ZIP_DEFLATED, {"a": torch.zeros(50_000_000)}), bomb=True
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
    "harmless-deflated": Harmless(compressed(zipfile.ZIP_DEFLATED)),
    "harmless-comment": Harmless(edited(VALID, lambda o: o[:-2] + b"\x03\0abc")),
    "harmless-record-with-nul": Harmless(
        edited(with_record("m/oddXrecord"), lambda o: o.replace(b"oddX", b"odd\0"))
    ),
}


def _claiming(octets: bytes, size: int, record: bytes = b"m/data.pkl") -> bytearray:
    changed = packed_into(octets, octets.index(record) - 30 + 22, "I", size)
    return packed_into(changed, octets.rindex(record) - 46 + 24, "I", size)
