"""Archives that say different things to different readers, and records that lie."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from corpus_forms import archive, call, dictionary, long, octets_of, storage, tensor, text

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

END = struct.Struct("<4s4H2IH")
ZIP64_END = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
GOOD = dictionary(a=tensor())
EVIL = call("posix.system", text("true"))


def records(octets: bytes) -> tuple[bytes, bytes, int]:
    """Return the records of an archive, its directory, and how many entries that has."""
    _, _, _, _, count, nbytes, offset, _ = END.unpack(octets[-END.size :])
    return octets[:offset], octets[offset : offset + nbytes], count


def end(count: int, nbytes: int, offset: int) -> bytes:
    return END.pack(b"PK\5\6", 0, 0, count, count, nbytes, offset, 0)


def zip64_end(count: int, nbytes: int, offset: int, at: int) -> bytes:
    """Return the end of a directory for 64 bits, and what says that it lies at `at`."""
    wide = ZIP64_END.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, nbytes, offset)
    return wide + LOCATOR.pack(b"PK\6\7", 0, at, 1)


def shifted(directory: bytes, by: int) -> bytes:
    """Return a directory whose records lie so much further on."""
    made, at = bytearray(directory), 0
    while at < len(made):
        name, extra, comment = struct.unpack_from("<3H", made, at + 28)
        (offset,) = struct.unpack_from("<I", made, at + 42)
        struct.pack_into("<I", made, at + 42, offset + by)
        at += 46 + name + extra + comment
    return bytes(made)


@pytest.fixture
def both(tmp_path) -> tuple[bytes, bytes, bytes, int]:
    """Return the records of two archives, the directory of each, and how many entries it has."""
    good, listed, count = records(archive(GOOD)(tmp_path).read_bytes())
    evil, hidden, _ = records(archive(EVIL)(tmp_path).read_bytes())
    return good + evil, listed, shifted(hidden, len(good)), count


def refused(path: Path, octets: bytes, says: str) -> None:
    path.write_bytes(octets)
    with pytest.raises(CheckpointError, match=says):
        open_checkpoint(path)


def test_a_second_directory_where_the_end_says_it_is_hides_nothing(both, tmp_path):
    # zipfile takes the directory just before the end, torch the one at the offset written there.
    values, listed, hidden, count = both
    octets = values + hidden + listed + end(count, len(listed), len(values))
    refused(tmp_path / "m.pt", octets, "directory that does not end where it says")


@pytest.mark.parametrize("hidden_is_wide", [True, False])
def test_a_second_directory_for_64_bits_hides_nothing(both, tmp_path, hidden_is_wide):
    values, listed, hidden, count = both
    wide, narrow = (hidden, listed) if hidden_is_wide else (listed, hidden)
    at = len(values) + len(narrow) + len(wide)
    octets = values + narrow + wide
    octets += zip64_end(count, len(wide), len(values) + len(narrow), at)
    octets += end(count, len(narrow), len(values))
    refused(tmp_path / "m.pt", octets, "two directories that differ")


def test_an_end_for_64_bits_that_lies_elsewhere_hides_nothing(both, tmp_path):
    values, listed, hidden, count = both
    elsewhere = values + hidden
    octets = elsewhere + zip64_end(count, len(hidden), len(values), len(elsewhere))
    octets += listed
    octets += zip64_end(count, len(listed), len(octets) - len(listed), len(elsewhere))
    octets += end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    refused(tmp_path / "m.pt", octets, "two directories that differ")


def test_an_end_inside_the_comment_of_an_archive_hides_nothing(both, tmp_path):
    values, listed, hidden, count = both
    inner = hidden + end(count, len(hidden), len(values) + len(listed) + END.size)
    outer = bytearray(end(count, len(listed), len(values)))
    struct.pack_into("<H", outer, 20, len(inner))
    refused(tmp_path / "m.pt", values + listed + outer + inner, "does not start with a record")
    struct.pack_into("<H", outer, 20, len(inner) + 1)
    refused(tmp_path / "m.pt", values + listed + outer + inner + b"\0", "damaged zip")


def test_what_the_largest_archives_have_reads_right(tmp_path):
    values, listed, count = records(archive(GOOD)(tmp_path).read_bytes())
    at = len(values) + len(listed)
    octets = values + listed + zip64_end(count, len(listed), len(values), at)
    (tmp_path / "m.pt").write_bytes(octets + end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF))
    with open_checkpoint(tmp_path / "m.pt") as checkpoint:
        assert checkpoint.read("a").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_values_marked_as_a_folder_are_refused(tmp_path, compression):
    """torch leaves the storage of such a record as it finds the memory."""
    path = archive(GOOD, {}, compression)(tmp_path)
    with zipfile.ZipFile(path, "a", compression) as made:
        record = zipfile.ZipInfo("m/data/0")
        record.compress_type, record.external_attr = compression, 0x10
        made.writestr(record, b"\1" * 16)
    with pytest.raises(CheckpointError, match="'data/0' is marked as a folder"):
        open_checkpoint(path)


def test_values_whose_name_is_that_of_a_folder_are_refused(tmp_path):
    path = archive(GOOD, {"data/0": bytes(16), "data/1/": b"x"})(tmp_path)
    with pytest.raises(CheckpointError, match="'data/1/' is marked as a folder"):
        open_checkpoint(path)


def test_folders_that_a_program_packed_along_are_passed_over(tmp_path):
    with (
        zipfile.ZipFile(io.BytesIO(octets_of({"a": torch.ones(4)}))) as plain,
        zipfile.ZipFile(tmp_path / "m.pt", "w") as made,
    ):
        made.mkdir("archive")
        made.mkdir("archive/data")
        for name in plain.namelist():
            made.writestr(name, plain.read(name))
    with open_checkpoint(tmp_path / "m.pt") as checkpoint:
        assert checkpoint.read("a").tolist() == [1, 1, 1, 1]


def test_deflated_values_that_do_not_agree_with_their_checksum_are_refused(tmp_path):
    path = archive(GOOD, compression=zipfile.ZIP_DEFLATED)(tmp_path)
    octets = bytearray(path.read_bytes())
    at = octets.rindex(b"m/data/0") - 46
    octets[at + 16] ^= 1
    refused(path, bytes(octets), "record 'data/0' is damaged")


def test_what_a_deflated_record_leaves_out_is_never_taken_from_memory(tmp_path):
    """A record of 16 bytes that says it has 16,000."""
    claim = dictionary(a=tensor(storage(numel=long(4000))))
    path = archive(claim, compression=zipfile.ZIP_DEFLATED)(tmp_path)
    octets = bytearray(path.read_bytes())
    for at, field in ((octets.index(b"m/data/0") - 30, 22), (octets.rindex(b"m/data/0") - 46, 24)):
        struct.pack_into("<I", octets, at + field, 16_000)
    refused(path, bytes(octets), "record 'data/0' is damaged")


@pytest.mark.parametrize("name", ["n/extra", "../m/extra", "extra", "__MACOSX/m"])
def test_records_outside_of_the_folder_are_refused_as_torch_does(tmp_path, name):
    path = archive(GOOD)(tmp_path)
    with zipfile.ZipFile(path, "a") as made:
        made.writestr(name, b"x")
    with pytest.raises(CheckpointError, match="do not lie in one folder"):
        open_checkpoint(path)
    with pytest.raises(RuntimeError):
        torch.load(path, weights_only=True)


def test_a_name_that_ends_for_some_readers_at_a_zero_is_another_name(tmp_path):
    path = archive(GOOD, {"data/0Zx": bytes(16)})(tmp_path)
    refused(path, path.read_bytes().replace(b"data/0Z", b"data/0\0"), "storage '0' is missing")
