"""Ambiguous archives, and records with false claims."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from corpus_forms import archive, call, dictionary, octets_of, tensor, text

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

END = struct.Struct("<4s4H2IH")
ZIP64_END = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
GOOD = dictionary(a=tensor())
EVIL = call("posix.system", text("true"))


def records(octets: bytes) -> tuple[bytes, bytes, int]:
    """Return the records of an archive, its directory, and the number of its entries."""
    _, _, _, _, count, nbytes, offset, _ = END.unpack(octets[-END.size :])
    return octets[:offset], octets[offset : offset + nbytes], count


def end(count: int, nbytes: int, offset: int) -> bytes:
    return END.pack(b"PK\5\6", 0, 0, count, count, nbytes, offset, 0)


def zip64_end(count: int, nbytes: int, offset: int, at: int) -> bytes:
    """Return a ZIP64 end record, and a locator with the position `at`."""
    wide = ZIP64_END.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, nbytes, offset)
    return wide + LOCATOR.pack(b"PK\6\7", 0, at, 1)


def shifted(directory: bytes, by: int) -> bytes:
    """Return a directory with the offsets of the records increased by `by` bytes."""
    target, at = bytearray(directory), 0
    while at < len(target):
        name, extra, comment = struct.unpack_from("<3H", target, at + 28)
        (offset,) = struct.unpack_from("<I", target, at + 42)
        struct.pack_into("<I", target, at + 42, offset + by)
        at += 46 + name + extra + comment
    return bytes(target)


@pytest.fixture
def both(tmp_path) -> tuple[bytes, bytes, bytes, int]:
    """Return the records of two archives, their directories, and the number of entries of each."""
    good, listed, count = records(archive(GOOD)(tmp_path).read_bytes())
    evil, hidden, _ = records(archive(EVIL)(tmp_path).read_bytes())
    return good + evil, listed, shifted(hidden, len(good)), count


def refused(path: Path, octets: bytes, says: str) -> None:
    path.write_bytes(octets)
    with pytest.raises(CheckpointError, match=says):
        open_checkpoint(path)


def test_a_second_directory_at_the_offset_in_the_end_record_is_refused(both, tmp_path):
    # zipfile uses the directory directly before the end record, torch that at the stored offset.
    values, listed, hidden, count = both
    octets = values + hidden + listed + end(count, len(listed), len(values))
    refused(tmp_path / "m.pt", octets, "directory of its archive does not end where it is declared")


@pytest.mark.parametrize("hidden_is_wide", [True, False])
def test_a_second_zip64_directory_is_refused(both, tmp_path, hidden_is_wide):
    values, listed, hidden, count = both
    wide, narrow = (hidden, listed) if hidden_is_wide else (listed, hidden)
    at = len(values) + len(narrow) + len(wide)
    octets = values + narrow + wide
    octets += zip64_end(count, len(wide), len(values) + len(narrow), at)
    octets += end(count, len(narrow), len(values))
    refused(tmp_path / "m.pt", octets, "two directories that differ")


def test_a_zip64_end_record_at_another_position_is_refused(both, tmp_path):
    values, listed, hidden, count = both
    elsewhere = values + hidden
    octets = elsewhere + zip64_end(count, len(hidden), len(values), len(elsewhere))
    octets += listed
    octets += zip64_end(count, len(listed), len(octets) - len(listed), len(elsewhere))
    octets += end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    refused(tmp_path / "m.pt", octets, "two directories that differ")


def test_an_end_record_inside_the_comment_is_refused(both, tmp_path):
    values, listed, hidden, count = both
    inner = hidden + end(count, len(hidden), len(values) + len(listed) + END.size)
    outer = bytearray(end(count, len(listed), len(values)))
    struct.pack_into("<H", outer, 20, len(inner))
    refused(tmp_path / "m.pt", values + listed + outer + inner, "does not start with a record")
    struct.pack_into("<H", outer, 20, len(inner) + 1)
    refused(tmp_path / "m.pt", values + listed + outer + inner + b"\0", "than its archive declares")


def test_a_zip64_end_record_is_read_correctly(tmp_path):
    values, listed, count = records(archive(GOOD)(tmp_path).read_bytes())
    at = len(values) + len(listed)
    octets = values + listed + zip64_end(count, len(listed), len(values), at)
    (tmp_path / "m.pt").write_bytes(octets + end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF))
    with open_checkpoint(tmp_path / "m.pt") as checkpoint:
        assert checkpoint.read("a").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_values_marked_as_a_folder_are_refused(tmp_path, compression):
    """torch leaves the memory for such a record uninitialized."""
    path = archive(GOOD, {}, compression)(tmp_path)
    with zipfile.ZipFile(path, "a", compression) as target:
        record = zipfile.ZipInfo("m/data/0")
        record.compress_type, record.external_attr = compression, 0x10
        target.writestr(record, b"\1" * 16)
    with pytest.raises(CheckpointError, match="'data/0' is marked as a folder"):
        open_checkpoint(path)


def test_entries_for_empty_folders_are_ignored(tmp_path):
    with (
        zipfile.ZipFile(io.BytesIO(octets_of({"a": torch.ones(4)}))) as plain,
        zipfile.ZipFile(tmp_path / "m.pt", "w") as target,
    ):
        target.mkdir("archive")
        target.mkdir("archive/data")
        for name in plain.namelist():
            target.writestr(name, plain.read(name))
    with open_checkpoint(tmp_path / "m.pt") as checkpoint:
        assert checkpoint.read("a").tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["n/extra", "../m/extra", "extra", "__MACOSX/m"])
def test_records_outside_of_the_folder_are_refused_as_in_torch(tmp_path, name):
    path = archive(GOOD)(tmp_path)
    with zipfile.ZipFile(path, "a") as target:
        target.writestr(name, b"x")
    with pytest.raises(CheckpointError, match="are not in one folder"):
        open_checkpoint(path)
    with pytest.raises(RuntimeError):
        torch.load(path, weights_only=True)
