"""Compressed torch files: who can load them, and what is left after a failure."""

from __future__ import annotations

import errno
import zipfile
from pathlib import Path

import pytest
import torch

from prune_gui.checkpoint import TensorWriter, open_checkpoint, write_checkpoint
from prune_gui.checkpoint.torch import archive, storages
from prune_gui.checkpoint.torch import archive as torch_archive
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor


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
    write_checkpoint(
        out,
        writers(state),
        template=template,
        metadata={"k": "v"},
        compressed=True,
        monitor=monitor or Monitor(),
    )


def methods(out: Path) -> dict[str, int]:
    """Return the compression method of each record of values, after a check of all checksums."""
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        return {
            record.filename: record.compress_type
            for record in archive.infolist()
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


def test_a_file_of_zeros_can_be_opened_again(tmp_path):
    zeros = torch.zeros(1000, 400)
    write(tmp_path / "out.pt", {"w": zeros})
    assert (tmp_path / "out.pt").stat().st_size < zeros.nbytes // 50
    with open_checkpoint(tmp_path / "out.pt") as checkpoint:
        assert torch.equal(checkpoint.read("w"), zeros)


def test_the_bytes_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "DEFLATE_CHUNK_BYTES", 10_000)
    files = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        write(tmp_path / f"{threads}.pt", {"a": made("sparse"), "b": made("noise")})
        files.append((tmp_path / f"{threads}.pt").read_bytes())
    assert files[0] == files[1]


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
    with pytest.raises(Cancelled):
        write_checkpoint(
            out,
            writers(state),
            template=None,
            metadata={},
            overwrite=True,
            compressed=True,
            monitor=monitor,
        )
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


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch_archive, "flush", full)
    with pytest.raises(CheckpointError, match="the disk is full"):
        write(tmp_path / "out.pt", {"w": made("sparse")})
    assert list(tmp_path.iterdir()) == []


def test_a_format_without_compression_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"out\.safetensors cannot be compressed.*\.pt"):
        write(tmp_path / "out.safetensors", {"w": made("sparse")})
    assert list(tmp_path.iterdir()) == []
