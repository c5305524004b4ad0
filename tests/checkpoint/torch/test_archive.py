"""Archives: ambiguous ones are refused, their size is known, and records may be compressed."""

import io
import struct
import threading
import zipfile
import zlib
from pathlib import Path

import pytest
import torch
from corpus_forms import archive, call, dictionary, octets_of, tensor, text
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import FileOutput, TensorWriter, open_checkpoint
from prune_gui.checkpoint.torch import archive as torch_archive
from prune_gui.checkpoint.torch import storages
from prune_gui.checkpoint.torch.archive import (
    LAST_BLOCK,
    TorchArchive,
    archive_nbytes,
    deflated,
    deflated_chunks,
    padding,
)
from prune_gui.checkpoint.torch.zip_layout import MAX_GROWTH
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor

sizes = st.lists(st.integers(0, 300), max_size=8)


@given(sizes, st.integers(100, 2000), st.integers(1, 8))
def test_the_computed_size_is_that_of_the_archive_with_and_without_zip64(
    tmp_path_factory, nbytes_of_records, limit, max_records
):
    records = [(f"data/{number}", size) for number, size in enumerate(nbytes_of_records)]
    path = tmp_path_factory.mktemp("archive") / "archive.pt"
    with pytest.MonkeyPatch.context() as patch:  # ZIP64 is used for small files, too
        patch.setattr(zipfile, "ZIP64_LIMIT", limit)
        patch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", max_records)
        patch.setattr(torch_archive, "MAX_PLAIN_BYTES", limit)
        patch.setattr(torch_archive, "MAX_PLAIN_RECORDS", max_records)
        with TorchArchive(path) as written:
            for name, size in records:
                written.add(name, bytes(size))
        paths = ((f"archive/{name}", size) for name, size in records)
        assert archive_nbytes(paths, padding) == path.stat().st_size
    with zipfile.ZipFile(path) as read:
        assert read.testzip() is None


def bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def pruned(amount: float, count: int = 100_000) -> torch.Tensor:
    torch.manual_seed(0)
    weights = torch.randn(count)
    return torch.where(weights.abs() < weights.abs().quantile(amount), 0, weights)


def compressed(chunks, threads: int) -> bytes:
    return b"".join(blocks for _, _, blocks in deflated_chunks(chunks, threads)) + LAST_BLOCK


@given(st.lists(st.binary(max_size=300) | st.integers(0, 300).map(bytes), max_size=8))
def test_compressed_chunks_are_one_deflate_stream_for_any_number_of_threads(chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_archive, "DEFLATE_CHUNK_BYTES", 64)
        views = [(number, memoryview(chunk)) for number, chunk in enumerate(chunks)]
        stream = compressed(views, 1)
        assert compressed(views, 3) == stream
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    assert reader.decompress(stream) == b"".join(chunks)
    assert reader.eof
    assert reader.unused_data == b""


@pytest.mark.parametrize(("amount", "share"), [(0.5, 0.54), (0.7, 0.35), (0.9, 0.14)])
def test_pruned_weights_become_smaller_by_about_their_zeros_and_masks_by_more(amount, share):
    octets = bytes_of(pruned(amount))
    assert len(deflated(octets)) / len(octets) == pytest.approx(share, abs=0.02)
    mask = bytes_of((pruned(amount) != 0).float())
    assert len(deflated(mask)) / len(mask) < 0.1  # at least one bit per byte without matches


def test_no_chunk_shrinks_by_more_than_readers_accept():
    zeros = bytes(1 << 20)
    blocks = deflated(memoryview(zeros))
    assert MAX_GROWTH * len(blocks) >= len(zeros)
    assert len(blocks) < len(zeros) // 90
    assert zlib.decompress(blocks + LAST_BLOCK, -zlib.MAX_WBITS) == zeros


def test_only_a_few_chunks_are_compressed_in_advance_and_no_thread_remains():
    taken = []

    def chunks():
        for number in range(1000):
            taken.append(number)
            yield None, memoryview(b"abc")

    before = threading.active_count()
    prepared = deflated_chunks(chunks(), 2)
    next(prepared)
    assert len(taken) <= 5
    prepared.close()
    assert threading.active_count() == before


def made(kind: str) -> torch.Tensor:
    """Return a tensor that compresses well ("sparse", "zeros"), or not at all ("noise")."""
    torch.manual_seed(0)
    if kind == "zeros":
        return torch.zeros(300, 400)
    if kind == "noise":
        return torch.randint(0, 256, (200, 400), dtype=torch.uint8)
    return torch.randn(300, 400) * (torch.rand(300, 400) < 0.2)


