"""A file is opened once, changes by other programs are detected, and lost pages are zeros."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import mmap
import os
import subprocess
import sys
from functools import partial

import pytest
import safetensors.torch
import torch
from corpus_forms import LEGACY

from prune_gui.checkpoint import TensorWriter, bus_errors, open_checkpoint
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import SpanTensor, check_spans
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve

SIZE = 4 * mmap.PAGESIZE
RECIPE = """
steps:
  - {method: l1_unstructured, targets: ["*"], scope: global, amount: 0.5}
"""
FORMATS = {
    "m.safetensors": safetensors.torch.save_file,
    "zip.pt": torch.save,
    "legacy.pt": partial(torch.save, **LEGACY),
}
MAPPED = ["m.safetensors", "zip.pt"]
linux_only = pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
PAGES = 3
WATCHED = """
import ctypes, mmap, sys
from prune_gui.checkpoint.bus_errors import watch

lost = ctypes.c_uint64()
file = open(sys.argv[1], "r+b")
watched = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
watch(watched, lost)
"""
TRUNCATE = "file.truncate(mmap.PAGESIZE)\n"
RAW = RawTensor((2,), "float32")


def save(path, value: float, name: str = "m.safetensors") -> None:
    state = {"w": torch.full((SIZE,), value)}
    content = state if name == "m.safetensors" else {"model": state, "beside": [torch.ones(SIZE)]}
    FORMATS[name](content, path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_replaced_during_opening_is_read_from_one_file_only(
    tmp_path, monkeypatch, name
):
    path, other = tmp_path / name, tmp_path / "other"
    save(path, 1.0, name)
    save(other, 2.0, name)
    first = hashlib.sha256(path.read_bytes()).hexdigest()
    original_init = Source.__init__

    def open_and_swap(self: Source, path) -> None:
        original_init(self, path)
        other.replace(path)

    monkeypatch.setattr(Source, "__init__", open_and_swap)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.read("w").unique().tolist() == [1.0]
        assert checkpoint.fingerprint(Monitor()) == f"sha256:{first}"


@linux_only
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_read_does_not_end_the_process(tmp_path, name):
    path = tmp_path / name
    save(path, 1.0, name)
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        with pytest.raises(CheckpointError, match="changed by another program"):
            checkpoint.view("w")


@linux_only
@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("operation", ["resolve", "mask", "pruned_by"])
def test_truncation_between_a_check_and_the_use_gives_no_mask(
    tmp_path, monkeypatch, name, operation
):
    path = tmp_path / name
    save(path, 1.0, name)
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


@linux_only
def test_pages_that_the_disk_cannot_read_are_reported(tmp_path, monkeypatch):
    """A truncated file with its size and time restored simulates a failing disk."""
    path = tmp_path / "m.safetensors"
    save(path, 1.0)
    status = path.stat()
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        os.truncate(path, status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(CheckpointError, match="the disk did not return all of its bytes"):
            checkpoint.check()


@linux_only
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_save_leaves_no_new_file(tmp_path, monkeypatch, name):
    path, out = tmp_path / name, tmp_path / f"out-{name}"
    save(path, 1.0, name)
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


@pytest.fixture
def cut_off(tmp_path):
    """Return a function that runs lines of Python with a mapped file: (exit code, output)."""
    path = tmp_path / "file"
    path.write_bytes(b"\x07" * PAGES * mmap.PAGESIZE)

    def run(lines: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", WATCHED + lines, str(path)], capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    return run


@linux_only
def test_the_handler_is_installed_again_after_another_one(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable()\n"
        "again = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY); watch(again, lost)\n"
        f"{TRUNCATE}print(watched[-1], again[-1])"
    )
    assert cut_off(lines) == (0, "0 0\n")


@linux_only
def test_a_bus_error_in_another_mapping_ends_the_process_with_a_trace(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable(); watch(watched, lost)\n"
        "other = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        f"{TRUNCATE}print(other[-1])"
    )
    status, output = cut_off(lines)
    assert status < 0
    assert "Bus error" in output


@linux_only
def test_a_deleted_mapping_is_no_longer_watched(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(mmap.PAGESIZE))
    handler = bus_errors._handler()
    gc.collect()
    watched = sum(map(bool, handler.spans))
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    bus_errors.watch(pages, ctypes.c_uint64())
    assert sum(map(bool, handler.spans)) == watched + bus_errors.FIELDS_PER_MAPPING
    del pages
    assert sum(map(bool, handler.spans)) == watched


def test_spans_may_be_equal_but_not_overlap_or_leave_the_file():
    check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((0, 8),))}, 8)
    with pytest.raises(FalseClaimError, match="'b' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((4, 12),))}, 12)
    with pytest.raises(FalseClaimError, match="'a' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),))}, 7)
