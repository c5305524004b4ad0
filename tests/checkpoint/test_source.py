"""A checkpoint file is opened once, and changes by other programs are detected."""

from __future__ import annotations

import hashlib
import mmap
import os
import sys

import pytest
import safetensors.torch
import torch
from corpus_forms import LEGACY

from prune_gui.checkpoint import TensorWriter, bus_errors, open_checkpoint
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve

SIZE = 4 * mmap.PAGESIZE
RECIPE = """
steps:
  - {method: l1_unstructured, targets: ["*"], scope: global, amount: 0.5}
"""


def save_safetensors(path, value: float) -> None:
    safetensors.torch.save_file({"w": torch.full((SIZE,), value)}, path)


def save_zip(path, value: float) -> None:
    torch.save({"w": torch.full((SIZE,), value)}, path)


def save_legacy(path, value: float) -> None:
    torch.save({"w": torch.full((SIZE,), value)}, path, **LEGACY)


FORMATS = {"m.safetensors": save_safetensors, "zip.pt": save_zip, "legacy.pt": save_legacy}
MAPPED = ["m.safetensors", "zip.pt"]

_opened: list[str] = []


@pytest.fixture
def opened() -> list[str]:
    """Return a list to which the path of every opened file is appended."""
    if not _opened:
        sys.addaudithook(
            lambda event, arguments: (
                _opened.append(os.fsdecode(arguments[0]))
                if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike)
                else None
            )
        )
    _opened[:] = ["-"]
    return _opened


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_opened_once(tmp_path, opened, name):
    path = tmp_path / name
    FORMATS[name](path, 1.0)
    opened.clear()
    with open_checkpoint(path) as checkpoint:
        checkpoint.read("w").sum()
        checkpoint.view("w").sum()
        checkpoint.fingerprint(Monitor())
    assert opened.count(str(path)) == 1
    opened.append("-")


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_replaced_during_opening_is_read_from_one_file_only(
    tmp_path, monkeypatch, name
):
    path, other = tmp_path / name, tmp_path / "other"
    FORMATS[name](path, 1.0)
    FORMATS[name](other, 2.0)
    first = hashlib.sha256(path.read_bytes()).hexdigest()
    original_init = Source.__init__

    def open_and_swap(self: Source, path) -> None:
        original_init(self, path)
        other.replace(path)

    monkeypatch.setattr(Source, "__init__", open_and_swap)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.read("w").unique().tolist() == [1.0]
        assert checkpoint.fingerprint(Monitor()) == f"sha256:{first}"


@pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_read_does_not_end_the_process(tmp_path, name):
    path = tmp_path / name
    FORMATS[name](path, 1.0)
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        with pytest.raises(CheckpointError, match="changed by another program"):
            checkpoint.view("w")


@pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("operation", ["resolve", "mask", "pruned_by"])
def test_truncation_between_a_check_and_the_use_gives_no_mask(
    tmp_path, monkeypatch, name, operation
):
    path = tmp_path / name
    FORMATS[name](path, 1.0)
    recipe = Recipe.from_yaml(RECIPE)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(recipe, checkpoint)
        check = Source.check

        def check_and_cut_off(self: Source) -> None:
            check(self)
            monkeypatch.setattr(Source, "check", check)
            os.truncate(path, mmap.PAGESIZE)

        monkeypatch.setattr(Source, "check", check_and_cut_off)
        with pytest.raises(CheckpointError, match="changed by another program"):
            resolve(recipe, checkpoint) if operation == "resolve" else getattr(
                resolution, operation
            )("w")


@pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
def test_pages_that_the_disk_cannot_read_are_reported(tmp_path, monkeypatch):
    """A truncated file with its size and time restored simulates a failing disk."""
    path = tmp_path / "m.safetensors"
    save_safetensors(path, 1.0)
    status = path.stat()
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        os.truncate(path, status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(CheckpointError, match="the disk did not return all of its bytes"):
            checkpoint.check()


@pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_save_leaves_no_new_file(tmp_path, monkeypatch, name):
    path, out = tmp_path / name, tmp_path / f"out-{name}"
    FORMATS[name](path, 1.0)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(Recipe(), checkpoint)
        octets = TensorWriter.byte_chunks

        def cut_off(self: TensorWriter):
            for piece in octets(self):
                os.truncate(path, mmap.PAGESIZE)
                yield piece

        monkeypatch.setattr(TensorWriter, "byte_chunks", cut_off)
        with pytest.raises(CheckpointError, match="changed by another program"):
            export(resolution, out)
    assert [child.name for child in tmp_path.iterdir()] == [name]