def writers(state: dict[str, torch.Tensor], rows: int = 50) -> list[TensorWriter]:
    def writer(key: str, tensor: torch.Tensor) -> TensorWriter:
        dtype = str(tensor.dtype).removeprefix("torch.")
        chunks = tensor.reshape(-1).split(rows * 400)
        return TensorWriter(key, dtype, tuple(tensor.shape), lambda: iter(chunks))

    return [writer(key, tensor) for key, tensor in state.items()]


def write(out: Path, state: dict[str, torch.Tensor], template=None, monitor=None) -> None:
    output = FileOutput(path=out, tensors=writers(state), template=template, compressed=True)
    output.write({"k": "v"}, monitor or Monitor())


def methods(out: Path) -> dict[str, int]:
    """Return the compression method of each record of values, after a check of all checksums."""
    with zipfile.ZipFile(out) as read:
        assert read.testzip() is None
        return {
            record.filename: record.compress_type
            for record in read.infolist()
            if "/data/" in record.filename
        }


@pytest.mark.parametrize("limit", [None, 8])
def test_torch_loads_a_compressed_file_and_noise_stays_stored(tmp_path, monkeypatch, limit):
    if limit is not None:  # all records have ZIP64 headers
        monkeypatch.setattr(torch_archive, "MAX_PLAIN_BYTES", limit)
    state = {kind: made(kind) for kind in ("noise", "sparse", "zeros")}
    state |= {"last noise": made("noise"), "empty": torch.zeros(0), "scalar": torch.tensor(1.5)}
    out = tmp_path / "out.pt"
    write(out, state)
    loaded = torch.load(out, weights_only=True)
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[key], state[key]) for key in state)
    assert sorted(methods(out).values()) == [0, 0, 0, 0, 8, 8]
    with open_checkpoint(out) as checkpoint:
        assert checkpoint.metadata == {"k": "v"}
        assert all(torch.equal(checkpoint.read(key), state[key]) for key in state)


def test_torch_refuses_to_map_a_compressed_file(tmp_path):
    """Without the largest record at the end, torch would load compressed bytes as weights."""
    noise = {f"noise {number}": made("noise") for number in range(8)}
    write(tmp_path / "out.pt", {"w": made("sparse")} | noise)
    with pytest.raises(RuntimeError, match="resize storage"):
        torch.load(tmp_path / "out.pt", weights_only=True, mmap=True)


def test_objects_beside_the_state_dict_are_compressed_too_and_ties_stay(saved, tmp_path):
    weight = torch.nn.Parameter(made("sparse"))
    content = {"model": {"a": weight, "b": weight}, "moments": [made("sparse")], "epoch": 3}
    out = tmp_path / "out.pt"
    with open_checkpoint(saved(content)) as checkpoint:
        write(out, {"a": made("sparse")}, checkpoint)
    loaded = torch.load(out, weights_only=True)
    assert loaded["epoch"] == 3
    assert torch.equal(loaded["moments"][0], made("sparse"))
    assert loaded["model"]["a"].data_ptr() == loaded["model"]["b"].data_ptr()
    assert list(methods(out).values()) == [8, 8]


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_cancelling_leaves_the_old_file_as_it_was(tmp_path, share):
    out = tmp_path / "out.pt"
    out.write_bytes(b"old")
    state = {"a": made("sparse"), "b": made("noise")}
    total = 2 * sum(tensor.nbytes for tensor in state.values())

    class Flag:
        done = 0

        def is_set(self) -> bool:
            return self.done > share * total

    flag = Flag()
    monitor = Monitor(lambda done, _: setattr(flag, "done", done), flag)
    output = FileOutput(
        path=out, tensors=writers(state), template=None, overwrite=True, compressed=True
    )
    with pytest.raises(Cancelled):
        output.write({}, monitor)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.pt", b"old")]


def test_a_byte_that_the_disk_changes_is_found(tmp_path, monkeypatch):
    def damage(file):
        file.seek(-5000, 2)
        file.write(b"\x55" * 8)
        file.flush()

    monkeypatch.setattr(torch_archive, "flush", damage)
    with pytest.raises(CheckpointError, match="differs from the data when read back"):
        write(tmp_path / "out.pt", {"w": made("sparse")})
    assert list(tmp_path.iterdir()) == []


def test_reading_back_needs_no_memory_for_the_values(tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "LARGE_BYTES", 0)
    monkeypatch.setattr(storages, "shortage", lambda _: "more memory")
    write(tmp_path / "out.pt", {"w": made("sparse")})
    with pytest.raises(CheckpointError, match="requires more memory"):
        open_checkpoint(tmp_path / "out.pt")


def test_a_format_without_compression_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"out\.safetensors cannot be compressed.*\.pt"):
        write(tmp_path / "out.safetensors", {"w": made("sparse")})
    assert list(tmp_path.iterdir()) == []


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
